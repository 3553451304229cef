"""One answer a window, in order, after push() has returned; none after close()."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from services.vad.base import WINDOW
from services.vad.energy import EnergyVad
from tts_engine.errors import BadAudio


def window(dbfs: float) -> np.ndarray:
    return np.full(WINDOW, 10 ** (dbfs / 20), dtype=np.float32)


async def test_loud_is_speech() -> None:
    vad = EnergyVad()
    await vad.start()
    heard: list[float] = []
    stream = vad.open(heard.append)
    for dbfs in (-20, -44, -46, -90):
        stream.push(window(dbfs))
    assert heard == []
    await asyncio.sleep(0)
    assert heard == [1.0, 1.0, 0.0, 0.0]
    await vad.close()


async def test_a_closed_stream_is_silent() -> None:
    heard: list[float] = []
    stream = EnergyVad().open(heard.append)
    stream.push(window(-20))
    stream.close()
    stream.close()
    await asyncio.sleep(0)
    assert heard == []


async def test_what_is_not_a_window_is_refused() -> None:
    with pytest.raises(BadAudio, match="512"):
        EnergyVad().open(lambda _: None).push(np.zeros(160, dtype=np.float32))
