"""A turn in the worker: its audio, and its stream with what waits to be pushed into it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from services.asr.base import Samples
from services.asr.funasr.finals import Known
from services.asr.funasr.parts import Stream, StreamingModel
from services.asr.funasr.wire import Final
from services.asr.turn_audio import TurnAudio


class StreamedFinal:
    """A final that the streaming model makes: the turn's stream goes on to where the turn was when
    it was asked for, then a copy of it is finished.

    Parameters:
        order: asks for it.
        end: samples that the turn had then.
    """

    def __init__(self, order: Final, *, end: int) -> None:
        self.order = order
        self.end = end
        self.stream: Stream | None = None
        self.waited_s: float | None = None
        self.compute_s = 0.0


class Turn:
    """One turn.

    Parameters:
        id: its number.
        at: position of its first sample.
        limit_s: of its audio.
    """

    def __init__(self, *, id: int, at: int, limit_s: float) -> None:
        self.id = id
        self.known: Known = {}
        self.stream: Stream | None = None
        #: its stream is not stepped with others: one of them made a step fail
        self.alone = False
        #: the stream goes on until it has nothing more
        self.going = False
        self.told = ""
        self._base = at
        self._audio = TurnAudio(limit_s=limit_s)
        self._stream_at = at
        #: what came when: positions after it, and seconds
        self._arrivals: deque[tuple[int, float]] = deque()
        self._line: deque[Samples | StreamedFinal] = deque()

    @property
    def end(self) -> int:
        """Position after its last sample."""
        return self._base + self._audio.end

    @property
    def heard(self) -> int:
        """Position up to which its stream has gone."""
        return self._stream_at + (self.stream.samples if self.stream else 0)

    @property
    def asked(self) -> StreamedFinal | None:
        """The final that its stream is to go on for."""
        return next((each for each in self._line if isinstance(each, StreamedFinal)), None)

    def feed(self, samples: Samples, *, came: float) -> None:
        """Adds audio; `advance` pushes it."""
        self._audio.append(samples)
        if self.stream is not None:
            self._line.append(samples)
            self._arrivals.append((self.end, came))

    def since(self, samples: int) -> float:
        """When so many samples that no step has taken were there; they are."""
        while self._arrivals[0][0] < self.heard + samples:
            self._arrivals.popleft()
        return self._arrivals[0][1]

    def audio(self) -> tuple[Samples, int]:
        """All that is kept, and the position of its first sample."""
        kept = self._audio.snapshot()
        return kept.join(), self._base + kept.start

    def ask(self, final: StreamedFinal) -> None:
        """Has the stream make a final of what was fed so far."""
        self._line.append(final)

    def advance(self) -> list[StreamedFinal]:
        """Pushes what waits, up to a final that the stream is not ready for.

        Returns:
            The finals whose own streams now are to be finished.
        """
        begun: list[StreamedFinal] = []
        while self._line and self.stream is not None:
            first = self._line[0]
            if not isinstance(first, StreamedFinal):
                self.stream.push(first)
            elif self.stream.due:
                break
            else:
                fork = self.stream.fork()
                fork.finish()
                first.stream = fork
                begun.append(first)
            self._line.popleft()
        return begun

    def withdraw(self, id: int) -> None:
        """Drops a final that was asked of its stream; `advance` what it held up."""
        self._line = deque(
            each
            for each in self._line
            if not (isinstance(each, StreamedFinal) and each.order.id == id)
        )

    def open_stream(
        self, model: StreamingModel, finals: Sequence[StreamedFinal] = (), *, now: float
    ) -> None:
        """Begins its stream, with all the audio that is kept; `advance` pushes it.

        Args:
            model: opens it.
            now: the time.
            finals: that are asked of it, in the order of their ends.
        """
        self.stream = model.open()
        self.going = False
        samples, start = self.audio()
        self._stream_at = start
        self._line.clear()
        self._arrivals.clear()
        self._arrivals.append((self.end, now))
        for final in finals:
            final.stream = None
            cut = min(max(0, final.end - start), samples.size)
            self._line += (samples[:cut], final)
            samples, start = samples[cut:], start + cut
        self._line.append(samples)

    def drop_stream(self) -> None:
        """Ends its stream: it has failed, or nobody wants it."""
        self.stream = None
        self.going = False
        self._line.clear()
        self._arrivals.clear()
