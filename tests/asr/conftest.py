"""Speech for the accuracy tests, made by the embedded voice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import soxr

from services.asr.base import SAMPLE_RATE, Samples
from services.models.store import default_root
from tts_engine.kokoro.engine import KokoroEngine

Speak = Callable[[str], Samples]


@pytest.fixture(scope="session")
def models_dir() -> Path:
    return default_root()


@pytest.fixture(scope="session")
def speak(models_dir: Path) -> Iterator[Speak]:
    """Says a sentence: float32 at 16 kHz. One engine, on a loop in a thread of its own."""
    engine = KokoroEngine(model_dir=models_dir / "kokoro", threads=2)

    async def synthesise(text: str) -> Samples:
        pcm = b"".join([chunk.pcm async for chunk in engine.synthesize(text)])
        samples = np.frombuffer(pcm, dtype=np.int16).astype(np.float32) / 32768.0
        return soxr.resample(samples, engine.sample_rate, SAMPLE_RATE).astype(np.float32)

    runner = asyncio.Runner()
    with ThreadPoolExecutor(1) as pool:

        @lru_cache
        def say(text: str) -> Samples:
            return pool.submit(lambda: runner.run(synthesise(text))).result(60)

        pool.submit(lambda: runner.run(engine.start())).result(60)
        yield say
        pool.submit(lambda: runner.run(engine.close())).result(60)
        pool.submit(runner.close).result(60)
