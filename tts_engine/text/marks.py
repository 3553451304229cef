"""Markup out, spoken characters through: a machine that takes the answer character by character.

It works on the part of the answer that is still undecided, from its front. A rule looks at that
part and tells how many characters it takes; none means that it has to see more. What a rule needs
to see is bounded, so the first clause is not delayed and the time is linear.
"""

from __future__ import annotations

import html

from tts_engine.text import patterns as p
from tts_engine.text.chars import fold, is_ascii_alnum, is_hanzi
from tts_engine.text.emoji import is_pictograph
from tts_engine.text.emotion import is_emotion, may_become_emotion
from tts_engine.text.spans import Piece

_INVISIBLE = "\u200b"


class MarkupFilter:
    """Feed it the characters that belong in the context; it gives back what is to be spoken."""

    def __init__(self) -> None:
        self._text = ""  # undecided
        self._base = 0  # raw offset of its first character
        self._out: list[Piece] = []
        self._last = ""  # the last visible character that went out, on this line
        self._line_start = True
        self._cell = False  # a table cell ended, and the next one has not begun
        self._fence = ""  # inside a code block: the character of its fence
        self._url = False  # inside an address
        self._final = False
        self._rules = {
            "\n": self._newline,
            "`": self._backtick,
            "*": self._star,
            "~": self._tilde,
            "～": self._tilde,
            "$": self._dollar,
            "\\": self._backslash,
            "!": self._exclamation,
            "[": self._bracket,
            "【": self._bracket,
            "]": self._bracket_end,
            "<": self._angle,
            "&": self._ampersand,
            "|": self._pipe,
            "}": self._brace_end,
        }

    def feed(self, char: str) -> list[Piece]:
        """The pieces that are decided now."""
        if not self._text and self._plain and "\u4e00" <= char <= "\u9fff":
            self._emit(char)  # the common case of Chinese text, at a quarter of the time
            self._base += 1
            out, self._out = self._out, []
            return out
        self._text += fold(char)
        return self._run()

    def finish(self) -> list[Piece]:
        """The rest, at the end of the answer."""
        self._final = True
        return self._run()

    @property
    def _plain(self) -> bool:
        return not (self._line_start or self._fence or self._url)

    # --- the machine ----------------------------------------------------------------------------
    def _run(self) -> list[Piece]:
        while self._text:
            taken = self._step()
            if not taken:
                break
            self._base += taken
            self._text = self._text[taken:]
        out, self._out = self._out, []
        return out

    def _step(self) -> int:
        char = self._text[0]
        if self._fence:
            return self._in_fence(char)
        if self._url:
            return self._in_url()
        if self._line_start:
            taken = self._at_line_start()
            if taken is not None:
                return taken
            self._line_start = False
        rule = self._rules.get(char)
        if rule:
            return rule()
        if is_ascii_alnum(char):
            return self._word()
        if char in "_】" or is_pictograph(char):
            return self._emit(" ")
        if char in (_INVISIBLE, "{"):
            return 1
        return self._emit(char)

    def _emit(self, chars: str, taken: int = 1) -> int:
        """Lets `chars` out for the first `taken` characters of what is undecided."""
        end = self._base + taken
        for char in chars:
            if char > " ":
                if self._cell:
                    self._cell = False
                    comma = "，" if is_hanzi(self._last) or is_hanzi(char) else ","
                    self._out += Piece(comma, end - taken), Piece(" ", end - taken)
                self._last = char
            self._out.append(Piece(char, end))
        return taken

    def _waits(self, longest: int) -> bool:
        return not self._final and len(self._text) <= longest

    # --- where a line or a table cell starts ----------------------------------------------------
    def _at_line_start(self) -> int | None:
        if self._text[0] == "\n":
            return None
        if self._text.startswith(p.TILDE_FENCE):
            return self._open_fence(len(p.TILDE_FENCE))
        if not self._final and p.LINE_OPEN.fullmatch(self._text):
            return 0
        mark = p.LINE_MARK.match(self._text)
        return mark.end() if mark else None

    def _newline(self) -> int:
        self._line_start = True
        self._cell = False
        self._last = ""
        return self._emit("\n")

    def _pipe(self) -> int:
        self._line_start = True
        self._cell = bool(self._last)
        return 1

    # --- code -----------------------------------------------------------------------------------
    def _backtick(self) -> int:
        run = self._run_length()
        if run >= 3:
            return self._open_fence(run)
        return 0 if self._waits(run) else run

    def _open_fence(self, taken: int) -> int:
        self._fence = self._text[0]
        self._line_start = False
        return self._emit("\n", taken)

    def _in_fence(self, char: str) -> int:
        # Tildes are a fence only where a line starts.
        if char == self._fence and (char == "`" or self._line_start):
            run = self._run_length()
            if run >= 3:
                self._fence = ""
                self._line_start = True
                return run
            if self._waits(run):
                return 0
        self._line_start = char == "\n"
        return 1

    def _run_length(self) -> int:
        return len(self._text) - len(self._text.lstrip(self._text[0]))

    # --- emphasis, mathematics ------------------------------------------------------------------
    def _star(self) -> int:
        if not self._last.isdigit():
            return 1
        # "3*4", "3 * 4": the sign between two numbers.
        if self._text in ("*", "* ") and not self._final:
            return 0
        return self._emit("×" if self._text[1:].lstrip(" ")[:1].isdigit() else "")

    def _tilde(self) -> int:
        run = self._run_length()
        if self._waits(run) and run < 3:
            return 0
        if run >= 2 and self._text[0] == "~":
            return run  # struck out
        following = self._text[1:2]
        if following.isdigit() or (following == "-" and self._last.isdigit()):
            return self._emit("~")  # about, or a range
        return self._emit("，" if is_hanzi(self._last[:1] or " ") else " ", run)

    def _dollar(self) -> int:
        if self._waits(1):
            return 0
        return self._emit("$" if self._text[1:2].isdigit() else "")

    def _backslash(self) -> int:
        if self._waits(1):
            return 0
        following = self._text[1:2]
        command = p.COMMAND.match(self._text)
        if command:
            if command.end() == len(self._text) and self._waits(p.LONGEST_COMMAND):
                return 0
            return self._emit(p.COMMANDS.get(command.group()[1:], ""), command.end())
        if following and following in "()[]":
            return 2
        if following and not following.isspace() and following.isascii():
            return self._emit(following, 2)
        return 1

    def _brace_end(self) -> int:
        if self._waits(1):
            return 0
        # \frac{1}{2}
        return self._emit("/", 2) if self._text[1:2] == "{" else 1

    # --- brackets, links, images ----------------------------------------------------------------
    def _bracket(self) -> int:
        closing = "]" if self._text[0] == "[" else "】"
        content, closed, _ = self._text[1:].partition(closing)
        if not closed:
            open_ = may_become_emotion(content) or p.REFERENCE_OPEN.fullmatch(content)
            return 0 if open_ and not self._final else self._emit(" ")
        if is_emotion(content):
            taken = len(content) + 2
            self._out.append(Piece("", self._base + taken, content.strip()))
            return taken
        if closing == "]" and p.REFERENCE.fullmatch(content):
            return len(content) + 1  # what follows the closing bracket may be its link
        return self._emit(" ")

    def _bracket_end(self) -> int:
        if self._text.startswith("]("):
            close = self._closing_parenthesis(1)
            target = self._text[1:close]
            if p.LINK_TARGET.fullmatch(target) and p.LINK_SIGN.search(target):
                return close
            if close:
                return self._emit(" ")
        if p.LINK_OPEN.fullmatch(self._text) and self._waits(p.LONGEST_LINK):
            return 0
        return self._emit(" ")

    def _exclamation(self) -> int:
        image = p.IMAGE_TEXT.match(self._text)
        close = self._closing_parenthesis(image.end() - 1) if image else 0
        if close:
            return self._emit(" ", close)
        if p.IMAGE_OPEN.fullmatch(self._text) and self._waits(p.LONGEST_LINK):
            return 0
        return self._emit("!")

    def _closing_parenthesis(self, start: int) -> int:
        """The end of the parenthesis that opens at `start`; 0 for none yet."""
        if ")" not in self._text:
            return 0
        depth = 0
        for at in range(start, len(self._text)):
            depth += {"(": 1, ")": -1}.get(self._text[at], 0)
            if not depth:
                return at + 1
        return 0

    # --- HTML -----------------------------------------------------------------------------------
    def _angle(self) -> int:
        may_grow = p.TAG_OPEN.fullmatch(self._text) or p.AUTO_LINK_OPEN.fullmatch(self._text)
        if may_grow and self._waits(p.LONGEST_TAG):
            return 0
        link = p.AUTO_LINK.match(self._text)
        if link:
            return self._emit(" ", link.end())
        tag = p.TAG.match(self._text)
        if not tag:
            return self._emit("<")
        name = (tag["name"] or "").lower()
        if name in p.BREAKING_TAGS:
            self._line_start = True
            return self._emit("\n", tag.end())
        return tag.end()

    def _ampersand(self) -> int:
        entity = p.ENTITY.match(self._text)
        if entity:
            plain = html.unescape(entity.group())
            if plain != entity.group():
                silent = (_INVISIBLE, "\n")
                said = [" " if is_pictograph(c) or fold(c) in silent else fold(c) for c in plain]
                return self._emit("".join(said), entity.end())
        elif p.ENTITY_OPEN.fullmatch(self._text) and not self._final:
            return 0
        return self._emit("&")

    # --- words, addresses -----------------------------------------------------------------------
    def _word(self) -> int:
        if p.SCHEME.match(self._text):
            return self._open_url()
        word = p.WORD.match(self._text)
        assert word
        size = word.end()
        if size == len(self._text) and self._waits(p.LONGEST_WORD):
            return 0
        email = p.EMAIL.match(self._text)
        if email:
            return self._emit(" ", email.end())
        if p.HOST_WITH_PATH.match(self._text):
            return self._open_url()
        if size == 1 and self._text[1:2] in ("\ufe0f", "\u20e3"):
            return self._emit(" ")  # a keycap
        for at in range(size):
            char = self._text[at]
            self._emit(" " if char == "_" else char, 1)
            self._base += 1
        self._base -= size
        return size

    def _open_url(self) -> int:
        self._url = True
        self._emit(" ", 0)
        return self._in_url()

    def _in_url(self) -> int:
        """Takes an address, but not the punctuation of the sentence that it ends with."""
        size = 0
        while size < len(self._text) and self._text[size] in p.URL_TRAILERS:
            size += 1
        if size == len(self._text) and self._waits(p.LONGEST_WORD):
            return 0
        following = self._text[size : size + 1]
        if following in p.URL_ENDS or not p.URL_CHAR.match(following):
            self._url = False
            return self._step() if self._text else 0
        return size + 1
