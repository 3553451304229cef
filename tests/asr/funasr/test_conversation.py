"""A conversation with the daemon, recognised by FunASR's classes with tiny random weights.

What they understand means nothing; that the turns open, end, are answered and interrupted does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.client import DONE, HEARD, REPORT, talking
from tests.daemon.process import DaemonProcess, environment

STORY = "从前有一座山，山里有一座庙。庙里有一个老和尚，在给小和尚讲故事。故事讲的是一座山。"
#: loading on a machine that others use as well, seconds
START_S = 300.0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["streaming+offline", "streaming"])
async def test_a_conversation_with_a_barge_in(mode: str, tiny_dir: Callable[[Any], Path]) -> None:
    daemon = DaemonProcess(
        engines="scripted:llm=20@50,tts=50",
        args=["--asr", "funasr"],
        sets={
            "vad.provider": "energy",  # the speech is synthetic
            "scripted.replies": f'["{STORY}", "好的。", "再见。"]',
            "asr.funasr.mode": mode,
            "asr.funasr.device": "cpu",
            "asr.funasr.streaming_model": tiny_dir("paraformer-streaming"),
            "asr.funasr.offline_model": tiny_dir("sensevoice"),
            "asr.funasr.punctuation_model": tiny_dir("ct-punc"),
            "asr.timeout_s": 60.0,
            "threads.asr": 1,
        },
        env=environment(),
    )
    try:
        await asyncio.to_thread(daemon.line, r" ready: ", timeout_s=START_S)
        await converse(daemon.url)
        await asyncio.to_thread(check_books, daemon)
    finally:
        await asyncio.to_thread(daemon.close)


async def converse(url: str) -> None:
    async with talking(url, microphone=True) as client:
        await client.say(2.0)
        assert await client.transcript()
        first = await client.playing(600)
        await client.say(1.6)  # a barge-in, whatever is understood
        response = await client.done()
        assert (response["id"], response["status"]) == (first, "cancelled")
        for turn in (2, 3):
            assert await client.transcript(turn)
            assert (await client.done(turn))["status"] == "completed"
            if turn == 2:
                await client.say(1.0)
        assert (len(client.of(DONE)), len(client.of(HEARD))) == (3, 3)
        reports = [(await client.wait(REPORT, turn))["report"] for turn in (1, 2, 3)]
        outcomes = [report["outcome"] for report in reports]
        assert outcomes == ["interrupted", "answered", "answered"]
        assert not client.of("error")
    assert STORY.startswith(reports[0]["answer"])


def check_books(daemon: DaemonProcess) -> None:
    daemon.metric("sessions", 0)
    assert [line[3] for line in daemon.turn_lines(3)] == ["interrupted", "answered", "answered"]
    page = daemon.metrics()
    assert page["engine_queue{asr}"] == 0
    assert page["asr_partial_wait_seconds_count"] > 0
    assert page["asr_partial_stride_seconds"] >= 0.6
    assert page.get("turns_total{failed}", 0) == 0
