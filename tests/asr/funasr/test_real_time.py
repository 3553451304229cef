"""Twenty people at once on two cores, in real time, with tiny weights in a worker of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from services.asr.base import SAMPLE_RATE, Samples
from services.asr.funasr.engine import FunAsrEngine
from services.asr.funasr.wire import Settings
from tests.asr.funasr.conftest import Sound
from tests.asr.partials import Partials

SESSIONS = 20
TALK_S = 8.0
#: seconds within which they all begin
STAGGER_S = 3.0
#: samples that a microphone's window has, and seconds between two
WINDOW, WINDOW_S = 512, 0.032
#: how late a partial may come: less than a chunk, or they pile up
LATE_S = 0.6


@pytest.mark.alone
@pytest.mark.timeout(600)  # the worker's imports, on a machine that others use as well
async def test_twenty_sessions_in_real_time(tiny_dir: Callable[[Any], Path], sound: Sound) -> None:
    engine = FunAsrEngine(
        settings=Settings(
            mode="streaming+offline",
            streaming_dir=str(tiny_dir("paraformer-streaming")),
            offline_dir=str(tiny_dir("sensevoice")),
            streaming_device="cpu",
            offline_device="cpu",
        ),
        timeout_s=60.0,
    )
    waits: list[float] = []
    finals: list[float] = []
    engine.stats.on_partial_wait = waits.append
    engine.stats.on_wait = finals.append
    try:
        await engine.start()
        talks = [sound(int(TALK_S * SAMPLE_RATE), number) for number in range(SESSIONS)]
        starts = [STAGGER_S * number / SESSIONS for number in range(SESSIONS)]
        heard = await asyncio.gather(
            *(talk(engine, *each) for each in zip(talks, starts, strict=True))
        )
    finally:
        await engine.close()
    assert all(heard)
    assert engine.stats.errors == {}
    assert engine.stats.jobs == 2 * SESSIONS
    assert sorted(waits)[len(waits) * 95 // 100] < LATE_S
    assert sorted(finals)[len(finals) * 95 // 100] < LATE_S


async def talk(engine: FunAsrEngine, samples: Samples, start_s: float) -> str:
    """Says something at the pace of a microphone; its text is asked for twice."""
    await asyncio.sleep(start_s)
    partials = Partials()
    recogniser = engine.open(session="s", on_partial=partials)
    clock = asyncio.get_running_loop().time
    started = clock()
    for number, at in enumerate(range(0, samples.size, WINDOW), start=1):
        recogniser.feed(samples[at : at + WINDOW])
        await asyncio.sleep(max(0.0, started + number * WINDOW_S - clock()))
        if at <= samples.size // 2 < at + WINDOW:
            assert (await recogniser.finalise()).text
    transcript = await recogniser.finalise()
    partials.check()
    assert partials
    assert transcript.audio_s == samples.size / SAMPLE_RATE
    recogniser.close()
    return transcript.text
