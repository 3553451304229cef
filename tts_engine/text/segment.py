"""Cuts spoken characters into clauses: the first one early, later ones at ends, growing.

Takes one character at a time and never looks at how they arrived, so the same text gives the same
clauses whatever the tokens were. The growth has a reason: a voice that needs less than half of the
time it speaks for is ready with a clause while the one before it, half as long, is heard.
"""

from __future__ import annotations

from dataclasses import dataclass

from tts_engine.text import ends as e
from tts_engine.text.chars import is_speakable, is_wide
from tts_engine.text.spans import Piece, Spans


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Weight of a character: three Latin ones take about as long to say as one Hanzi.
_WIDE, _NARROW = 10, 3
#: By how much the second clause, and then the third, may be longer than the first minimum.
_GROWTH = 2
#: A first clause that has as many words may also end before one of these: the listener waits.
_BREAK_WORDS = (
    (4, _words("and but because so or which who where when while if although that")),
    (7, _words("to of in on at by for from with into about as than")),
)
#: The same in Chinese, with the Hanzi that must stand before them.
_BREAK_HANZI = 7
_BREAK_PAIRS = _words("因为 所以 但是 不过 而且 并且 如果 然后 或者 以及")
_MARKS = e.FULL_ENDS | e.ASCII_ENDS | e.FULL_COMMAS | e.ASCII_COMMAS


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A clause before its numbers and signs are put into words."""

    spans: Spans
    style: str


@dataclass(frozen=True, slots=True)
class _Quotes:
    """What is open at a place: brackets and quotes, and a straight quote."""

    depth: int = 0
    straight: bool = False

    def after(self, char: str) -> _Quotes:
        if char == '"':
            return _Quotes(self.depth, not self.straight)
        if char in e.OPENERS:
            return _Quotes(self.depth + 1, self.straight)
        if char in e.CLOSERS:
            return _Quotes(max(0, self.depth - 1), self.straight)
        return _Quotes() if char == "\n" else self

    def closes(self, char: str) -> bool:
        return (self.depth > 0 and char in e.CLOSERS) or (self.straight and char == '"')

    @property
    def open(self) -> bool:
        return self.depth > 0 or self.straight


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the clause may be cut: before the character at `index`."""

    index: int
    quotes: _Quotes


@dataclass(slots=True)
class _Waiting:
    """A mark that has to see what follows."""

    place: _Place
    allowed: bool  # a clause may end here if the mark is an end
    sentence: bool
    certain: bool  # not a decimal point or the like
    spaced: bool = False


