"""What all tests with the embedded models share: made once, on first use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from pipeline.config import load_config
from pipeline.store import models_root
from tts_engine.kokoro.engine import KokoroEngine

T = TypeVar("T")
#: text, voice=None -> float32 at 16 kHz
Speech = Callable[..., NDArray[np.float32]]


def elsewhere(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end on a loop of its own, in a thread of its own.

    The engines belong to no loop; the loop of the test that asks first must not matter.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """The directory that `make test` has filled."""
    return models_root(load_config(None))


@pytest.fixture(scope="session")
def voice(models_dir: Path) -> Iterator[KokoroEngine]:
    """The embedded voice, started."""
    engine = KokoroEngine(model_dir=models_dir / "kokoro", threads=1)
    elsewhere(engine.start())
    yield engine
    elsewhere(engine.close())


@pytest.fixture(scope="session")
def speech(voice: KokoroEngine) -> Speech:
    """Says a text in the embedded voice; the same text and voice only once."""

    async def synthesise(text: str, name: str | None) -> bytes:
        return b"".join([chunk.pcm async for chunk in voice.synthesize(text, voice=name)])

    @lru_cache(maxsize=256)
    def say(text: str, voice: str | None = None) -> NDArray[np.float32]:
        samples = np.frombuffer(elsewhere(synthesise(text, voice)), np.int16)
        mono = soxr.resample(samples.astype(np.float32) / 32768, KokoroEngine.sample_rate, 16_000)
        mono.setflags(write=False)  # it is shared
        return mono

    return say
