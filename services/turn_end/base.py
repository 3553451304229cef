"""The contract of an acoustic end-of-turn model: the sound of a turn in, a probability out."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from tts_engine.engine import EngineStats

#: samples per second of everything the model hears
SAMPLE_RATE = 16_000


class TurnEndEngine(ABC):
    """A model shared by all conversations; called on the event loop, computes elsewhere.

    It is a second opinion and never worth waiting for: whatever keeps it from answering soon, or at
    all, is no opinion.
    """

    stats: EngineStats

    @abstractmethod
    async def start(self) -> None:
        """Loads and warms the model.

        Raises:
            EngineFailed: the model cannot be loaded.
        """

    @abstractmethod
    async def probability(self, samples: NDArray[np.float32], *, session: str) -> float | None:
        """How probably the user has finished.

        A later call of the same session overtakes this one, which then has no opinion. Cancelling
        withdraws it.

        Args:
            samples: the turn so far with the silence at its end, mono float32 in [-1, 1] at 16 kHz,
                any length; what the model cannot take in is cut off at the beginning.
            session: the conversation's id.

        Returns:
            0 to 1; None: no opinion (overtaken, the queue is full, or the model failed, which is
            logged and counted).
        """

    @abstractmethod
    async def close(self) -> None:
        """Withdraws what waits and ends the thread. Idempotent."""
