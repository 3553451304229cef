"""Invariants: an abort is answered by exactly one stop, at once, in every phase of a turn; nothing
of the old turn comes after it; the next turn works.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from services.scripted.asr import ScriptedAsr
from services.scripted.llm_script import LlmScript
from services.scripted.llm_server import ScriptedLlmServer
from services.scripted.spec import ScriptedTexts
from services.scripted.tts import ScriptedVoice, char_times
from tests.daemon.inside import Inside, inside, settled
from tests.xiaozhi.device import START, STOP, Device, silence, talking, voice
from tests.xiaozhi.order import STT, answers
from tests.xiaozhi.served import STORY, served
from tests.xiaozhi.turn import turn

MODES = pytest.mark.parametrize("mode", ["auto", "manual", "realtime"])
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])
#: from the abort to its stop, on a machine that others use as well, seconds; 2 ms when it is idle
AT_ONCE_S = 0.5
#: how long nothing may come after it; what a turn that goes on would send comes far sooner
QUIET_S = 0.5

Record = Callable[[str, Any], None]


async def abort(device: Device, record: Record, *, mode: str = "auto") -> None:
    """Aborts: one stop comes at once, nothing of the old turn after it, and the next turn works."""
    stops = len(device.of(STOP))
    began = time.monotonic()
    await device.abort(reason="wake_word_detected")
    stop = await device.wait(STOP, stops + 1)
    record("abort_to_stop_ms", round((stop.at - began) * 1000, 1))
    assert stop.at - began < AT_ONCE_S
    await silent(device)
    assert device.told[-1] is stop
    await turn(device, mode=mode)
    seen = answers(device.told, aborts=device.aborts)
    assert not seen.speaking
    assert seen.played[-1]
    assert len(device.of(STOP)) == stops + 2  # the abort's, and the next turn's


async def silent(device: Device) -> None:
    """Nothing comes for a while."""
    count = len(device.told)
    await asyncio.sleep(QUIET_S)
    assert device.told[count:] == []


async def ask(device: Device, mode: str) -> None:
    """Says something, to the end."""
    await device.speak()
    if mode == "manual":
        await device.release()


# --- before the answer ------------------------------------------------------------------------
@MODES
@served
async def test_while_nothing_happens(daemon: Inside, mode: str, record_property: Record) -> None:
    """Checklist: abort without an answer: a stop comes all the same."""
    async with talking(daemon.address, mode=mode) as device:
        await abort(device, record_property, mode=mode)


@served
async def test_before_the_first_listen_start(daemon: Inside, record_property: Record) -> None:
    """Checklist: abort before anything was said."""
    async with talking(daemon.address) as device:
        await device.sound(voice(0.6))
        await abort(device, record_property)


@MODES
@VERSIONS
@served
async def test_while_the_user_speaks(
    daemon: Inside, mode: str, version: int, record_property: Record
) -> None:
    """Checklist: abort while listening: what was said before it is none of the next turn."""
    async with talking(daemon.address, mode=mode, version=version) as device:
        await device.sound(voice(0.6))
        await abort(device, record_property, mode=mode)
        assert len(device.of(STT)) == 1


@MODES
async def test_while_recognition_runs(mode: str, record_property: Record) -> None:
    """Checklist: abort while the text is awaited: it never comes."""
    asr = ScriptedAsr(delay_s=0.3, texts=ScriptedTexts(transcripts=["第一句", "第二句"]))
    async with (
        inside({"scripted.replies": json.dumps([STORY])}, asr=asr) as daemon,
        talking(daemon.address, mode=mode) as device,
    ):
        await ask(device, mode)
        await settled(lambda: asr.stats.depth > 0, "recognition does not begin")
        await abort(device, record_property, mode=mode)
        assert [each.body["text"] for each in device.of(STT) if each.body] == ["第二句"]


@pytest.mark.parametrize("what", ["voice", "text"])
@MODES
@served
async def test_what_still_waits_when_the_abort_comes(
    daemon: Inside, mode: str, what: str, record_property: Record
) -> None:
    """Checklist: abort in the same moment in which the turn ends: it is none any more."""
    async with talking(daemon.address, mode=mode) as device:
        await device.sound(silence(20.0))  # there is something to look at first
        await (ask(device, mode) if what == "voice" else device.detect("讲个故事"))
        await abort(device, record_property, mode=mode)
        assert len(device.of(STT)) == 1


# --- the answer -------------------------------------------------------------------------------
@asynccontextmanager
async def slow(script: LlmScript, *, voice: ScriptedVoice | None = None) -> AsyncIterator[Inside]:
    """A daemon whose language model is a server."""
    async with ScriptedLlmServer(script=script) as llm:
        sets = {"llm.provider": "openai", "llm.base_url": llm.base_url, "llm.model": "scripted"}
        async with inside(sets, voice=voice) as daemon:
            script.requests.clear()
            yield daemon


@MODES
async def test_while_the_model_thinks(mode: str, record_property: Record) -> None:
    """Checklist: abort before the first audio: the model has not said anything."""
    script = LlmScript(texts=ScriptedTexts(replies=[STORY]))
    async with slow(script) as daemon, talking(daemon.address, mode=mode) as device:
        script.first_token_s = 60.0
        await ask(device, mode)
        await device.wait(START)
        await settled(lambda: bool(script.requests), "the model is not asked")
        script.first_token_s = 0.0
        await abort(device, record_property, mode=mode)
        await settled(lambda: script.requests[0].cancelled, "the model still thinks")


@MODES
async def test_while_the_first_words_are_made(mode: str, record_property: Record) -> None:
    """Checklist: abort before the first audio: the voice has begun, and gave nothing yet."""
    engine = ScriptedVoice()
    script = LlmScript(texts=ScriptedTexts(replies=[STORY]))
    async with slow(script, voice=engine) as daemon, talking(daemon.address, mode=mode) as device:
        engine.first_chunk_s, count = 60.0, len(engine.spoken)
        await ask(device, mode)
        await device.wait(START)
        await settled(lambda: len(engine.spoken) > count, "the voice is not asked")
        engine.first_chunk_s = 0.0
        await abort(device, record_property, mode=mode)
        assert engine.spoken[count].cancelled


@MODES
@VERSIONS
@served
async def test_in_the_middle_of_the_answer(
    daemon: Inside, mode: str, version: int, record_property: Record
) -> None:
    """Checklist: abort mid audio."""
    async with talking(daemon.address, mode=mode, version=version) as device:
        await ask(device, mode)
        await device.playing(8)
        await abort(device, record_property, mode=mode)
        first, second = answers(device.told, aborts=1).played
        assert first < second


@MODES
async def test_between_the_last_frame_and_the_stop(mode: str, record_property: Record) -> None:
    """Checklist: abort after the last frame: the stop comes at once, and only once."""
    seconds = sum(char_times(text)[-1] for text in (STORY[:7], STORY[7:]))
    sets = {"scripted.replies": json.dumps([STORY]), "xiaozhi.stop_margin_ms": 2000}
    async with inside(sets) as daemon, talking(daemon.address, mode=mode) as device:
        await ask(device, mode)
        await device.playing(int(np.ceil(seconds / 0.06)))
        assert not device.of(STOP)
        await abort(device, record_property, mode=mode)


@MODES
@served
async def test_after_the_stop(daemon: Inside, mode: str, record_property: Record) -> None:
    """Checklist: abort after the answer: one stop more, which finds the device listening."""
    async with talking(daemon.address, mode=mode) as device:
        await turn(device, mode=mode)
        await abort(device, record_property, mode=mode)


# --- again and again --------------------------------------------------------------------------
@MODES
@served
async def test_twice(daemon: Inside, mode: str, record_property: Record) -> None:
    """Checklist: two aborts: each has its stop, of which one finds the device speaking."""
    async with talking(daemon.address, mode=mode) as device:
        await ask(device, mode)
        await device.playing(4)
        for _ in range(2):
            await device.abort()
        await device.wait(STOP, 2)
        await silent(device)
        assert answers(device.told, aborts=2).spare == 1
        await abort(device, record_property, mode=mode)
        assert answers(device.told, aborts=3).spare == 2


@served
async def test_ten_turns_that_are_all_interrupted(daemon: Inside, record_property: Record) -> None:
    """Checklist: no frame of a turn after the stop of that turn, time after time."""
    async with talking(daemon.address) as device:
        packets = 0
        for count in range(10):
            await device.speak()
            await device.playing(packets + 1 + count % 3)
            await device.abort()
            await device.wait(STOP, count + 1)
            packets = len(device.audio)
            await device.listen()
        await abort(device, record_property)
        assert len(device.of(STT)) == 11


@served
async def test_as_the_firmware_from_2_2_3_on_does_it(
    daemon: Inside, record_property: Record
) -> None:
    """Checklist: abort, `listen start` and speech in one go: none of the new turn is lost."""
    async with talking(daemon.address) as device:
        await device.speak()
        await device.playing(4)
        await device.abort(reason="wake_word_detected")
        await device.listen()
        await device.sound(np.concatenate((voice(0.6), silence(0.5))))
        await device.wait(STOP, 2)
        assert len(device.of(STT)) == 2
        assert len(answers(device.told, aborts=1).played) == 2
        await abort(device, record_property)
