"""Invariant: the scripted recogniser gives exactly what was spoken so far, never early or twice."""

import asyncio
import time

import numpy as np
import pytest

from services.asr.base import SAMPLE_RATE, Transcript
from services.language import language_of
from services.scripted.asr import ScriptedAsr
from services.scripted.spec import ScriptedTexts
from services.scripted.speech import synthetic_speech
from tts_engine.errors import AtCapacity, BadRequest, EngineFailed, TimedOut

TEXTS = ScriptedTexts(transcripts=["今天天气怎么样呢你说", "turn two of {session}", "…"])


def voice(seconds, **options):
    return synthetic_speech(seconds=seconds, **options).astype(np.float32) / 32768


def silence(seconds):
    return np.zeros(round(seconds * SAMPLE_RATE), np.float32)


def opened(on_partial=None, **options):
    engine = ScriptedAsr(texts=TEXTS, **options)
    return engine, engine.open(session="s1", on_partial=on_partial)


async def test_the_whole_text_comes_with_the_first_100_ms_of_voice():
    engine, recogniser = opened()
    await engine.start()
    recogniser.feed(silence(2))
    recogniser.feed(voice(0.09))
    assert (await recogniser.finalise()).text == ""
    recogniser.feed(voice(0.03))
    result = await recogniser.finalise()
    assert result == Transcript(
        text="今天天气怎么样呢你说", language="zh", final=True, audio_s=2.12, compute_s=0.0
    )
    assert await recogniser.finalise() == result
    assert engine.stats.jobs == 3
    assert engine.stats.depth == 0


@pytest.mark.parametrize("block", [100, 160, 512, 960, 50_000])
async def test_the_prefix_grows_with_the_voice_whatever_the_blocks(block):
    _, recogniser = opened(whole_text=False)
    audio = np.concatenate([silence(0.5), voice(1.0), silence(0.3)])
    for at in range(0, len(audio), block):
        recogniser.feed(audio[at : at + block])
    assert recogniser.voiced_s == pytest.approx(1.0, abs=0.02)
    assert (await recogniser.finalise()).text == "今天天气怎"
    recogniser.feed(voice(0.6))
    assert (await recogniser.finalise()).text == "今天天气怎么样呢"
    recogniser.feed(voice(0.2))
    # nine of ten characters: close enough to be all
    assert (await recogniser.finalise()).text == "今天天气怎么样呢你说"


async def test_noise_below_the_threshold_is_no_voice():
    _, recogniser = opened()
    noise = np.random.default_rng(1).normal(0, 10 ** (-50 / 20), SAMPLE_RATE)
    recogniser.feed(noise.astype(np.float32))
    assert (await recogniser.finalise()).text == ""


async def test_a_block_may_be_filled_again_by_the_caller():
    _, recogniser = opened()
    block = voice(0.2)[:250]
    recogniser.feed(block)
    block[:] = 0
    recogniser.feed(voice(0.2)[:70])
    assert recogniser.voiced_s == pytest.approx(0.02)


async def test_reset_opens_the_next_turn_only_after_a_voice():
    _, recogniser = opened()
    recogniser.reset()
    recogniser.feed(silence(1))
    recogniser.reset()
    assert recogniser.turn == 1
    seen = []
    for _ in range(4):
        recogniser.feed(voice(0.2))
        seen.append((await recogniser.finalise()).text)
        recogniser.reset()
        assert (await recogniser.finalise()).text == ""
    assert seen == [
        "今天天气怎么样呢你说",
        "turn two of s1",
        "…",
        "今天天气怎么样呢你说",
    ]


async def test_the_final_takes_its_delay_and_not_less():
    _, recogniser = opened(delay_s=0.06)
    recogniser.feed(voice(0.3))
    before = time.monotonic()
    result = await recogniser.finalise()
    assert 0.06 <= time.monotonic() - before <= 0.16
    assert result.compute_s == 0.06


async def test_the_text_is_that_of_the_call_not_of_the_answer():
    _, recogniser = opened(delay_s=0.02, whole_text=False)
    recogniser.feed(voice(0.4))
    task = asyncio.create_task(recogniser.finalise())
    await asyncio.sleep(0)
    recogniser.feed(voice(0.4))
    assert (await task).text == "今天"


