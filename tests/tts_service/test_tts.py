"""Invariants of POST /tts: what was asked for comes, as it is made, and says how fast it came."""

from __future__ import annotations

import asyncio
import io

import numpy as np
import pytest
import soundfile
from loguru import logger

from services.scripted.tts import ScriptedVoice, VoiceFault, detect_tone
from tests.audio_api.conftest import ValveVoice
from tests.audio_api.test_formats import decode
from tests.daemon.inside import settled
from tests.tts_service.served import RATE, TEXT, error_of, level, seconds_of, served
from tts_engine.audio.encoders import CONTENT_TYPES, Format, rates_of
from tts_engine.text.stream import segment

TONE_HZ = 440
CLAUSES = [clause.text for clause in segment(TEXT)]


async def test_a_text_comes_as_wav_with_the_time_to_its_first_audio():
    async with served(ScriptedVoice(tone_hz=TONE_HZ)) as at, at.http() as client:
        reply = await client.post("/tts", json={"text": TEXT})
    assert reply.headers["content-type"] == "audio/wav"
    assert int(reply.headers["x-first-audio-ms"]) >= 0
    assert "content-length" not in reply.headers
    samples, rate = decode(reply.content)
    assert rate == RATE
    assert len(samples) / rate == seconds_of(TEXT)
    assert detect_tone(samples, rate) == pytest.approx(TONE_HZ, abs=5)
    assert at.count("speech_requests_total", outcome="done") == 1
    assert at.count("speech_first_byte_seconds_count") == 1
    assert at.count("speech_characters_sum") == len(TEXT)
    assert at.count("speech_audio_seconds_sum") == pytest.approx(seconds_of(TEXT))


async def test_the_first_audio_comes_while_the_rest_is_not_made_yet():
    voice = ValveVoice()
    async with served(voice) as at, at.http() as client:
        voice.give("part")
        async with client.stream("POST", "/tts", json={"text": TEXT, "format": "pcm"}) as reply:
            pieces = reply.aiter_bytes()
            first = await anext(pieces)
            assert len(first) == RATE // 10 * 2
            assert "x-first-audio-ms" in reply.headers
            assert voice.asked == CLAUSES[:1]
            voice.give(*["last"] * len(CLAUSES))
            rest = b"".join([piece async for piece in pieces])
    assert len(rest) == len(first) * len(CLAUSES)


@pytest.mark.parametrize("form", ["wav", "mp3", "opus", "flac", "aac"])
async def test_a_whole_answer_has_its_length(form: Format):
    async with served() as at, at.http() as client:
        asked = {"text": TEXT, "format": form, "streaming": False}
        reply = await client.post("/tts", json=asked)
    assert int(reply.headers["content-length"]) == len(reply.content)
    assert reply.headers["content-type"] == CONTENT_TYPES[form]
    assert "x-first-audio-ms" in reply.headers
    samples, rate = decode(reply.content)
    assert len(samples) / rate == pytest.approx(seconds_of(TEXT), abs=0.12)


async def test_a_whole_wav_says_how_long_it_is():
    async with served() as at, at.http() as client:
        reply = await client.post("/tts", json={"text": TEXT, "streaming": False})
    data = reply.content
    assert int.from_bytes(data[4:8], "little") == len(data) - 8
    info = soundfile.info(io.BytesIO(data))
    assert info.frames / info.samplerate == seconds_of(TEXT)


@pytest.mark.parametrize(
    "form, rate",
    [("pcm", 8_000), ("wav", 16_000), ("mp3", 44_100), ("opus", 48_000), ("aac", 22_050)],
)
async def test_other_rates_are_resampled(form: Format, rate: int):
    async with served(ScriptedVoice(tone_hz=TONE_HZ)) as at, at.http() as client:
        asked = {"text": TEXT, "format": form, "sample_rate": rate}
        reply = await client.post("/tts", json=asked)
    assert reply.headers["x-sample-rate"] == str(rate)
    if form == "pcm":
        samples, got = np.frombuffer(reply.content, "<i2"), rate
    else:
        samples, got = decode(reply.content)
    assert got == rate
    assert len(samples) / rate == pytest.approx(seconds_of(TEXT), abs=0.15)
    assert detect_tone(samples.copy(), rate) == pytest.approx(TONE_HZ, abs=5)


async def test_a_higher_pitch_takes_no_less_time():
    async with served(ScriptedVoice(tone_hz=TONE_HZ)) as at, at.http() as client:
        asked = {"text": TEXT, "format": "pcm", "pitch": 1.25, "speed": 1.5}
        reply = await client.post("/tts", json=asked)
    assert len(reply.content) / 2 / RATE == pytest.approx(seconds_of(TEXT, speed=1.5), abs=0.01)
    assert detect_tone(reply.content) == pytest.approx(TONE_HZ * 1.25, abs=5)


