"""A conversation with the daemon in a cloned voice, interrupted twice; on a tiny model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from services.scripted.llm_script import LlmScript
from services.scripted.llm_server import ScriptedLlmServer
from services.scripted.spec import ScriptedTexts
from tests.cosyvoice.conftest import Reference
from tests.cosyvoice.loop import as_wav
from tests.daemon.client import DONE, HEARD, REPORT, TRUNCATED, talking
from tests.daemon.process import DaemonProcess, environment
from tts_engine.cosyvoice.frontend import Frontend
from tts_engine.cosyvoice.voices import VoiceStore

STORY = "从前有一座山，山里有一座庙。庙里有一个老和尚，在给小和尚讲故事。故事讲的是一座山。"
MORE = "好的，我接着讲。山里有一座庙，庙里有一个老和尚。"
SHORT = "好的，我不讲了。"
TURNS = '["讲个故事", "停一下", "继续"]'
#: loading on a machine that others use as well, seconds
START_S = 300.0


@pytest.mark.timeout(600)
async def test_a_conversation_with_barge_ins(model_dir: Path, reference: Reference, tmp_path: Path):
    voices = tmp_path / "voices"
    wav = as_wav(reference, tmp_path / "reference.wav")
    VoiceStore(voices).register(
        "anna", wav, reference.text, extractor=Frontend(model_dir), consent="it is nobody's"
    )
    texts = ScriptedTexts(replies=[STORY, MORE, SHORT])
    # Slow enough that the first clause is spoken long before the last one is written.
    async with ScriptedLlmServer(script=LlmScript(tokens_per_s=8, texts=texts)) as llm:
        daemon = DaemonProcess(
            engines="scripted:asr=20",
            args=["--tts", "cosyvoice"],
            sets={
                "llm.provider": "openai",
                "llm.base_url": llm.base_url,
                "llm.model": "scripted",
                "scripted.transcripts": TURNS,
                "turns.speculate": "false",
                "tts.clause_timeout_s": 60,
                "tts.cosyvoice.model_dir": model_dir,
                "tts.cosyvoice.voices_dir": voices,
                "tts.cosyvoice.device": "cpu",
                "tts.cosyvoice.steps": 2,
                "tts.cosyvoice.longest_s": 1.6,
                "threads.tts": 1,
            },
            env=environment(),
        )
        try:
            await asyncio.to_thread(daemon.line, r" ready: ", timeout_s=START_S)
            await converse(daemon.url, llm.script)
            await asyncio.to_thread(check_books, daemon)
        finally:
            await asyncio.to_thread(daemon.close)


async def converse(url: str, script: LlmScript) -> None:
    script.requests.clear()  # those of the warm-up
    async with talking(url, microphone=True) as client:
        await client.say(1.0)
        assert await client.transcript() == "讲个故事"
        first = await client.playing(1000)
        [request] = script.requests
        assert not request.finished  # it is still being written
        assert any(client.audio[first].pcm)
        # The first barge-in, and one into the answer that follows it.
        await client.say(0.8)
        response = await client.done()
        assert (response["id"], response["status"]) == (first, "cancelled")
        assert await client.transcript(2) == "停一下"
        second = await client.playing(800, 2)
        await client.say(0.8)
        response = await client.done(2)
        assert (response["id"], response["status"]) == (second, "cancelled")
        assert await client.transcript(3) == "继续"
        third = await client.done(3)
        assert third["status"] == "completed"
        assert third["output"][0]["content"][0]["transcript"] == SHORT
        assert client.audio[third["id"]].ms > 1_000
        assert (len(client.of(TRUNCATED)), len(client.of(DONE)), len(client.of(HEARD))) == (2, 3, 3)
        reports = [(await client.wait(REPORT, turn))["report"] for turn in (1, 2, 3)]
        outcomes = [report["outcome"] for report in reports]
        assert outcomes == ["interrupted", "interrupted", "answered"]
        assert not client.of("error")
    heard = [report["answer"] for report in reports]
    assert 0 < len(heard[0]) < len(STORY)
    assert STORY.startswith(heard[0])
    assert MORE.startswith(heard[1])
    told = [request.messages for request in script.requests if not request.cancelled]
    assert [message["content"] for message in told[-1][1:]] == [
        *("讲个故事", heard[0], "停一下", heard[1], "继续"),
    ]


def check_books(daemon: DaemonProcess) -> None:
    daemon.metric("sessions", 0)
    lines = daemon.turn_lines(3)
    assert [line[3] for line in lines] == ["interrupted", "interrupted", "answered"]
    page = daemon.metrics()
    # Nothing is left of the clauses that were interrupted.
    assert page["engine_queue{tts}"] == 0
    assert page.get("turns_total{failed}", 0) == 0
