"""The embedded voice, loaded once for all tests that need it."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs
import pytest

from tts_engine.kokoro.g2p import MixedG2P
from tts_engine.kokoro.model import KokoroModel

SYMBOLS = (
    ';:,.!?—…"()“” ̃ʣʥʦʨᵝꭧAIOQSTWYᵊabcdefhijklmnopqrstuvwxyz'
    "ɑɐɒæβɔɕçɖðʤəɚɛɜɟɡɥɨɪʝɯɰŋɳɲɴøɸθœɹɾɻʁɽʂʃʈʧʊʋʌɣɤχʎʒʔˈˌːʰʲ↓→↗↘ᵻ"
)


@pytest.fixture(scope="session")
def model_dir() -> Path:
    root = os.environ.get("DUPLEXD_MODELS")
    base = Path(root) if root else platformdirs.user_cache_path("duplexd") / "models"
    return base / "kokoro"


@pytest.fixture(scope="session")
def model(model_dir: Path) -> KokoroModel:
    return KokoroModel(model_dir=model_dir, threads=1)


@pytest.fixture(scope="session")
def g2p() -> MixedG2P:
    return MixedG2P(vocabulary=SYMBOLS)