@pytest.mark.parametrize("withdraw", ["cancel", "reset", "close"])
async def test_withdrawing_ends_the_call(withdraw):
    engine, recogniser = opened(delay_s=60, partial_every_s=0.1, on_partial=pytest.fail)
    recogniser.feed(voice(0.5))
    task = asyncio.create_task(recogniser.finalise())
    await asyncio.sleep(0)
    assert engine.stats.depth == 1
    getattr(recogniser, withdraw)()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (engine.stats.depth, engine.stats.jobs) == (0, 0)


async def test_cancel_keeps_the_audio():
    _, recogniser = opened()
    recogniser.feed(voice(0.5))
    recogniser.cancel()
    assert (await recogniser.finalise()).text == "今天天气怎么样呢你说"


async def test_closing_the_engine_ends_every_handle_and_may_be_repeated():
    engine = ScriptedAsr(delay_s=60)
    handles = [engine.open(session=str(number)) for number in range(3)]
    tasks = [asyncio.create_task(handle.finalise()) for handle in handles]
    await asyncio.sleep(0)
    handles[0].close()
    handles[0].close()
    await engine.close()
    await engine.close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)


async def test_partials_grow_with_the_audio():
    partials: list[Transcript] = []
    _, recogniser = opened(on_partial=partials.append, partial_every_s=0.4)
    for _ in range(4):
        recogniser.feed(voice(0.4))
        await asyncio.sleep(0.001)
    recogniser.feed(silence(0.5))
    recogniser.feed(silence(0.1))
    await asyncio.sleep(0.001)
    assert [partial.text for partial in partials] == [
        "今天",
        "今天天气",
        "今天天气怎么",
        "今天天气怎么样呢",
    ]
    assert not any(partial.final for partial in partials)
    assert [round(partial.audio_s, 3) for partial in partials] == [0.4, 0.8, 1.2, 1.6]


async def test_partials_take_the_delay_too_and_come_before_the_final():
    partials: list[Transcript] = []
    _, recogniser = opened(on_partial=partials.append, partial_every_s=0.4, delay_s=0.03)
    recogniser.feed(voice(0.4))
    await asyncio.sleep(0.001)
    assert partials == []
    await recogniser.finalise()
    assert [partial.text for partial in partials] == ["今天"]


@pytest.mark.parametrize("failure", [EngineFailed, TimedOut, AtCapacity])
async def test_fails_in_its_turn_only(failure):
    engine, recogniser = opened(fail_turns={2: failure.code})
    recogniser.feed(voice(0.2))
    await recogniser.finalise()
    recogniser.reset()
    recogniser.feed(voice(0.2))
    for _ in range(2):
        with pytest.raises(failure):
            await recogniser.finalise()
    recogniser.reset()
    recogniser.feed(voice(0.2))
    assert (await recogniser.finalise()).text == "…"
    assert engine.stats.errors == {failure.code: 2}
    assert engine.stats.jobs == 2


async def test_hangs_until_withdrawn():
    _, recogniser = opened(hang_turns={1})
    recogniser.feed(voice(0.2))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(recogniser.finalise(), 0.02)


def test_an_unknown_failure_is_refused():
    with pytest.raises(BadRequest, match="engine_failed"):
        ScriptedAsr(fail_turns={1: "explodes"})


@pytest.mark.parametrize(
    "text, language", [("OK 好的", "zh"), ("fine, 3", "en"), ("？!", ""), ("", "")]
)
def test_language_is_told_by_script(text, language):
    assert language_of(text) == language


async def test_restricted_languages_are_remembered_and_the_script_stays():
    _, recogniser = opened()
    assert recogniser.languages is None
    recogniser.restrict(("en",))
    recogniser.hint(("滨海",))
    assert (recogniser.languages, recogniser.hotwords) == (("en",), ("滨海",))
    recogniser.feed(voice(1))
    assert (await recogniser.finalise()).language == "zh"
    recogniser.restrict(None)
    assert recogniser.languages is None


async def test_finals_say_how_it_was_said_and_what_else_was_heard():
    partials = []
    _, recogniser = opened(
        partials.append,
        emotions={1: "happy"},
        events={2: ("laughter",)},
        partial_every_s=0.2,
    )
    recogniser.feed(voice(0.5))
    first = await recogniser.finalise()
    assert (first.emotion, first.events) == ("happy", ())
    await asyncio.sleep(0)  # partials are due
    assert {partial.emotion for partial in partials} <= {""}
    recogniser.reset()
    recogniser.feed(voice(0.5))
    second = await recogniser.finalise()
    assert (second.emotion, second.events) == ("", ("laughter",))
