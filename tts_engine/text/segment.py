"""Cuts spoken characters into clauses: the first one early, later ones at ends, growing.

Takes one character at a time and never looks at how they arrived, so the same text gives the same
clauses whatever the tokens were. The growth has a reason: a voice that needs less than half of the
time it speaks for is ready with a clause while the one before it, half as long, is heard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tts_engine.text import breaks as b
from tts_engine.text import ends as e
from tts_engine.text.chars import is_speakable, is_wide
from tts_engine.text.dropped import Drops
from tts_engine.text.quotes import QUOTES, Quotes
from tts_engine.text.spans import Piece, Spans

#: Weight of a character: three Latin ones take about as long to say as one Hanzi.
_WIDE, _NARROW = 10, 3
#: By how much the second clause, and then the third, may be longer than the first minimum.
_GROWTH = 2
#: A first clause without a mark, in Hanzi and in words, which add up. So long, it may end before a
#: connective; so long, it ends at the best place that there was, or at the next good one; so long,
#: at the next one of any kind; so long, anywhere.
_CONNECTIVE, _EARLY, _LATE, _AT_LAST = (7, 4), (12, 8), (15, 10), (24, 14)
#: As much is looked at of the word before a place.
_LONGEST_WORD = 20
_MARKS = e.FULL_ENDS | e.ASCII_ENDS | e.FULL_COMMAS | e.ASCII_COMMAS


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A clause before its numbers and signs are put into words."""

    spans: Spans
    style: str


class _Size(NamedTuple):
    """How much was said."""

    hanzi: int = 0
    words: int = 0

    def reaches(self, limit: tuple[int, int]) -> bool:
        """It is as long as so many Hanzi, or as so many words."""
        hanzi, words = limit
        return self.hanzi * words + self.words * hanzi >= hanzi * words


class _Place(NamedTuple):
    """Where the clause may be cut: before the character number `at`."""

    at: int
    quotes: Quotes


class _Break(NamedTuple):
    """A place without a mark, and how good it is."""

    place: _Place
    strength: int = 0


@dataclass(slots=True)
class _Waiting:
    """A mark that has to see what follows."""

    place: _Place
    allowed: bool  # a clause may end here if the mark is an end
    sentence: bool
    certain: bool  # not a decimal point or the like
    spaced: bool = False


