"""The real model: noise and silence say nothing, speech is understood, broken files are named."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import jiwer
import numpy as np
import pytest

from services.asr.base import Samples
from services.asr.whisper import WhisperEngine
from services.asr.whisper_model import CTranslate2Decoder
from services.asr.whisper_text import units
from tests.conftest import Speech
from tts_engine.errors import EngineFailed

from .fakes import noise, silence

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def model_dir(models_dir: Path) -> Path:
    return models_dir / "whisper-base"


@pytest.fixture
async def engine(model_dir: Path) -> AsyncIterator[WhisperEngine]:
    engine = WhisperEngine(model_dir=model_dir, threads=1)
    await engine.start()
    yield engine
    await engine.close()


def clicks() -> Samples:
    at = np.arange(32_000) % 8_000 < 60
    return noise(2, level=0.0003) + at * noise(2, level=0.3, seed=1)


def tone() -> Samples:
    return (0.2 * np.sin(2 * np.pi * 440 * np.arange(32_000) / 16_000)).astype(np.float32)


async def test_what_is_not_speech_gives_no_text(engine: WhisperEngine) -> None:
    sounds = {
        "silence": silence(2),
        "hiss": noise(2, level=0.003),
        "noise": noise(2, level=0.1),
        "rumble": (np.cumsum(noise(2, level=0.001)) * 0.3).astype(np.float32),
        "tone": tone(),
        "clicks": clicks(),
    }
    recogniser = engine.open(session="s")
    for name, sound in sounds.items():
        recogniser.reset()
        recogniser.feed(sound)
        heard = await recogniser.finalise()
        assert (name, heard.text, heard.language) == (name, "", "")


SENTENCES = [
    ("zh", "今天天气怎么样"),
    ("zh", "请帮我打开客厅的灯"),
    ("zh", "我想听一首轻松的音乐"),
    ("zh", "希望你以后能够做得比我还好"),
    ("en", "what is the weather like today"),
    ("en", "please turn on the light in the kitchen"),
]


async def test_speech_is_understood(engine: WhisperEngine, speech: Speech) -> None:
    pairs: dict[str, list[tuple[str, str]]] = {"zh": [], "en": []}
    recogniser = engine.open(session="s")
    for language, text in SENTENCES:
        recogniser.reset()
        recogniser.feed(np.concatenate([silence(0.2), speech(text), silence(0.2)]))
        heard = await recogniser.finalise()
        assert heard.language == language
        pairs[language].append((" ".join(units(text)), " ".join(units(heard.text))))
    for language, bound in (("zh", 0.2), ("en", 0.2)):
        said, heard_texts = zip(*pairs[language], strict=True)
        # Units are characters of Chinese and words of English: CER and WER.
        assert jiwer.wer(list(said), list(heard_texts)) <= bound, pairs[language]


async def test_a_quiet_voice_is_understood_as_a_loud_one(
    engine: WhisperEngine, speech: Speech
) -> None:
    said = speech("请帮我打开客厅的灯")
    texts: set[str] = set()
    for peak in (0.9, 0.03):
        recogniser = engine.open(session="s")
        recogniser.feed(said * np.float32(peak / np.abs(said).max()))
        texts.add((await recogniser.finalise()).text)
    assert len(texts) == 1


async def test_a_sentence_is_not_said_twice(engine: WhisperEngine, speech: Speech) -> None:
    said = speech("播放音乐")
    for before, after in ((0.0, 0.0), (0.3, 0.1), (0.1, 0.8)):
        recogniser = engine.open(session="s")
        recogniser.feed(np.concatenate([silence(before), said, silence(after)]))
        assert len(units((await recogniser.finalise()).text)) <= 5


def test_a_single_language_is_not_detected(model_dir: Path) -> None:
    decoder = CTranslate2Decoder(model_dir=model_dir, threads=1, languages=["zh", "en"])
    assert decoder.detect(None, ["zh"]) == "zh"
    decoder.close()


def test_an_unknown_language_is_refused(model_dir: Path) -> None:
    with pytest.raises(EngineFailed, match="'klingon'"):
        CTranslate2Decoder(model_dir=model_dir, threads=1, languages=["klingon"])


def test_a_broken_model_is_refused(model_dir: Path, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        shutil.copy(model_dir / name, tmp_path / name)
    (tmp_path / "model.bin").write_bytes(b"not a model")
    with pytest.raises(EngineFailed, match="cannot be loaded") as caught:
        CTranslate2Decoder(model_dir=tmp_path, threads=1, languages=["zh", "en"])
    assert "models verify" in caught.value.mend
