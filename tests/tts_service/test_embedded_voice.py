"""The embedded voice in the service speaks by every route, and says that it cannot clone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.latency import sounding
from tests.audio_api.test_formats import decode
from tests.tts_service.served import error_of, recording, served

TEXT = "你好！今天是3月5日，we have 2 new messages."


@pytest.mark.models
@pytest.mark.timeout(600)
async def test_it_speaks_by_every_route(models_dir: Path):
    sets = {
        "tts.provider": "kokoro",
        "tts.clause_timeout_s": 200,
        "models.dir": json.dumps(str(models_dir)),
    }
    async with served(None, sets, start_s=300) as at:
        async with at.http() as client:
            reply = await client.post("/tts", json={"text": TEXT, "sample_rate": 16_000})
            listed = (await client.get("/list-voice")).json()
            form = {"name": "me", "text": "你好"}
            cloned = await client.post("/register-voice", data=form, files={"audio": recording()})
            japanese = await client.post("/tts", json={"text": TEXT, "language": "ja"})
        samples, rate = decode(reply.content)
        assert rate == 16_000
        assert np.mean(sounding(samples, rate)) > 0.5
        assert listed["cloning"] is False
        assert [each["id"] for each in listed["voices"]] == list(at.service.voice.voices)
        assert error_of(cloned) == (501, "cannot_clone", None)
        assert "kokoro cannot clone" in cloned.text
        assert error_of(japanese) == (400, "unsupported_language", "language")
        async with at.talk() as talk:
            await talk.say("start")
            for piece in ("你", "好！今天是", "3月5日。"):
                await talk.say("text", text=piece)
            await talk.say("end")
            events, audio = await talk.until("end", "error")
            assert events[-1]["type"] == "end"
            heard = np.frombuffer(audio, "<i2")
            assert np.mean(sounding(heard, 24_000)) > 0.5
        async with at.openai() as api:
            speech = await api.audio.speech.create(
                model="tts-1", voice="alloy", input="你好。", response_format="pcm"
            )
        assert len(speech.content) > 24_000 // 4
