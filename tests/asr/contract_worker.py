"""FunASR's worker with models that understand letters, and that a file holds up or lets fail.

Usage: contract_worker.py FILE. Before a final its models wait for the file's lock; where "fail" is
in it, they take that out and fail.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from services.asr.base import Samples
from services.asr.funasr.loop import RecognitionLoop
from services.asr.funasr.parts import Parts
from services.asr.funasr.recognised import Recognised
from services.asr.funasr.schedule import Limits
from services.asr.funasr.wire import ORDERS, Ready, Settings
from tests.asr.letters import understood
from tts_engine.worker_side import Inbox, Send, work

#: samples of a chunk: 600 ms
CHUNK = 9_600


def hear(samples: Samples) -> str:
    return understood(np.rint(samples * 32768).astype(np.int16))


def wait_and_fail() -> None:
    file = Path(sys.argv[1])
    with file.open("r+") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        if gate.read() == "fail":
            gate.truncate(0)
            raise RuntimeError("the model failed")


class Offline:
    """Makes finals."""

    def transcribe(self, audio: Sequence[Samples], **_: Any) -> list[Recognised]:
        wait_and_fail()
        return [Recognised(text=hear(samples)) for samples in audio]


class Stream:
    """One stream."""

    def __init__(self) -> None:
        self.samples = 0
        self.pushed: Samples = np.empty(0, np.float32)
        self.finished = self.done = False

    @property
    def waiting(self) -> int:
        return self.pushed.size - self.samples

    @property
    def due(self) -> bool:
        return not self.done if self.finished else self.waiting >= CHUNK

    @property
    def text(self) -> str:
        return hear(self.pushed[: self.samples])

    def push(self, samples: Samples) -> None:
        self.pushed = np.concatenate((self.pushed, samples))

    def finish(self) -> None:
        self.finished = True

    def fork(self) -> Stream:
        other = Stream()
        other.__dict__.update(self.__dict__)
        return other

    def go_on(self) -> None:
        if self.finished:
            wait_and_fail()
        self.done = self.finished and self.waiting <= CHUNK
        self.samples += min(CHUNK, self.waiting)


class Streaming:
    """Makes partials, and finals where it is alone."""

    chunk_samples = CHUNK

    def open(self) -> Stream:
        return Stream()

    def step(self, streams: Sequence[Stream]) -> None:
        for stream in streams:
            stream.go_on()


def _load(settings: Settings, inbox: Inbox, send: Send) -> Callable[[], None]:
    parts = Parts(
        streaming=None if settings.mode == "offline" else Streaming(),
        offline=None if settings.mode == "streaming" else Offline(),
    )
    loop = RecognitionLoop(parts=parts, limits=Limits(chunks=2, pieces=1), emit=send, inbox=inbox)

    def run() -> None:
        send(Ready())
        loop.run()

    return run


def main() -> None:
    """Recognises until stdin ends."""
    work("FunASR", kinds=ORDERS, load=_load)
