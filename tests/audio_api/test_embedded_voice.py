"""The embedded voice answers a stock client in MP3, and all that it says comes through."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from pipeline.latency import sounding
from tests.audio_api.conftest import openai_client
from tests.audio_api.test_formats import PADDING_S, decode
from tests.daemon.inside import inside
from tts_engine.kokoro.engine import KokoroEngine
from tts_engine.text.stream import segment

#: loading the model and warming it, on a machine that others use as well, seconds
START_S = 300.0
TEXT = "**你好！** 今天是3月5日，we have 2 new messages. 气温25℃。"


@pytest.mark.models
@pytest.mark.timeout(600)
async def test_a_text_in_both_languages_comes_as_mp3(models_dir: Path):
    voice = KokoroEngine(model_dir=models_dir / "kokoro", threads=1)
    async with inside(voice=voice, ready=False) as served:
        async with asyncio.timeout(START_S):  # it warms up for longer than a test waits otherwise
            await served.ready.wait()
        async with openai_client(served) as api:
            reply = await api.audio.speech.create(model="tts-1", voice="alloy", input=TEXT)
        made = 0
        for clause in segment(TEXT):
            async for chunk in voice.synthesize(clause.text, voice=served.daemon.voices[0]):
                made += len(chunk.pcm) // 2
        assert served.count("engine_wait_seconds_count", engine="tts") >= len(segment(TEXT))
    samples, rate = decode(reply.content)
    assert len(samples) / rate == pytest.approx(made / voice.sample_rate, abs=PADDING_S)
    assert np.mean(sounding(samples, rate)) > 0.5