class Segmenter:
    """The clause cutter of one answer.

    Attributes:
        drops: what is in no clause.
    """

    def __init__(
        self, *, first_min_hanzi: int, first_min_words: int, later_min_chars: int, max_chars: int
    ) -> None:
        self._first_min = first_min_hanzi, first_min_words
        self._second_min = first_min_hanzi * _WIDE
        self._later_min = later_min_chars * _WIDE
        self._limit = max_chars * _WIDE
        self._cuts: list[Cut] = []
        self._count = 0
        self._previous = 0  # weight of the clause before
        self._start = 0  # raw offset
        self._style = self._next_style = ""
        self.drops = Drops()
        self._reset(Quotes())

    def _reset(self, quotes: Quotes) -> None:
        self._chars: list[str] = []
        self._sources: list[tuple[int, int]] = []
        self._weight = 0
        self._size = _Size()
        self._spoken = self._in_word = False
        self._quotes = quotes
        self._waiting: _Waiting | None = None
        self._comma: _Place | None = None
        self._gap: _Place | None = None
        self._word: tuple[_Place, _Size] | None = None
        self._break = _Break(self._here())
        self._ended_at = 0

    def feed(self, piece: Piece) -> list[Cut]:
        """The clauses that are complete now."""
        if piece.style:
            self._take_style(piece.style)
        else:
            self._take(piece.char, (piece.start, piece.end))
        cuts, self._cuts = self._cuts, []
        return cuts

    def finish(self) -> list[Cut]:
        """The last clause, at the end of the answer."""
        if self._spoken:
            self._cut(self._here())
        else:
            self._give_up()
        cuts, self._cuts = self._cuts, []
        return cuts

    # --- one character --------------------------------------------------------------------------
    def _take(self, char: str, source: tuple[int, int]) -> None:
        if not (self._waiting and self._resolve(self._waiting, char, source)):
            self._append(char, source)
            if char == "\n" and self._spoken:
                self._cut(self._here())
            elif char in _MARKS:
                self._mark(char)
            elif self._count == 0 or 2 * self._weight > self._limit:
                self._look(char)
        if self._weight > self._limit:
            self._cut_long()

    def _append(self, char: str, source: tuple[int, int]) -> None:
        if not self._spoken and char <= " ":
            self.drops.add(*source, "space")  # nothing begins with one
            return
        wide = is_wide(char)
        if wide:
            self._word = None
        elif not self._in_word:
            self._word = (self._here(), self._size)
        self._chars.append(char)
        self._sources.append(source)
        if char in QUOTES:
            self._quotes = self._quotes.after(char)
        self._weight += _WIDE if wide else _NARROW
        speakable = is_speakable(char)
        hanzi, words = self._size
        if wide:
            self._size = _Size(hanzi + 1, words)
        elif speakable and not self._in_word:
            self._size = _Size(hanzi, words + 1)
        self._in_word = not wide and (speakable or (self._in_word and char in "'’.-"))
        self._spoken = self._spoken or speakable
        if self._spoken and (char == " " or wide):
            self._gap = self._here()

    # --- a clause without marks -----------------------------------------------------------------
    def _look(self, char: str) -> None:
        """Looks for a good place before the last word that is complete with `char`."""
        if is_wide(char):
            self._look_before_hanzi()
        elif char == " ":
            self._look_before_word()

    def _look_before_hanzi(self) -> None:
        """Weighs the place before the last character but one."""
        hanzi, words = self._size
        window = "".join(self._chars[-4:])
        if len(window) > 2 and is_wide(window[-2]):
            place = _Place(len(self._chars) - 2, self._quotes)
            self._weigh(place, _Size(hanzi - 2, words), b.before_hanzi(window))
        # Without the last character: only now it is known that no mark stands before it.
        self._cut_early(_Place(len(self._chars) - 1, self._quotes), _Size(hanzi - 1, words))

    def _look_before_word(self) -> None:
        """Weighs the place before the word that a space ends now."""
        if self._word is None:
            return
        place, size = self._word
        before = "".join(self._chars[max(0, place.at - _LONGEST_WORD) : place.at]).lower()
        word = "".join(self._chars[place.at : -1]).lower()
        if before.endswith(" ") and before.strip():
            self._weigh(place, size, b.before_word(word, before.split()[-1]))
        self._cut_early(self._here(), self._size)

    def _weigh(self, place: _Place, size: _Size, strength: int) -> None:
        if not strength or place.quotes.tight or not size.reaches(self._first_min):
            return
        if self._count == 0:
            if strength == b.CONNECTIVE and size.reaches(_CONNECTIVE):
                self._cut(place)
            elif strength >= self._break.strength:
                self._break = _Break(place, strength)
        elif strength >= b.PHRASE:
            self._break = _Break(place, strength)

    def _cut_early(self, here: _Place, size: _Size) -> None:
        """Ends a first clause that has grown long: the listener waits."""
        if self._count or not size.reaches(_EARLY):
            return
        if self._break.strength >= (b.SPACE if size.reaches(_LATE) else b.GROUP):
            self._cut(self._break.place)
        elif size.reaches(_AT_LAST) and not here.quotes.tight:
            before = "".join(self._chars[max(0, here.at - 2) : here.at])
            if not before.rstrip()[-1:].isdigit():  # its unit may follow
                self._cut(self._comma or here)

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
            return sentence or self._size.reaches(self._first_min)
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
                self._ended_at = place.at

    def _resolve(self, waiting: _Waiting, char: str, source: tuple[int, int]) -> bool:
        """Decides about the waiting mark; True when `char` is taken with that."""
        index = waiting.place.at
        mark = self._chars[index - 1]
        if not waiting.certain:
            if char == mark == "." and not waiting.spaced:
                self._extend(waiting, char, source)
                return True
            before = "".join(self._chars[: index - 1])
            verdict = e.judge(before, mark, char, spaced=waiting.spaced)
            if verdict is e.Verdict.PART:
                self._waiting = None
                if waiting.spaced:
                    self._look_before_word()
                return False
            if verdict is e.Verdict.LATER:
                waiting.spaced = True
                self._append(char, source)
                return True
        if not waiting.spaced:
            closing = self._quotes.closes(char)
            if closing or (waiting.sentence and char in "!?！？"):
                self._extend(waiting, char, source)
                waiting.certain = True
                if closing and not self._quotes.open:
                    self._settle(waiting)
                return True
        self._settle(waiting)
        return False

    def _extend(self, waiting: _Waiting, char: str, source: tuple[int, int]) -> None:
        self._append(char, source)
        waiting.place = self._here()

    def _settle(self, waiting: _Waiting) -> None:
        self._waiting = None
        self._end(waiting.place, allowed=waiting.allowed, sentence=waiting.sentence)

    # --- cuts -------------------------------------------------------------------------------------
    def _cut(self, place: _Place) -> None:
        index = place.at
        chars, sources = self._chars, self._sources
        text = "".join(chars[:index])
        spans = Spans(
            text=text,
            ends=tuple(end for _, end in sources[:index]),
            start=self._start,
            sources=tuple(sources[:index]),
        )
        self._cuts.append(Cut(spans=spans, style=self._style))
        self._count += 1
        self._previous = sum(_WIDE if is_wide(char) else _NARROW for char in text)
        self._start = sources[index - 1][1]
        self._style = self._next_style
        self._reset(place.quotes)
        for char, source in zip(chars[index:], sources[index:], strict=True):
            self._take(char, source)

    def _cut_long(self) -> None:
        """Cuts at the best place of what has become too long; two thirds of it may be left."""
        if not self._spoken:
            self._give_up()
            return
        for place in (self._comma, self._break.place, self._gap):
            if place and place.at * 3 >= len(self._chars):
                self._cut(place)
                return
        self._cut(self._here())

    def _give_up(self) -> None:
        """Drops what has no words."""
        for source in self._sources:
            self.drops.add(*source, "stray mark")
        self._reset(self._quotes)

    def _take_style(self, style: str) -> None:
        self._next_style = style
        if self._spoken:
            waiting = self._waiting
            at = waiting.place.at if waiting and waiting.sentence else self._ended_at
            # A sentence too short for a clause of its own is one if the next is said differently.
            if at and not "".join(self._chars[at:]).strip():
                self._cut(self._here())
        if not self._spoken:
            self._style = style
