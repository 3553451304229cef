"""Invariant: at every sample of the scripted voice it is known which characters were spoken."""

import asyncio
import math
import time
from contextlib import aclosing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.latency import first_sound, last_sound
from services.scripted import tts
from services.scripted.tts import (
    SAMPLE_RATE,
    ScriptedVoice,
    VoiceFault,
    char_times,
    detect_tone,
    tone_of,
)
from tts_engine.errors import BadRequest, EngineFailed, UnknownVoice

TEXT = "今天天气不错，we could go out。"


async def spoken(engine, text=TEXT, **options):
    return [chunk async for chunk in engine.synthesize(text, **options)]


@given(st.text(min_size=1, max_size=60))
def test_characters_last_80_to_239_ms(text):
    times = char_times(text)
    lengths = np.diff([0.0, *times])
    assert len(times) == len(text)
    assert lengths.min() >= 0.0799
    assert lengths.max() <= 0.2391
    assert times == char_times(text)


def test_character_times_are_uneven():
    lengths = np.diff([0.0, *char_times("好" * 200)])
    assert len(set(lengths.round(3))) > 80
    assert lengths.mean() == pytest.approx(0.16, abs=0.02)


@pytest.mark.parametrize("speed", [0.5, 1.0, 1.37, 2.0])
@pytest.mark.parametrize("silence", [0.0, 0.015, 0.25])
async def test_marks_lie_exactly_at_the_ends_of_characters(speed, silence):
    voice = ScriptedVoice(leading_silence_s=silence)
    chunks = await spoken(voice, speed=speed)
    times = char_times(TEXT, speed=speed, leading_silence_s=silence)
    marks = [mark for chunk in chunks for mark in chunk.marks]
    assert [mark.chars for mark in marks] == list(range(1, len(TEXT) + 1))
    assert [mark.sample / SAMPLE_RATE for mark in marks] == times
    position = 0
    for chunk in chunks:
        start, position = position, position + len(chunk.pcm) // 2
        assert all(start < mark.sample <= position for mark in chunk.marks)
    assert position == marks[-1].sample
    assert {len(chunk.pcm) for chunk in chunks[:-1]} == {4800}
    assert times[-1] == pytest.approx(silence + char_times(TEXT)[-1] / speed, abs=1e-4)


@pytest.mark.parametrize("silence", [0.0, 0.01, 0.13])
async def test_one_unbroken_tone_after_the_leading_silence(silence):
    chunks = await spoken(ScriptedVoice(leading_silence_s=silence))
    pcm = np.frombuffer(b"".join(chunk.pcm for chunk in chunks), "<i2")
    quiet = round(silence * SAMPLE_RATE)
    at = np.arange(len(pcm) - quiet) / SAMPLE_RATE
    expected = 32767 * 0.1 * math.sqrt(2) * np.sin(2 * np.pi * tone_of(TEXT) * at)
    assert not pcm[:quiet].any()
    assert np.abs(pcm[quiet:] - expected).max() <= 1
    assert first_sound(pcm, SAMPLE_RATE) == quiet
    assert last_sound(pcm, SAMPLE_RATE) >= len(pcm) - 240


@given(st.text(min_size=1, max_size=20), st.sampled_from(["one", "two"]), st.integers(4, 20))
def test_the_tone_is_read_back(text, voice, length):
    hz = tone_of(text, voice=voice)
    pcm = tts._sound(int(hz), 777, 777 + length * 120, 0)
    if length < 8:
        return
    assert detect_tone(pcm) == pytest.approx(hz, abs=5)


def test_the_tone_survives_another_rate():
    wave = 3000 * np.sin(2 * np.pi * 1234 * np.arange(16_000) / 16_000)
    assert detect_tone(wave.astype(np.int16), 16_000) == pytest.approx(1234, abs=2)


@pytest.mark.parametrize("pcm", [b"", bytes(4800), np.ones(2400, np.int16)])
def test_silence_has_no_tone(pcm):
    assert detect_tone(pcm) is None


def test_texts_and_voices_differ_in_tone():
    tones = {tone_of(f"这是第{number}个回答。") for number in range(200)}
    assert len(tones) > 50
    assert all(tone_of(TEXT, voice="two") != tone for tone in tones)


async def test_one_tone_for_everything_on_request():
    voice = ScriptedVoice(tone_hz=440)
    for text in ("一", "二"):
        chunks = await spoken(voice, text)
        pcm = b"".join(chunk.pcm for chunk in chunks)
        assert detect_tone(pcm) == pytest.approx(440, abs=5)
    with pytest.raises(BadRequest):
        ScriptedVoice(tone_hz=445)


