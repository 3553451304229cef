"""Whisper's real weights through FunASR's AutoModel: real words come out of the second pass.

For whoever has installed openai-whisper, which FunASR's WhisperWarp wraps and duplexd does not
need: `pip install --no-deps openai-whisper==20250625 tiktoken more-itertools regex`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from services.asr.funasr.loader import load
from services.asr.funasr.second_pass import SecondPass
from tests.asr.funasr.whisper_weights import convert
from tests.conftest import Speech

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("whisper") is None, reason="openai-whisper is not installed"
)


@pytest.fixture(scope="module")
def second_pass(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> SecondPass:
    directory = tmp_path_factory.mktemp("funasr") / "whisper"
    convert(models_dir / "whisper-base", directory)
    return SecondPass(load(directory))


@pytest.mark.parametrize(
    ("said", "language", "word"),
    [("今天天气怎么样？", "zh", "今天"), ("What is the weather like today?", "en", "weather")],
)
def test_what_was_said_is_recognised(
    second_pass: SecondPass, speech: Speech, said: str, language: str, word: str
) -> None:
    found = second_pass.transcribe(
        [speech(said), speech(said)], languages=[None, (language,)], hotwords=[(), (word,)]
    )

    assert [word in each.text for each in found] == [True, True]
    assert [each.language for each in found] == [language, language]
