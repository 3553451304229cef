"""Tiny models with random weights, made once and kept between runs; and sounds to give them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from tts_engine.errors import BadRequest

if TYPE_CHECKING:  # many tests here need no torch
    from services.asr.funasr.loader import Model
    from services.asr.funasr.make_random import Kind

#: the first test of a process imports torch and the models' modules: minutes on a busy core
PATIENCE_S = 600

#: samples of a sound, and which -> float32 at 16 kHz
Sound = Callable[..., NDArray[np.float32]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE_S))


@pytest.fixture(scope="session")
def tiny_dir() -> Callable[[Kind], Path]:
    """The directory of the tiny model of a kind. Nothing may change it."""
    return _tiny


@pytest.fixture(scope="session")
def tiny() -> Callable[[Kind], Model]:
    """The tiny model of a kind, loaded. Nothing may change it."""
    from services.asr.funasr.loader import load

    return lru_cache(lambda kind: load(_tiny(kind)))


@pytest.fixture(scope="session")
def sound() -> Sound:
    """Bursts of noise, another one for each number."""

    def make(samples: int, number: int = 0) -> NDArray[np.float32]:
        random = np.random.default_rng(number)
        loudness = np.repeat(random.random(samples // 500 + 1), 500)[:samples]
        return (random.standard_normal(samples) * 0.05 * loudness).astype(np.float32)

    return make


def _tiny(kind: Kind) -> Path:
    import torch

    from services.asr.funasr.make_random import make_random, recipe

    torch.set_num_threads(1)  # the tests of a machine's cores run beside each other
    directory = Path(tempfile.gettempdir()) / f"duplexd-tiny-{kind}-{recipe()}"
    if not directory.is_dir():
        try:
            make_random(kind, "tiny", directory)
        except (OSError, BadRequest):
            if not directory.is_dir():  # else somebody was quicker
                raise
    return directory
