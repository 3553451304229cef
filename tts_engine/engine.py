"""The contract of a voice: text in, PCM chunks with character alignment out.

An engine is built and started once per process and shared by every conversation. It knows nothing
of pipecat, sockets or configuration files: directories and thread counts are constructor arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Protocol

from tts_engine.errors import BadRequest, DuplexdError

#: paces that every engine can speak at, as multiples of the voice's own
MIN_SPEED, MAX_SPEED = 0.5, 2.0


@dataclass(frozen=True, slots=True)
class Mark:
    """A point of the alignment: once `sample` samples have been played, `text[:chars]` was heard.

    Parameters:
        sample: samples since the first sample of the utterance (not of the chunk).
        chars: characters of the utterance's text spoken completely by then.
    """

    sample: int
    chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechChunk:
    """A piece of an utterance.

    Parameters:
        pcm: mono signed 16-bit little-endian samples at the engine's `sample_rate`.
        marks: alignment of this chunk, ascending in both fields; the last chunk of an utterance
            carries a mark with `chars == len(text)`.
    """

    pcm: bytes
    marks: tuple[Mark, ...] = ()


def _nobody(_: float) -> None:
    """Nobody watches."""


@dataclass(slots=True)
class EngineStats:
    """What an engine tells `/metrics` about its queue; updated in place by the engine, on the loop.

    Parameters:
        depth: jobs waiting or running.
        jobs: jobs finished since the start.
        errors: failed jobs by `DuplexdError.code`.
        on_wait: told once a job, when it has started, how long it had waited, seconds.
    """

    depth: int = 0
    jobs: int = 0
    errors: dict[str, int] = field(default_factory=dict[str, int])
    on_wait: Callable[[float], None] = _nobody

    def failed(self, error: DuplexdError) -> None:
        """Counts a job that failed."""
        self.errors[error.code] = self.errors.get(error.code, 0) + 1


def check_speed(speed: float) -> None:
    """Refuses a pace that engines do not have; NaN is none.

    Raises:
        BadRequest
    """
    if not MIN_SPEED <= speed <= MAX_SPEED:
        raise BadRequest(f"The speed {speed:g} is not between {MIN_SPEED} and {MAX_SPEED}")


class Reading(Protocol):
    """A text that is spoken clause by clause."""

    def synthesize(
        self, text: str, *, voice: str | None = None, speed: float = 1.0, style: str = ""
    ) -> AsyncGenerator[SpeechChunk, None]:
        """Speaks its next clause; see `SpeechEngine.synthesize`."""
        ...


class SpeechEngine(ABC):
    """A voice engine. Every method is called on the event loop and returns to it at once."""

    #: samples per second of every chunk
    sample_rate: int
    stats: EngineStats

    @property
    @abstractmethod
    def voices(self) -> tuple[str, ...]:
        """Names that `synthesize` accepts; the first is the default."""

    def identity(self, voice: str | None) -> str:
        """What tells a voice from every other one, also from one that had its name before.

        Args:
            voice: a name, as `synthesize` takes it.
        """
        return voice or next(iter(self.voices), "")

    @property
    def ready(self) -> bool:
        """Once started: it takes jobs now. False while a part of it is started again."""
        return True

    @abstractmethod
    async def start(self) -> None:
        """Loads and warms the engine with realistic input.

        Raises:
            ModelError: weights are missing or corrupt.
            EngineFailed: the engine cannot run here.
        """

    @abstractmethod
    async def close(self) -> None:
        """Ends every job and releases threads and processes. Idempotent."""

    def reading(self) -> Reading:
        """Begins a text whose clauses are spoken one after another: engines that can have a clause
        carry on from the one before. Others speak each for itself.
        """
        return self

    @abstractmethod
    def synthesize(
        self, text: str, *, voice: str | None = None, speed: float = 1.0, style: str = ""
    ) -> AsyncGenerator[SpeechChunk, None]:
        """Speaks one clause or sentence of normalised text.

        The first chunk has at most 20 ms of leading silence. Cancelling: close the generator, or
        cancel the task that iterates it; the engine then drops the job's remaining work.

        Args:
            text: what to say, any mix of Mandarin and English, already without markup.
            voice: one of `voices`, or None for the first.
            speed: 1.0 is the voice's own pace; 0.5 to 2.0.
            style: how to say it, free text; engines without styles ignore it.

        Raises:
            UnknownVoice, BadRequest: before any work.
            AtCapacity: the engine's queue is full.
            NotReady: see `ready`.
            EngineFailed: synthesis failed.
        """
