"""The contract of a recogniser: feed, partials, finalise, cancel.

An `AsrEngine` is built and started once per process. Each conversation opens one `Recogniser` on
it, a light handle that holds the audio of the turn being spoken. Everything here is called on the
event loop and returns to it at once; decoding happens elsewhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tts_engine.engine import EngineStats

#: samples per second of everything a recogniser is fed
SAMPLE_RATE = 16_000

Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word, or one Hanzi, and where it lies; seconds from the start of the turn."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """What was recognised.

    Parameters:
        text: simplified Chinese or English; empty when nothing was said.
        language: "zh", "en", or "" when nothing was said.
        final: False for partials, which the next one replaces as a whole.
        log_prob: mean log probability per token, where the engine knows it.
        audio_s: seconds of audio that the text covers, from the start of the turn.
        compute_s: seconds the decoding took, without waiting.
        words: of the text, where the engine knows their times.
        emotion: how it was said, such as "happy" or "angry"; empty where the engine cannot tell.
        events: what was heard beside words, such as "laughter" or "cough".
    """

    text: str
    language: str = ""
    final: bool = True
    log_prob: float | None = None
    audio_s: float = 0.0
    compute_s: float = 0.0
    words: tuple[Word, ...] = ()
    emotion: str = ""
    events: tuple[str, ...] = ()


OnPartial = Callable[[Transcript], None]


class Recogniser(ABC):
    """One conversation's handle: the audio of the turn being spoken."""

    @abstractmethod
    def feed(self, samples: Samples) -> None:
        """Adds audio to the turn: mono float32 in [-1, 1] at 16 kHz, any length.

        A turn longer than the engine's limit keeps its end; nothing is raised.
        """

    @abstractmethod
    async def finalise(self) -> Transcript:
        """Recognises the turn as far as it was fed, now.

        Does not end the turn: more may be fed, and `finalise` called again; the same audio gives
        the same text. A call that is cancelled, or overtaken by `cancel` or `reset`, costs the
        engine nothing more than the step it is in. The engine bounds the time it takes: nobody
        else does.

        Raises:
            AtCapacity, TimedOut, EngineFailed
            asyncio.CancelledError: `cancel` or `reset` was called meanwhile.
        """

    @abstractmethod
    def restrict(self, languages: tuple[str, ...] | None) -> None:
        """From now on only these languages are recognised; None: all that the engine may. Names
        that the engine does not know are passed over; if it knows none of them, all are meant.
        """

    def hint(self, words: tuple[str, ...]) -> None:
        """From now on these words are likely: names, terms. Engines that cannot use them do not.

        Args:
            words: beside those of the engine's configuration; none takes the last ones back.
        """
        del words

    @abstractmethod
    def cancel(self) -> None:
        """Withdraws decoding in flight; the turn's audio stays."""

    @abstractmethod
    def reset(self) -> None:
        """Forgets the turn: its audio, partials and decoding in flight."""

    @abstractmethod
    def close(self) -> None:
        """Ends the handle; it must not be used again. Idempotent."""


class AsrEngine(ABC):
    """A speech recognition engine shared by all conversations of the process."""

    stats: EngineStats

    @property
    def ready(self) -> bool:
        """Once started: it recognises now. False while a part of it is started again."""
        return True

    @abstractmethod
    async def start(self) -> None:
        """Loads and warms the engine with realistic input.

        Raises:
            ModelError: weights are missing or corrupt.
            EngineFailed: the engine cannot run here.
        """

    @abstractmethod
    def open(self, *, session: str, on_partial: OnPartial | None = None) -> Recogniser:
        """Opens a handle for a conversation.

        Args:
            session: the conversation's id, for logs and scripted engines.
            on_partial: called on the event loop with each partial, if the engine makes any.
        """

    @abstractmethod
    async def close(self) -> None:
        """Ends every job and releases threads and processes. Idempotent."""