async def test_the_first_chunk_takes_its_delay_then_all_is_there():
    voice = ScriptedVoice(first_chunk_s=0.08)
    before = time.monotonic()
    times = [time.monotonic() - before async for _ in voice.synthesize(TEXT)]
    assert 0.08 <= times[0] <= 0.18
    assert times[-1] - times[0] <= 0.1
    assert len(times) > 20


async def test_the_rate_holds_without_drift():
    voice = ScriptedVoice(first_chunk_s=0.05, rate=20)
    before = time.monotonic()
    times = [time.monotonic() - before async for _ in voice.synthesize(TEXT)]
    for number, at in enumerate(times):
        due = 0.05 + number * 0.1 / 20
        assert due <= at <= due + 0.1


async def test_closing_stops_the_work_and_is_counted():
    voice = ScriptedVoice()
    async with aclosing(voice.synthesize(TEXT)) as chunks:
        await anext(chunks)
        assert voice.stats.depth == 1
    assert voice.cancelled == 1
    assert (voice.stats.depth, voice.stats.jobs, voice.stats.errors) == (0, 0, {})
    clause = voice.spoken[-1]
    assert (clause.cancelled, clause.finished) == (True, False)
    assert clause.made_s == pytest.approx(0.1)


async def test_cancelling_the_task_that_waits_for_the_first_chunk():
    voice = ScriptedVoice(first_chunk_s=60)
    task = asyncio.create_task(spoken(voice))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (voice.cancelled, voice.stats.depth) == (1, 0)
    assert voice.spoken[0].made_s == 0


async def test_what_was_asked_for_is_remembered_up_to_a_limit():
    voice = ScriptedVoice(keep=2)
    assert voice.voices == ("one", "two")
    for number in range(4):
        await spoken(voice, f"第{number}句", voice="two", speed=1.5, style="calm")
    assert [clause.text for clause in voice.spoken] == ["第2句", "第3句"]
    clause = voice.spoken[-1]
    assert (clause.voice, clause.speed, clause.style) == ("two", 1.5, "calm")
    assert clause.finished
    assert clause.made_s == pytest.approx(char_times("第3句", speed=1.5)[-1])
    assert voice.stats.jobs == 4


async def test_fails_at_the_clause_and_chunk_that_it_is_told():
    voice = ScriptedVoice(failures={2: VoiceFault(kind="raise", after_chunks=1)})
    await spoken(voice)
    chunks = voice.synthesize(TEXT)
    assert len((await anext(chunks)).pcm) == 4800
    with pytest.raises(EngineFailed):
        await anext(chunks)
    await spoken(voice)
    assert voice.stats.errors == {"engine_failed": 1}
    assert (voice.stats.jobs, voice.stats.depth, voice.cancelled) == (2, 0, 0)


async def test_gives_nothing_when_told():
    voice = ScriptedVoice(failures={1: VoiceFault(kind="empty")})
    assert await spoken(voice) == []
    assert voice.cancelled == 0


async def test_hangs_until_cancelled_or_closed():
    voice = ScriptedVoice(failures={number: VoiceFault(kind="hang") for number in (1, 2)})
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(spoken(voice), 0.02)
    task = asyncio.create_task(spoken(voice))
    await asyncio.sleep(0)
    await voice.close()
    with pytest.raises(EngineFailed):
        await task
    assert (voice.cancelled, voice.stats.depth) == (1, 0)


async def test_closed_means_closed_until_started_again():
    voice = ScriptedVoice()
    running = voice.synthesize(TEXT)
    await anext(running)
    await voice.close()
    await voice.close()
    with pytest.raises(EngineFailed):
        await anext(running)
    with pytest.raises(EngineFailed):
        await spoken(voice)
    await voice.start()
    await voice.start()
    assert await spoken(voice)


@pytest.mark.parametrize(
    "text, options, failure",
    [
        ("", {}, BadRequest),
        ("好", {"speed": 0.4}, BadRequest),
        ("好", {"speed": math.nan}, BadRequest),
        ("好", {"voice": "three"}, UnknownVoice),
    ],
)
async def test_arguments_that_cannot_be_are_refused_before_any_work(text, options, failure):
    voice = ScriptedVoice()
    with pytest.raises(failure):
        await spoken(voice, text, **options)
    assert voice.spoken == []
