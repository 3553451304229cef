# pyright: strict
"""What the recogniser does next: pure, no clock of its own.

There are two kinds of steps: the offline model recognises pieces of turns whose texts are asked
for, the streaming model takes one chunk of each of several streams.

- Texts that are asked for go first; what is written while somebody speaks is a courtesy.
- Of the pieces those go first that came first; of a long turn each piece counts as if it had come
  so much later as it lies behind the first, so that one long turn does not hold up all others, and
  nobody waits for ever.
- Of the streams those go first whose text is asked for, then those that became ready first. Others
  join the step: a chunk of several streams costs little more than one of a single stream.
- When the streams become late, each gathers more audio before it goes on, and so its text comes
  more rarely; a turn that ends meanwhile is never charged for. No audio is ever left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: the longest stride, in chunks
LONGEST_STRIDE = 16
#: how late a stream may go on, as a part of its stride
_LATE = 0.5
#: strides through which all are later than that until it grows: a final that goes first makes all
#: late for a moment
_LATE_STRIDES = 2
#: what counts as hardly late at all
_CALM = 0.1
#: strides without anything late after which the stride shrinks
_CALM_STRIDES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What may share a step.

    Parameters:
        pieces: of the offline model; 1 where that saves nothing.
        chunks: streams of the streaming model.
        spread: a piece joins one that is shorter only if it is at most so many times as long.
    """

    pieces: int = 1
    chunks: int = 8
    spread: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceNeed:
    """A piece of audio whose text is asked for.

    Parameters:
        job: whose it is; ascending in the order in which they came.
        place: of the piece in its job.
        came: when the job came, seconds.
        before_s: seconds of the job's audio that are to be recognised before it.
        seconds: its length.
    """

    job: int
    place: int
    came: float
    before_s: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamNeed:
    """A stream that can go on.

    Parameters:
        id: of the stream.
        ready_at: when it had gathered enough, seconds; for one that is asked for: when that was.
        asked: its text is asked for.
        alone: it must share no step.
    """

    id: int
    ready_at: float
    asked: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Recognise:
    """A step of the offline model: (job, place) of each piece."""

    pieces: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class GoOn:
    """A step of the streaming model: the streams."""

    ids: tuple[int, ...]


def plan(
    pieces: Sequence[PieceNeed], streams: Sequence[StreamNeed], limits: Limits
) -> Recognise | GoOn | None:
    """The next step; None when there is nothing to do."""
    if pieces:
        first, *others = sorted(pieces, key=_piece_urgency)
        longest = first.seconds * limits.spread
        joining = [each for each in others if each.seconds <= longest]
        chosen = [first, *joining[: limits.pieces - 1]]
        return Recognise(tuple((each.job, each.place) for each in chosen))
    if not streams:
        return None
    leader, *others = sorted(streams, key=_stream_urgency)
    if leader.alone:
        return GoOn((leader.id,))
    joining = [each for each in others if not each.alone]
    return GoOn(tuple(each.id for each in (leader, *joining[: limits.chunks - 1])))


def _piece_urgency(need: PieceNeed) -> tuple[float, int, int]:
    return need.came + need.before_s, need.job, need.place


def _stream_urgency(need: StreamNeed) -> tuple[bool, float, int]:
    return not need.asked, need.ready_at, need.id


class Stride:
    """How much audio a stream gathers before it goes on.

    Parameters:
        chunk_s: seconds of a chunk.
        longest: chunks; 1 where every chunk has to be heard in the end.
    """

    def __init__(self, *, chunk_s: float, longest: int = LONGEST_STRIDE) -> None:
        self._chunk_s = chunk_s
        self._longest = longest
        #: chunks: 1, 2, 4 and so on
        self.chunks = 1
        self._late_since: float | None = None
        self._calm_since = 0.0

    @property
    def seconds(self) -> float:
        """The stride in seconds of audio."""
        return self.chunks * self._chunk_s

    def went_on(self, now: float, *, late_s: float) -> None:
        """Learns from a stream that goes on.

        Args:
            now: the time, seconds; never less than before.
            late_s: since the stream was ready.
        """
        if late_s > _LATE * self.seconds:
            self._calm_since = now
            if self._late_since is None:
                self._late_since = now
            elif now - self._late_since >= _LATE_STRIDES * self.seconds:
                self.chunks = min(2 * self.chunks, self._longest)
                self._late_since = now
            return
        self._late_since = None
        if late_s > _CALM * self.seconds:
            self._calm_since = now
        while self.chunks > 1 and now - self._calm_since >= _CALM_STRIDES * self.seconds:
            self._calm_since += _CALM_STRIDES * self.seconds
            self.chunks //= 2
