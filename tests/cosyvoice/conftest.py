"""Tiny models with random weights, and a reference recording: made once, then shared."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.cosyvoice.dit_case import dit_flow
from tts_engine.cosyvoice.kind import Kind
from tts_engine.cosyvoice.loader import CosyVoice, load
from tts_engine.cosyvoice.make_random import make_random, recipe
from tts_engine.cosyvoice.modules import import_modules
from tts_engine.errors import BadRequest

SAMPLE_RATE = 24_000
#: the first test of a process imports torch and the model's modules: minutes on a busy core
PATIENCE_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE_S))


@dataclass(frozen=True)
class Reference:
    """A recording to clone: float32 mono samples at 24 kHz, and what is said in it."""

    samples: NDArray[np.float32]
    text: str


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """The tests of a machine's cores run beside each other, each on its own."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def home() -> Path | None:
    """The checkout whose modules are tested; None: the installed ones."""
    named = os.environ.get("COSYVOICE_HOME")
    return Path(named) if named else None


@pytest.fixture(scope="session")
def model_dir(home: Path | None) -> Path:
    """The directory of a tiny model; kept between runs, and shared by those beside each other."""
    return _tiny("cosyvoice2", home)


@pytest.fixture(scope="session")
def model(model_dir: Path, home: Path | None) -> CosyVoice:
    """The tiny model, loaded. Nothing may change it."""
    return load(model_dir, home=home)


@pytest.fixture(scope="session")
def model3_dir(home: Path | None) -> Path:
    """The directory of a tiny CosyVoice 3, whose modules only a checkout has."""
    if home is None:
        pytest.skip("COSYVOICE_HOME names no checkout")
    return _tiny("cosyvoice3", home)


@pytest.fixture(scope="session")
def model3(model3_dir: Path, home: Path) -> CosyVoice:
    """The tiny CosyVoice 3, loaded. Nothing may change it."""
    return load(model3_dir, home=home)


@pytest.fixture(scope="module", params=["cosyvoice2", "cosyvoice3"])
def module(request: pytest.FixtureRequest, model: CosyVoice, home: Path | None) -> Any:
    """The flow of each generation, as upstream's module or like it. Nothing may change it."""
    return model.flow if request.param == "cosyvoice2" else dit_flow(home)


@pytest.fixture(scope="session")
def reference() -> Reference:
    """3.5 s that sound like a voice to whatever measures: syllables of a gliding buzz, a hiss."""
    time = np.arange(int(3.5 * SAMPLE_RATE)) / SAMPLE_RATE
    pitch = 140 + 25 * np.sin(2 * np.pi * 0.7 * time) + 8 * np.sin(2 * np.pi * 2.3 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE
    buzz = sum(np.sin(harmonic * phase) / harmonic for harmonic in range(1, 20))
    hiss = np.random.default_rng(7).standard_normal(len(time))
    syllables = np.clip(np.sin(2 * np.pi * 3.1 * time) + 0.4, 0, 1)
    samples = (0.12 * buzz + 0.01 * hiss) * syllables
    return Reference(samples.astype(np.float32), "今天天气很好，我们一起去公园走走吧。")


def _tiny(kind: Kind, home: Path | None) -> Path:
    import_modules(home)
    directory = Path(tempfile.gettempdir()) / f"duplexd-tiny-{kind}-{recipe()}"
    if not directory.is_dir():
        try:
            make_random(kind, "tiny", directory, home=home)
        except (OSError, BadRequest):
            if not directory.is_dir():  # else somebody was quicker
                raise
    return directory
