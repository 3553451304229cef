"""Markup out, spoken characters through: a machine that takes the answer character by character.

It works on the part of the answer that is still undecided, from its front. A rule looks at that
part and tells how many characters it takes; none means that it has to see more. What a rule needs
to see is bounded, so the first clause is not delayed and the time is linear.
"""

from __future__ import annotations

from tts_engine.text import patterns as p
from tts_engine.text.chars import fold, is_ascii_alnum, is_hanzi
from tts_engine.text.dropped import Drops
from tts_engine.text.emoji import is_pictograph
from tts_engine.text.emotion import is_emotion, may_become_emotion
from tts_engine.text.entities import ENTITY_OPEN, entity
from tts_engine.text.kaomoji import FACE, FACE_OPEN, FACE_STARTS, FACE_WORDS
from tts_engine.text.spans import Piece

_INVISIBLE = "\u200b"


class MarkupFilter:
    """Feed it the characters that belong in the context; it gives back what is to be spoken.

    Attributes:
        drops: what is not.
    """

    def __init__(self) -> None:
        self._text = ""  # undecided
        self._base = 0  # raw offset of its first character
        self._out: list[Piece] = []
        self.drops = Drops()
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
        if char in FACE_STARTS:
            face = FACE.match(self._text)
            if FACE_OPEN.fullmatch(self._text) and not self._final:
                return 0
            if face:
                return self._drop("emoji", face.end(), " ")
        rule = self._rules.get(char)
        if rule:
            return rule()
        if is_ascii_alnum(char):
            return self._word()
        if is_pictograph(char):
            return self._drop("emoji", 1, " ")
        if char == "_":
            return self._drop("emphasis", 1, " ")
        if char == "】":
            return self._drop("bracket", 1, " ")
        if char == "{":
            return self._drop("bracket", 1)
        if char == _INVISIBLE:
            return self._drop("invisible", 1)
        return self._emit(char)

    def _emit(self, chars: str, taken: int = 1, *, skip: int = 0) -> int:
        """Lets `chars` out for `taken` characters of what is undecided, behind the first `skip`."""
        start = self._base + skip
        for char in chars:
            if char > " ":
                if self._cell:
                    self._cell = False
                    self._insert("，" if is_hanzi(self._last) or is_hanzi(char) else ",")
                    self._insert(" ")
                self._last = char
            self._out.append(Piece(char, start, start + taken))
        return taken

    def _drop(self, rule: str, taken: int, instead: str = "", *, skip: int = 0) -> int:
        """Takes characters that are not spoken; `instead` stands in their place."""
        end = self._base + skip + taken
        self.drops.add(end - taken, end, rule)
        if instead:
            self._out.append(Piece(instead, end, end))
        return taken

    def _insert(self, char: str) -> None:
        self._out.append(Piece(char, self._base, self._base))

    def _say(self, start: int, end: int) -> None:
        """Lets the characters of a range out, each for itself."""
        for at in range(start, end):
            self._emit(self._text[at], skip=at)

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
        return self._drop("line mark", mark.end()) if mark else None

    def _newline(self) -> int:
        self._line_start = True
        self._cell = False
        self._last = ""
        return self._emit("\n")

    def _pipe(self) -> int:
        self._line_start = True
        self._cell = bool(self._last)
        return self._drop("table", 1)

    # --- code -----------------------------------------------------------------------------------
    def _backtick(self) -> int:
        run = self._run_length()
        if run >= 3:
            return self._open_fence(run)
        return 0 if self._waits(run) else self._drop("code mark", run)

    def _open_fence(self, taken: int) -> int:
        self._fence = self._text[0]
        self._line_start = False
        return self._drop("code block", taken, "\n")

    def _in_fence(self, char: str) -> int:
        # Tildes are a fence only where a line starts.
        if char == self._fence and (char == "`" or self._line_start):
            run = self._run_length()
            if run >= 3:
                self._fence = ""
                self._line_start = True
                return self._drop("code block", run)
            if self._waits(run):
                return 0
        self._line_start = char == "\n"
        return self._drop("code block", 1)

    def _run_length(self) -> int:
        return len(self._text) - len(self._text.lstrip(self._text[0]))

    # --- emphasis, mathematics ------------------------------------------------------------------
    def _star(self) -> int:
        if not self._last.isdigit():
            return self._drop("emphasis", 1)
        # "3*4", "3 * 4": the sign between two numbers.
        if self._text in ("*", "* ") and not self._final:
            return 0
        run = self._run_length()
        if run > 1:
            return self._drop("emphasis", run)
        if self._text[1:].lstrip(" ")[:1].isdigit():
            return self._emit("×")
        return self._drop("emphasis", 1)

    def _tilde(self) -> int:
        run = self._run_length()
        if self._waits(run) and run < 3:
            return 0
        if run >= 2 and self._text[0] == "~":
            return self._drop("emphasis", run)  # struck out
        following = self._text[1:2]
        if following.isdigit() or (following == "-" and self._last.isdigit()):
            return self._emit("~")  # about, or a range
        if is_hanzi(self._last or " "):
            return self._emit("，", run)
        return self._drop("tilde", run, " ")

    def _dollar(self) -> int:
        if self._waits(1):
            return 0
        if self._text[1:2].isdigit():
            return self._emit("$")
        return self._drop("mathematics", 1)

    def _backslash(self) -> int:
        if self._waits(1):
            return 0
        following = self._text[1:2]
        command = p.COMMAND.match(self._text)
        if command:
            if command.end() == len(self._text) and self._waits(p.LONGEST_COMMAND):
                return 0
            sign = p.COMMANDS.get(command.group()[1:])
            if sign:
                return self._emit(sign, command.end())
            return self._drop("mathematics", command.end())
        if following and following in "()[]":
            return self._drop("mathematics", 2)
        if following and not following.isspace() and following.isascii():
            self._drop("escape", 1)
            return 1 + self._emit(following, skip=1)
        return self._drop("escape", 1)

    def _brace_end(self) -> int:
        if self._waits(1):
            return 0
        # \frac{1}{2}
        return self._emit("/", 2) if self._text[1:2] == "{" else self._drop("bracket", 1)

    # --- brackets, links, images ----------------------------------------------------------------
    def _bracket(self) -> int:
        closing = "]" if self._text[0] == "[" else "】"
        content, closed, _ = self._text[1:].partition(closing)
        if not closed:
            open_ = may_become_emotion(content) or p.REFERENCE_OPEN.fullmatch(content)
            return 0 if open_ and not self._final else self._drop("bracket", 1, " ")
        if is_emotion(content):
            end = self._base + len(content) + 2
            self._out.append(Piece("", end, end, content.strip()))
            return self._drop("emotion", len(content) + 2)
        if closing == "]" and p.REFERENCE.fullmatch(content):
            # What follows the closing bracket may be its link.
            return self._drop("reference", len(content) + 1)
        return self._drop("bracket", 1, " ")

    def _bracket_end(self) -> int:
        if self._text.startswith("]("):
            close = p.closing_parenthesis(self._text, 1)
            target = self._text[1:close]
            if p.LINK_TARGET.fullmatch(target) and p.LINK_SIGN.search(target):
                return self._drop("link", close)
            if close:
                return self._drop("bracket", 1, " ")
            if self._final and p.LINK_OPEN.fullmatch(self._text):
                return self._drop("link", len(self._text))
        if p.LINK_OPEN.fullmatch(self._text) and self._waits(p.LONGEST_LINK):
            return 0
        return self._drop("bracket", 1, " ")

    def _exclamation(self) -> int:
        image = p.IMAGE_TEXT.match(self._text)
        close = p.closing_parenthesis(self._text, image.end() - 1) if image else 0
        if close:
            return self._drop("image", close, " ")
        if p.IMAGE_OPEN.fullmatch(self._text) and self._waits(p.LONGEST_LINK):
            return 0
        return self._emit("!")

    # --- HTML -----------------------------------------------------------------------------------
    def _angle(self) -> int:
        may_grow = p.TAG_OPEN.fullmatch(self._text) or p.AUTO_LINK_OPEN.fullmatch(self._text)
        if may_grow and self._waits(p.LONGEST_TAG):
            return 0
        link = p.AUTO_LINK.match(self._text)
        if link:
            return self._link(link.end())
        tag = p.TAG.match(self._text)
        if not tag:
            return self._emit("<")
        name = (tag["name"] or "").lower()
        if name in p.BREAKING_TAGS:
            self._line_start = True
            return self._drop("tag", tag.end(), "\n")
        return self._drop("tag", tag.end())

    def _ampersand(self) -> int:
        said, size = entity(self._text)
        if size:
            return self._drop("entity", size, " ") if said.isspace() else self._emit(said, size)
        if ENTITY_OPEN.fullmatch(self._text) and not self._final:
            return 0
        return self._emit("&")

    # --- words, addresses -----------------------------------------------------------------------
    def _word(self) -> int:
        scheme = p.SCHEME.match(self._text)
        if scheme:
            return self._address(scheme.group())
        word = p.WORD.match(self._text)
        assert word
        size = word.end()
        if size == len(self._text) and self._waits(p.LONGEST_WORD):
            return 0
        email = p.EMAIL.match(self._text)
        if email:
            self._say(0, email.end())
            return email.end()
        if p.HOST_WITH_PATH.match(self._text):
            return self._open_url()
        keycap = size == 1 and self._text[1:2] in ("\ufe0f", "\u20e3")
        if keycap or word.group() in FACE_WORDS:
            return self._drop("emoji", size, " ")
        for at in range(size):
            char = self._text[at]
            self._emit(" " if char == "_" else char, skip=at)
        return size

    def _address(self, scheme: str) -> int:
        if scheme.lower() == "mailto:":
            return self._drop("address", len(scheme))
        if p.SITE_OPEN.fullmatch(self._text) and self._waits(p.LONGEST_WORD):
            return 0
        site = p.SITE.match(self._text)
        if not site:
            return self._open_url()
        self._drop("address", site.start("host"))
        self._say(*site.span("host"))
        slash = site.end() - site.end("host")
        if slash:
            self._drop("address", slash, skip=site.end("host"))
        return site.end()

    def _link(self, size: int) -> int:
        """An address in angle brackets."""
        content = self._text[1 : size - 1]
        said = p.EMAIL.fullmatch(content) or p.SITE.fullmatch(content)
        if not said:
            return self._drop("address", size, " ")
        start, end = said.span("host")
        self._drop("tag", 1 + start)
        self._say(1 + start, 1 + end)
        self._drop("tag", size - 1 - end, skip=1 + end)
        return size

    def _open_url(self) -> int:
        self._url = True
        self._insert(" ")
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
            return self._step()
        return self._drop("address", size + 1)
