"""Invariant: every format decodes back to the speech that was made, whoever decodes it."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from services.scripted.tts import ScriptedVoice, detect_tone
from tests.audio_api.conftest import TEXT, openai_client, seconds_of
from tests.daemon.inside import inside
from tts_engine.audio.encoders import CONTENT_TYPES, RATE, Format, make_encoder

CODED: tuple[Format, ...] = ("mp3", "opus", "aac", "flac")
#: what an encoder may add at either end, seconds
PADDING_S = 0.12
TONE_HZ = 440


def decode(data: bytes) -> tuple[NDArray[np.int16], int]:
    """Samples and their rate, by ffmpeg."""
    resampler = av.AudioResampler(format="s16", layout="mono")
    with av.open(io.BytesIO(data)) as container:
        rate = container.streams.audio[0].rate
        frames = [f for frame in container.decode(audio=0) for f in resampler.resample(frame)]
    return np.concatenate([frame.to_ndarray().reshape(-1) for frame in frames]), rate


def tone(seconds: float, rate: int = RATE) -> bytes:
    wave = np.sin(2 * np.pi * TONE_HZ * np.arange(round(seconds * rate)) / rate)
    return np.rint(wave * 8000).astype("<i2").tobytes()


@pytest.mark.parametrize("form", [*CODED, "wav"])
async def test_the_openai_client_gets_what_it_asks_for(form: Format):
    async with inside(voice=ScriptedVoice(tone_hz=TONE_HZ)) as served, openai_client(served) as api:
        reply = await api.audio.speech.create(
            model="gpt-4o-mini-tts", voice="alloy", input=TEXT, response_format=form
        )
    samples, rate = decode(reply.content)
    assert reply.response.headers["content-type"] == CONTENT_TYPES[form]
    assert len(samples) / rate == pytest.approx(seconds_of(TEXT), abs=PADDING_S)
    assert detect_tone(samples, rate) == pytest.approx(TONE_HZ, abs=5)


async def test_mp3_is_the_default():
    async with inside(voice=ScriptedVoice()) as served, openai_client(served) as api:
        reply = await api.audio.speech.create(model="tts-1", voice="nova", input=TEXT)
    assert reply.response.headers["content-type"] == "audio/mpeg"
    assert av.open(io.BytesIO(reply.content)).streams.audio[0].codec.name.startswith("mp3")


async def test_raw_pcm_streams_to_the_openai_client():
    async with (
        inside(voice=ScriptedVoice(tone_hz=TONE_HZ)) as served,
        openai_client(served) as api,
        api.audio.speech.with_streaming_response.create(
            model="tts-1", voice="one", input=TEXT, response_format="pcm"
        ) as reply,
    ):
        data = b"".join([piece async for piece in reply.iter_bytes()])
    assert len(data) / 2 / RATE == seconds_of(TEXT)
    assert detect_tone(data) == pytest.approx(TONE_HZ, abs=5)


def test_a_wav_file_opens_although_its_length_is_left_open():
    encoder = make_encoder("wav", rate=RATE)
    data = encoder.push(tone(0.5)) + encoder.finish()
    samples, rate = soundfile.read(io.BytesIO(data), dtype="int16")
    assert (rate, len(samples)) == (RATE, RATE // 2)


@pytest.mark.parametrize("form", [*CODED, "wav", "pcm"])
def test_what_is_made_leaves_soon(form: Format):
    encoder = make_encoder(form, rate=RATE)
    made = [encoder.push(tone(0.2)) for _ in range(5)]
    assert all(made), "a fifth of a second was held back"
    encoder.close()
    encoder.close()


@pytest.mark.parametrize("form", [*CODED, "wav", "pcm"])
@pytest.mark.parametrize("rate", [16_000, 22_050, 48_000])
def test_other_rates_are_brought_to_the_one_that_clients_expect(form: Format, rate: int):
    encoder = make_encoder(form, rate=rate)
    audio = tone(1.0, rate)
    data = b"".join(encoder.push(audio[i : i + 2000]) for i in range(0, len(audio), 2000))
    data += encoder.finish()
    encoder.close()
    if form == "pcm":
        samples, out = np.frombuffer(data, "<i2"), RATE
    else:
        samples, out = decode(data)
    assert len(samples) / out == pytest.approx(1.0, abs=PADDING_S)
    assert detect_tone(samples.copy(), out) == pytest.approx(TONE_HZ, abs=5)


@pytest.mark.parametrize("form", CODED)
def test_odd_pieces_and_empty_ones_make_a_whole_stream(form: Format):
    encoder = make_encoder(form, rate=RATE)
    audio = tone(0.7)
    sizes = [2, 0, 14, 7_000, 2, 2_000]
    data, at = b"", 0
    while at < len(audio):
        size = sizes[at % len(sizes)] or 2
        data += encoder.push(audio[at : at + size]) + encoder.push(b"")
        at += size
    samples, rate = decode(data + encoder.finish())
    assert len(samples) / rate == pytest.approx(0.7, abs=PADDING_S)
