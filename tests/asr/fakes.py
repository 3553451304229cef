"""A decoder that says what it is told, and a gate to hold it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from services.asr.base import SAMPLE_RATE, Samples
from services.asr.mel import Mel
from services.asr.whisper_model import Hypothesis

Say = Callable[[int], Hypothesis | Exception]


def noise(seconds: float, *, level: float = 0.1, seed: int = 0) -> Samples:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(int(seconds * SAMPLE_RATE)) * level).astype(np.float32)


def silence(seconds: float) -> Samples:
    return np.zeros(int(seconds * SAMPLE_RATE), dtype=np.float32)


def always(text: str, log_prob: float = -0.2) -> Say:
    return lambda _: Hypothesis(text, log_prob)


@dataclass
class Gate:
    """Stops the decoder inside `encode` until it is opened; says that it came there."""

    entered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    opened: threading.Event = field(default_factory=threading.Event)

    def pass_through(self) -> None:
        self.entered.release()
        assert self.opened.wait(20), "the gate was never opened"

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.entered.acquire, timeout=20)


class FakeDecoder:
    """Says `say(n)` at the n-th generate; raises it, if it is an exception."""

    def __init__(
        self, say: Say | None = None, *, gate: Gate | None = None, language: str = "zh"
    ) -> None:
        """Hears `language` if it may, else the first that it may hear."""
        self.say = say or always("你好")
        self.gate = gate
        self.language = self.detected = language
        self.mels: list[Mel] = []
        self.beams: list[int] = []
        self.max_tokens: list[int] = []
        self.closed = 0

    def encode(self, mel: Mel) -> Any:
        self.mels.append(mel)
        if self.gate is not None:
            self.gate.pass_through()
        return mel

    def detect(self, encoded: Any, languages: Sequence[str]) -> str:
        assert encoded is self.mels[-1]
        self.detected = self.language if self.language in languages else languages[0]
        return self.detected

    def generate(self, encoded: Any, *, language: str, beam: int, max_tokens: int) -> Hypothesis:
        assert encoded is self.mels[-1]
        assert language == self.detected
        said = self.say(len(self.beams))
        self.beams.append(beam)
        self.max_tokens.append(max_tokens)
        if isinstance(said, Exception):
            raise said
        return said

    def close(self) -> None:
        self.closed += 1
