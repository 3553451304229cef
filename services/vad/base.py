"""The contract of a voice activity detector: 32 ms windows in, speech probabilities out.

A `VadEngine` is shared; each conversation opens one `VadStream`. Windows of streams that are due
at about the same moment may be computed in one batch, so the answer comes by callback.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 16_000
#: samples per window: 32 ms
WINDOW = 512

#: probability of speech in the window, 0 to 1; called on the event loop, in the order of windows
OnWindow = Callable[[float], None]


class VadStream(ABC):
    """The detector's state for one conversation."""

    @abstractmethod
    def push(self, window: NDArray[np.float32]) -> None:
        """Adds one window: WINDOW float32 samples in [-1, 1]. The callback follows, soon."""

    @abstractmethod
    def close(self) -> None:
        """Drops windows that wait; no callback comes after this. Idempotent."""


class VadEngine(ABC):
    """A detector shared by all conversations of the process."""

    @abstractmethod
    async def start(self) -> None:
        """Loads and warms the model.

        Raises:
            EngineFailed: the model cannot be loaded.
        """

    @abstractmethod
    def open(self, on_window: OnWindow) -> VadStream:
        """Opens a stream for one conversation."""

    @abstractmethod
    async def close(self) -> None:
        """Releases the model. Idempotent."""
