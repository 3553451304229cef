"""Models that write down which audio they were given, and a loop over them that runs in the test.

The audio of the tests counts: each sample says where it lies, so that a text tells which it covers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from services.asr.base import Samples
from services.asr.funasr.loop import RecognitionLoop
from services.asr.funasr.parts import Parts
from services.asr.funasr.recognised import Recognised
from services.asr.funasr.schedule import Limits
from services.asr.funasr.wire import Cancel, Feed, Final, Finished, Forget, Partial, Report

#: samples of a chunk: 100 ms
CHUNK = 1_600
#: the fake worker's streaming model cannot take the audio of this one
SPOILT = 7

T = TypeVar("T")


def counting(start: int, stop: int, *, of: int = 0) -> Samples:
    """The samples of a turn's audio from one position to another, told apart from those of others
    by `of`.
    """
    return np.arange(start, stop, dtype=np.float32) + (1 << 20) * of


def said(samples: Samples) -> str:
    """What the models hear in counting samples: whose they are, the first and the last one."""
    if not samples.size:
        return ""
    assert (np.diff(samples) == 1).all(), "samples are missing, or are there twice"
    of, first = divmod(int(samples[0]), 1 << 20)
    return f"<{of}:{first}-{first + samples.size}>"


def spans(text: str) -> list[tuple[int, int, int]]:
    """Whose audio a text covers, and from where to where: one entry a piece."""
    return [
        (int(of), int(first), int(last))
        for of, first, last in re.findall(r"<(\d+):(\d+)-(\d+)>", text)
    ]


def covered(text: str) -> tuple[int, int, int]:
    """The same as one stretch; fails where the pieces do not follow on each other."""
    pieces = spans(text)
    for (of, _, last), (other, first, _) in itertools.pairwise(pieces):
        assert (of, last) == (other, first), text
    return pieces[0][0], pieces[0][1], pieces[-1][2]


class FakeStream:
    """One stream."""

    def __init__(self) -> None:
        self.samples = 0
        self.pushed: Samples = np.empty(0, np.float32)
        self.finished = self.done = False
        self.text = ""

    @property
    def waiting(self) -> int:
        return self.pushed.size - self.samples

    @property
    def due(self) -> bool:
        return not self.done if self.finished else self.waiting >= CHUNK

    def push(self, samples: Samples) -> None:
        assert not self.finished
        self.pushed = np.concatenate((self.pushed, samples))

    def finish(self) -> None:
        self.finished = True

    def fork(self) -> FakeStream:
        other = FakeStream()
        other.__dict__.update(self.__dict__)
        return other

    def go_on(self) -> None:
        chunk = self.pushed[self.samples : self.samples + CHUNK]
        self.samples += chunk.size
        self.done = self.finished and chunk.size < CHUNK
        self.text += said(chunk)


class FakeStreaming:
    """A streaming model.

    Parameters:
        fails: whether a step of these streams does; after they were changed.
    """

    chunk_samples = CHUNK

    def __init__(self, fails: Callable[[Sequence[FakeStream]], Exception | None] | None = None):
        self.fails = fails
        self.steps: list[int] = []
        self.opened = 0

    def open(self) -> FakeStream:
        self.opened += 1
        return FakeStream()

    def step(self, streams: Sequence[FakeStream]) -> None:
        assert len({id(each) for each in streams}) == len(streams)
        assert all(each.due for each in streams)
        self.steps.append(len(streams))
        for stream in streams:
            stream.go_on()
        if self.fails and (error := self.fails(streams)):
            raise error


class FakeOffline:
    """An offline model.

    Parameters:
        hear: what is recognised in a piece.
        fails: whether a step with this piece does.
    """

    def __init__(
        self,
        hear: Callable[[Samples], Recognised] | None = None,
        fails: Callable[[Samples], Exception | None] | None = None,
    ) -> None:
        self.hear = hear or (lambda samples: Recognised(text=said(samples)))
        self.fails = fails
        self.steps: list[int] = []
        self.asked: list[tuple[tuple[str, ...] | None, tuple[str, ...]]] = []

    def transcribe(
        self,
        audio: Sequence[Samples],
        *,
        languages: Sequence[tuple[str, ...] | None],
        hotwords: Sequence[tuple[str, ...]],
    ) -> list[Recognised]:
        self.steps.append(len(audio))
        self.asked += zip(languages, hotwords, strict=True)
        for samples in audio:
            if self.fails and (error := self.fails(samples)):
                raise error
        return [self.hear(samples) for samples in audio]


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """A loop, and what it has told."""

    def __init__(
        self,
        *,
        streaming: FakeStreaming | None = None,
        offline: FakeOffline | None = None,
        chunks: int = 4,
        pieces: int = 4,
        punctuate: Callable[[Sequence[str]], list[str]] | None = None,
        **options: Any,
    ) -> None:
        self.clock = Clock()
        self.told: list[Report] = []
        self.loop = RecognitionLoop(
            parts=Parts(
                streaming=streaming,
                offline=offline,
                punctuate=punctuate,
                fatal=(MemoryError,),
            ),
            limits=Limits(chunks=chunks, pieces=pieces),
            emit=self.told.append,
            clock=self.clock,
            **options,
        )
        self._ends: dict[int, int] = {}

    def feed(self, turn: int, count: int, *, partials: bool = True, loud: bool = True) -> None:
        """Feeds a turn with its next samples."""
        start = self._ends.get(turn, 0)
        self._ends[turn] = start + count
        samples = counting(start, start + count, of=turn)
        self.loop.inbox.put(
            Feed(
                turn=turn,
                at=start,
                came=self.clock.now,
                partials=partials,
                payload=(samples if loud else samples * 0).tobytes(),
            )
        )

    def ask(self, id: int, turn: int, **options: Any) -> None:
        self.loop.inbox.put(Final(id=id, turn=turn, came=self.clock.now, **options))

    def cancel(self, id: int) -> None:
        self.loop.inbox.put(Cancel(id=id))

    def forget(self, turn: int) -> None:
        self.loop.inbox.put(Forget(turn=turn))

    def step(self) -> None:
        """Takes what was sent, and makes one step."""
        assert self.loop.turn()

    def settle(self) -> list[Report]:
        """Works until there is nothing to do; what was told meanwhile."""
        seen = len(self.told)
        if not self.loop.inbox.empty() or self.loop.busy:
            self.step()
        while self.loop.busy:
            self.step()
        return self.told[seen:]

    def of(self, kind: type[T]) -> list[T]:
        return [each for each in self.told if isinstance(each, kind)]

    def final(self, id: int) -> str:
        """The text of a final that was told, once."""
        [text] = [each.text for each in self.of(Finished) if each.id == id]
        return text

    def partials(self, turn: int) -> list[Partial]:
        return [each for each in self.of(Partial) if each.turn == turn]
