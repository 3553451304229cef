"""Real words, by the embedded recogniser, of the embedded voice: in the files that people have."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import pytest

from services.asr.whisper import WhisperEngine
from services.asr.whisper_text import units
from services.vad.silero import SileroVad
from tests.audio_api.conftest import openai_client
from tests.audio_api.recordings import container, sound
from tests.conftest import Speech
from tests.daemon.inside import inside

pytestmark = [pytest.mark.models, pytest.mark.timeout(600)]

ENGLISH = "The train to the city leaves at half past seven in the morning."
CHINESE = "今天天气很好，我们一起去公园散步吧。"


def error_rate(said: str, heard: str) -> float:
    return jiwer.wer(" ".join(units(said)), " ".join(units(heard)))


async def test_an_mp3_and_a_video_in_two_languages(models_dir: Path, speech: Speech):
    pause = np.zeros(2 * 16_000, np.float32)
    # made here: the fixture runs its engine on a loop of its own
    english, chinese = await asyncio.to_thread(lambda: (speech(ENGLISH), speech(CHINESE)))
    both = np.concatenate([pause, english, pause, chinese, pause])
    end_of_english = (len(pause) + len(english)) / 16_000
    engine = WhisperEngine(
        model_dir=models_dir / "whisper-base", threads=1, partial_every_s=None, timeout_s=120
    )
    async with inside({"vad.provider": "silero"}, asr=engine, ready=False) as served:
        assert isinstance(served.daemon.room.vad, SileroVad)
        async with asyncio.timeout(300):
            await served.ready.wait()
        async with openai_client(served) as api:
            mp3 = sound(both, form="MP3", subtype="MPEG_LAYER_III")
            first: Any = await api.audio.transcriptions.create(
                model="whisper-1", file=("talk.mp3", mp3), response_format="verbose_json"
            )
            video = container(both, form="mp4", rate=16_000, video=True)
            second: Any = await api.audio.transcriptions.create(
                model="whisper-1", file=("talk.mp4", video), response_format="srt"
            )
            only = await api.audio.transcriptions.create(
                model="whisper-1", file=("zh.wav", sound(chinese)), language="zh"
            )
    heard = first.segments
    assert error_rate(ENGLISH, heard[0].text) < 0.25
    assert error_rate(CHINESE, "".join(each.text for each in heard[1:])) < 0.35
    assert 1.5 < heard[0].start < 2.5
    assert abs(heard[0].end - end_of_english) < 0.6
    assert abs(heard[1].start - end_of_english - 2) < 0.6
    assert first.duration == pytest.approx(len(both) / 16_000, abs=0.2)
    assert "00:00:0" in second
    assert error_rate(CHINESE, only.text) < 0.35
