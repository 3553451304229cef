"""Speech is found where it is, and the pauses around it are not."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from services.vad.base import WINDOW
from services.vad.silero import SileroVad
from tests.asr.fakes import silence
from tests.conftest import Speech

pytestmark = pytest.mark.models


async def test_speech_is_found_where_it_is(speech: Speech) -> None:
    said = speech("今天天气怎么样")
    sound = np.concatenate([silence(3), said, silence(1)])
    sound = sound[: sound.size // WINDOW * WINDOW].reshape(-1, WINDOW)
    done = asyncio.Event()
    heard: list[float] = []

    def on_window(probability: float) -> None:
        heard.append(probability)
        if len(heard) == len(sound):
            done.set()

    vad = SileroVad()
    await vad.start()
    stream = vad.open(on_window)
    for window in sound:
        stream.push(window)
    await asyncio.wait_for(done.wait(), 20)
    await vad.close()
    start, end = 3 * 16_000 // WINDOW, (3 * 16_000 + said.size) // WINDOW
    assert max(heard[: start - 1]) < 0.3
    assert np.mean(np.array(heard[start:end]) > 0.5) > 0.7
    assert max(heard[end + 15 :]) < 0.3