class Segmenter:
    """The clause cutter of one answer."""

    def __init__(
        self, *, first_min_hanzi: int, first_min_words: int, later_min_chars: int, max_chars: int
    ) -> None:
        self._first_min = first_min_hanzi * first_min_words
        self._hanzi_worth, self._word_worth = first_min_words, first_min_hanzi
        self._second_min = first_min_hanzi * _WIDE
        self._later_min = later_min_chars * _WIDE
        self._limit = max_chars * _WIDE
        self._cuts: list[Cut] = []
        self._count = 0
        self._previous = 0  # weight of the clause before
        self._start = 0  # raw offset
        self._style = self._next_style = ""
        self._reset(_Quotes())

    def _reset(self, quotes: _Quotes) -> None:
        self._chars: list[str] = []
        self._ends: list[int] = []
        self._weight = self._worth = 0
        self._spoken = self._in_word = False
        self._quotes = quotes
        self._waiting: _Waiting | None = None
        self._comma: _Place | None = None
        self._gap: _Place | None = None
        self._word: tuple[_Place, int] | None = None
        self._ended_at = 0

    def feed(self, piece: Piece) -> list[Cut]:
        """The clauses that are complete now."""
        if piece.style:
            self._take_style(piece.style)
        else:
            self._take(piece.char, piece.end)
        cuts, self._cuts = self._cuts, []
        return cuts

    def finish(self) -> list[Cut]:
        """The last clause, at the end of the answer."""
        if self._spoken:
            self._cut(_Place(len(self._chars), self._quotes))
        cuts, self._cuts = self._cuts, []
        return cuts

    # --- one character --------------------------------------------------------------------------
    def _take(self, char: str, end: int) -> None:
        if not (self._waiting and self._resolve(self._waiting, char, end)):
            self._append(char, end)
            if char == "\n" and self._spoken:
                self._cut(self._here())
            elif char in _MARKS:
                self._mark(char)
            elif self._count == 0:
                self._break(char)
        if self._weight > self._limit:
            self._cut_long()

    def _append(self, char: str, end: int) -> None:
        if not self._spoken and char <= " ":
            return  # nothing begins with a space; its raw text stays with what follows
        wide = is_wide(char)
        if wide or not self._in_word:
            self._word = (self._here(), self._worth)
        self._chars.append(char)
        self._ends.append(end)
        self._quotes = self._quotes.after(char)
        self._weight += _WIDE if wide else _NARROW
        speakable = is_speakable(char)
        if wide:
            self._worth += self._hanzi_worth
        elif speakable and not self._in_word:
            self._worth += self._word_worth
        self._in_word = not wide and (speakable or (self._in_word and char in "'’.-"))
        self._spoken = self._spoken or speakable
        if self._spoken and (char == " " or wide):
            self._gap = self._here()

    def _break(self, char: str) -> None:
        """Ends a first clause that has grown long without a mark before a connecting word."""
        if is_wide(char):
            pair = "".join(self._chars[-2:])
            before = self._worth - 2 * self._hanzi_worth
            if pair in _BREAK_PAIRS and before >= _BREAK_HANZI * self._hanzi_worth:
                self._cut(_Place(len(self._chars) - 2, self._quotes))
        elif char == " " and self._word is not None:
            place, before = self._word
            word = "".join(self._chars[place.index : -1]).lower()
            if any(before >= n * self._word_worth and word in words for n, words in _BREAK_WORDS):
                self._cut(place)

    def _here(self) -> _Place:
        return _Place(len(self._chars), self._quotes)

    # --- marks ------------------------------------------------------------------------------------
    def _mark(self, char: str) -> None:
        sentence = char in e.FULL_ENDS or char in e.ASCII_ENDS
        allowed = self._may_end(char, sentence=sentence)
        # "10：30": the one full-width mark that stands inside numbers.
        ratio = char == "：" and "".join(self._chars[-2:-1]).isdigit()
        certain = not ratio and not char.isascii()
        if certain and not (allowed and self._quotes.open):
            self._end(self._here(), allowed=allowed, sentence=sentence)
        else:
            self._waiting = _Waiting(self._here(), allowed, sentence, certain)

    def _may_end(self, char: str, *, sentence: bool) -> bool:
        if not self._spoken:
            return False
        if self._count == 0:
            return sentence or self._worth >= self._first_min
        grown = self._second_min + self._count * _GROWTH * _WIDE
        if sentence:
            return self._weight >= min(self._later_min, grown)
        return char != "、" and self._weight >= max(self._later_min, 2 * self._previous)

    def _end(self, place: _Place, *, allowed: bool, sentence: bool) -> None:
        """A mark turned out to be one: cuts there, or remembers it."""
        if allowed:
            self._cut(place)
            return
        if self._spoken:
            self._comma = place
            if sentence:
                self._ended_at = place.index

    def _resolve(self, waiting: _Waiting, char: str, end: int) -> bool:
        """Decides about the waiting mark; True when `char` is taken with that."""
        index = waiting.place.index
        mark = self._chars[index - 1]
        if not waiting.certain:
            if char == mark == "." and not waiting.spaced:
                self._extend(waiting, char, end)
                return True
            before = "".join(self._chars[: index - 1])
            verdict = e.judge(before, mark, char, spaced=waiting.spaced)
            if verdict is e.Verdict.PART:
                self._waiting = None
                return False
            if verdict is e.Verdict.LATER:
                waiting.spaced = True
                self._append(char, end)
                return True
        if not waiting.spaced:
            closing = self._quotes.closes(char)
            if closing or (waiting.sentence and char in "!?！？"):
                self._extend(waiting, char, end)
                waiting.certain = True
                if closing and not self._quotes.open:
                    self._settle(waiting)
                return True
        self._settle(waiting)
        return False

    def _extend(self, waiting: _Waiting, char: str, end: int) -> None:
        self._append(char, end)
        waiting.place = self._here()

    def _settle(self, waiting: _Waiting) -> None:
        self._waiting = None
        self._end(waiting.place, allowed=waiting.allowed, sentence=waiting.sentence)

    # --- cuts -------------------------------------------------------------------------------------
    def _cut(self, place: _Place) -> None:
        index = place.index
        chars, ends = self._chars, self._ends
        text = "".join(chars[:index])
        spans = Spans(text=text, ends=tuple(ends[:index]), start=self._start)
        self._cuts.append(Cut(spans=spans, style=self._style))
        self._count += 1
        self._previous = sum(_WIDE if is_wide(char) else _NARROW for char in text)
        self._start = ends[index - 1]
        self._style = self._next_style
        self._reset(place.quotes)
        for char, end in zip(chars[index:], ends[index:], strict=True):
            self._take(char, end)

    def _cut_long(self) -> None:
        """Cuts at the best place of what has become too long; two thirds of it may be left."""
        if not self._spoken:
            self._reset(self._quotes)
            return
        for place in (self._comma, self._gap):
            if place and place.index * 3 >= len(self._chars):
                self._cut(place)
                return
        self._cut(self._here())

    def _take_style(self, style: str) -> None:
        self._next_style = style
        if self._spoken:
            waiting = self._waiting
            at = waiting.place.index if waiting and waiting.sentence else self._ended_at
            # A sentence too short for a clause of its own is one if the next is said differently.
            if at and not "".join(self._chars[at:]).strip():
                self._cut(self._here())
        if not self._spoken:
            self._style = style
