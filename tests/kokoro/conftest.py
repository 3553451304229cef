"""The embedded voice, loaded once for all tests that need it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tts_engine.kokoro.g2p import MixedG2P
from tts_engine.kokoro.model import KokoroModel

SYMBOLS = (
    ';:,.!?—…"()“” ̃ʣʥʦʨᵝꭧAIOQSTWYᵊabcdefhijklmnopqrstuvwxyz'
    "ɑɐɒæβɔɕçɖðʤəɚɛɜɟɡɥɨɪʝɯɰŋɳɲɴøɸθœɹɾɻʁɽʂʃʈʧʊʋʌɣɤχʎʒʔˈˌːʰʲ↓→↗↘ᵻ"
)


@pytest.fixture(scope="session")
def model_dir(models_dir: Path) -> Path:
    return models_dir / "kokoro"


@pytest.fixture(scope="session")
def model(model_dir: Path) -> KokoroModel:
    return KokoroModel(model_dir=model_dir, threads=1)


@pytest.fixture(scope="session")
def g2p() -> MixedG2P:
    return MixedG2P(vocabulary=SYMBOLS)
