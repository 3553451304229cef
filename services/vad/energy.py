"""A detector that only listens for loudness: for scripted runs, and where there is no model."""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from services.vad.base import WINDOW, OnWindow, VadEngine, VadStream
from tts_engine.errors import BadAudio

#: between the hiss of a quiet room (-60) and soft speech (-35)
THRESHOLD_DBFS = -45.0


def check_window(window: NDArray[np.float32]) -> None:
    """Refuses what is not one window.

    Raises:
        BadAudio
    """
    if window.shape != (WINDOW,):
        raise BadAudio(f"A window of the voice detector has {WINDOW} samples, not {window.shape}")


class EnergyVad(VadEngine):
    """Speech is whatever is louder than `threshold_dbfs` (RMS of the window)."""

    def __init__(self, *, threshold_dbfs: float = THRESHOLD_DBFS) -> None:
        self._least = 10.0 ** (threshold_dbfs / 10.0)

    async def start(self) -> None:
        """See VadEngine; there is nothing to load."""

    def open(self, on_window: OnWindow) -> VadStream:
        """See VadEngine."""
        return _EnergyStream(least=self._least, on_window=on_window)

    async def close(self) -> None:
        """See VadEngine; there is nothing to release."""


class _EnergyStream(VadStream):
    def __init__(self, *, least: float, on_window: OnWindow) -> None:
        self._least = least
        self._on_window: OnWindow | None = on_window

    def push(self, window: NDArray[np.float32]) -> None:
        check_window(window)
        loud = float(np.dot(window, window)) / WINDOW > self._least
        # Not at once: the contract promises that push() has returned before the callback comes.
        asyncio.get_running_loop().call_soon(self._deliver, 1.0 if loud else 0.0)

    def _deliver(self, probability: float) -> None:
        if self._on_window is not None:
            self._on_window(probability)

    def close(self) -> None:
        self._on_window = None
