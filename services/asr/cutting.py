# pyright: strict
"""Where long audio is cut into pieces for a recogniser: in its pauses, as far as it has any.

Pure. Time is counted in windows of the voice detector.
"""

from __future__ import annotations

from dataclasses import dataclass

#: windows of 32 ms in a second
_PER_S = 1000 / 32
#: what is kept before the first and after the last window with voice: 0.3 s
PADDING = round(0.3 * _PER_S)
#: no piece is longer: 15 s. A conversation may have to wait for one.
LONGEST = round(15 * _PER_S)
#: Pauses that end a piece: in one that is short, in a longer one, and in one that gets long. Each
#: piece costs a recogniser something by itself, and it understands better what has more context.
_SHORT, _LONG = round(3 * _PER_S), round(8 * _PER_S)
_PAUSE_IN_SHORT, _PAUSE, _PAUSE_IN_LONG = round(_PER_S), round(0.5 * _PER_S), round(0.2 * _PER_S)
#: voice that is less is a click: 0.1 s
LEAST = 3
#: a voice that has begun goes on at a probability lower by so much
_HYSTERESIS = 0.15


@dataclass(frozen=True, slots=True)
class Span:
    """A piece.

    Parameters:
        start: its first window.
        end: the one after its last.
    """

    start: int
    end: int


class Cutter:
    """Finds the pieces with voice in them; they follow each other and never overlap.

    Parameters:
        threshold: probability from which a window is voice.
    """

    def __init__(self, *, threshold: float) -> None:
        self._threshold = threshold
        self._at = 0
        self._free = 0  # the first window that no piece has
        self._start: int | None = None  # of the piece that is open
        self._probabilities: list[float] = []  # of its windows
        self._last = 0  # the window after its last one with voice
        self._voiced = 0  # its windows with voice

    @property
    def needed(self) -> int:
        """The first window that may become part of a piece yet."""
        return self._lead() if self._start is None else self._start

    def push(self, probability: float) -> Span | None:
        """Takes the next window.

        Returns:
            A piece that has ended.
        """
        if self._start is None:
            if probability < self._threshold:
                self._at += 1
                return None
            self._start = self._lead()
            self._probabilities = [0.0] * (self._at - self._start)
        self._take(probability)
        self._at += 1
        if self._at - self._last >= self._pause():
            return self._close()
        if self._at - self._start == LONGEST:
            return self._cut()
        return None

    def finish(self) -> Span | None:
        """There is no more."""
        return None if self._start is None else self._close()

    def _lead(self) -> int:
        return max(self._free, self._at - PADDING)

    def _take(self, probability: float) -> None:
        self._probabilities.append(probability)
        if probability >= self._threshold - _HYSTERESIS:
            self._last = self._at + 1
            self._voiced += 1

    def _pause(self) -> int:
        length = self._at - (self._start or 0)
        if length < _SHORT:
            return _PAUSE_IN_SHORT
        return _PAUSE if length < _LONG else _PAUSE_IN_LONG

    def _close(self) -> Span | None:
        assert self._start is not None
        span = Span(self._start, min(self._last + PADDING, self._at))
        enough = self._voiced >= LEAST
        self._start, self._voiced = None, 0
        if not enough:
            return None
        self._free = span.end
        return span

    def _cut(self) -> Span | None:
        """Ends a piece without a pause where its second half sounds least like voice."""
        start, at = self._start, self._at
        assert start is not None
        later = self._probabilities[LONGEST // 2 :]
        place = start + LONGEST // 2 + later.index(min(later))
        rest = self._probabilities[place - start :]
        self._start, self._free = place, place
        self._probabilities, self._last, self._voiced = [], place, 0
        for self._at, probability in enumerate(rest, start=place):
            self._take(probability)
        self._at = at
        return Span(start, place)