@pytest.mark.parametrize("energy", [0.5, 1.5])
async def test_energy_is_the_amplitude(energy: float):
    async with served(ScriptedVoice(tone_hz=TONE_HZ)) as at, at.http() as client:
        plain = await client.post("/tts", json={"text": TEXT, "format": "pcm"})
        louder = await client.post("/tts", json={"text": TEXT, "format": "pcm", "energy": energy})
    assert level(louder.content) == pytest.approx(level(plain.content) * energy, rel=0.01)


async def test_voice_pace_style_and_language_reach_the_engine():
    voice = ScriptedVoice()
    async with served(voice) as at, at.http() as client:
        asked = {"text": "25℃", "voice": "two", "speed": 1.5, "instruct": "轻声", "language": "en"}
        assert (await client.post("/tts", json=asked)).status_code == 200
        assert (await client.post("/tts", json={"text": "25℃"})).status_code == 200
    english, chinese = voice.spoken
    assert (english.voice, english.speed, english.style) == ("two", 1.5, "轻声")
    assert (english.text, chinese.text) == ("25 degrees Celsius", "25摄氏度")
    assert (chinese.voice, chinese.speed, chinese.style) == ("one", 1.0, "")


async def test_a_form_may_say_the_same():
    async with served() as at, at.http() as client:
        fields = {"text": TEXT, "format": "pcm", "sample_rate": "16000", "streaming": "false"}
        files = {name: (None, value) for name, value in {**fields, "speed": "2"}.items()}
        reply = await client.post("/tts", files=files)
    assert reply.headers["content-length"] == str(len(reply.content))
    assert len(reply.content) / 2 / 16_000 == pytest.approx(seconds_of(TEXT, speed=2), abs=0.02)


async def test_openais_client_streams_from_the_same_service():
    async with served() as at, at.openai() as api:
        async with api.audio.speech.with_streaming_response.create(
            model="tts-1", voice="alloy", input=TEXT, response_format="pcm"
        ) as reply:
            data = b"".join([piece async for piece in reply.iter_bytes()])
            assert "x-first-audio-ms" in reply.headers
        assert [model.id async for model in api.models.list()] == ["scripted"]
    assert len(data) / 2 / RATE == seconds_of(TEXT)


async def test_several_texts_are_spoken_at_a_time():
    voice = ValveVoice()
    async with served(voice, {"speech.parallel": 2}) as at, at.http() as client:
        asked = {"text": TEXT, "format": "pcm"}
        tasks = [asyncio.create_task(client.post("/tts", json=asked)) for _ in range(2)]
        await settled(lambda: voice.asked == CLAUSES[:1] * 2, "one has waited for the other")
        assert voice.closed == []
        voice.give(*["last"] * (2 * len(CLAUSES)))
        for reply in await asyncio.gather(*tasks):
            assert len(reply.content) == len(CLAUSES) * RATE // 10 * 2


async def test_the_log_has_a_hash_and_a_length_and_not_the_text():
    lines: list[str] = []
    sink = logger.add(lambda line: lines.append(str(line)), level="TRACE")
    secret = "我的秘密是芝麻开门。还有一句。"
    voice = ScriptedVoice(failures={4: VoiceFault(kind="raise")})
    try:
        async with served(voice) as at, at.http() as client:
            assert (await client.post("/tts", json={"text": secret})).status_code == 200
            failed = await client.post("/tts", json={"text": "芝麻开门"})
            async with at.talk() as talk:
                await talk.say("speak", text=secret)
                await talk.until("end", "error")
    finally:
        logger.remove(sink)
    log = "".join(lines)
    assert failed.status_code in (200, 500)
    assert f"({len(secret)} characters)" in log
    assert "芝麻" not in log


async def test_the_log_has_the_text_where_that_was_asked_for():
    lines: list[str] = []
    sink = logger.add(lambda line: lines.append(str(line)), level="INFO")
    try:
        async with served(sets={"speech.log_texts": True}) as at, at.http() as client:
            await client.post("/tts", json={"text": TEXT})
    finally:
        logger.remove(sink)
    assert TEXT in "".join(lines)


async def test_what_there_is_can_be_looked_up():
    async with served() as at, at.http() as client:
        index = await client.get("/")
        health = await client.get("/healthz")
        ready = await client.get("/readyz")
        page = (await client.get("/metrics")).text
        missing = await client.get("/v1/realtime")
        plain = await client.get("/ws/tts")
    assert "POST /tts" in index.json()["about"]
    assert health.json()["status"] == "ok"
    assert ready.json() == {"status": "ready"}
    assert "duplexd_speech_first_byte_seconds_bucket" in page
    assert error_of(missing) == (404, "unknown_url", None)
    assert "/ws/tts" in missing.json()["error"]["message"]
    assert error_of(plain) == (426, "upgrade_required", None)


@pytest.mark.parametrize("form", ["pcm", "opus"])
def test_opus_has_rates_of_its_own(form: Format):
    assert (22_050 in rates_of(form)) == (form == "pcm")
