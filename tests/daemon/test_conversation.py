"""Invariants: over the real socket, the language model is told what was heard and nothing else;
every turn is counted and logged once.
"""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest

from services.scripted.llm_script import LlmScript
from services.scripted.llm_server import ScriptedLlmServer
from services.scripted.spec import ScriptedTexts
from services.scripted.tts import char_times, detect_tone, tone_of
from tests.daemon.client import DONE, HEARD, REPORT, STARTED, TRUNCATED, talking
from tests.daemon.inside import inside
from tests.daemon.process import DaemonProcess, serving
from tts_engine.text.stream import segment

STORY = "从前有一座山，山里有一座庙。庙里有一个老和尚，在给小和尚讲故事。"
SHORT = "好的，我不讲了。"
TURNS = '["讲个故事", "停一下", "继续"]'


def spoken_by(text: str, ms: float) -> int:
    """Characters of an answer that were spoken completely after so much of its audio."""
    count, at = 0, 0.0
    for clause in segment(text):
        assert clause.text == clause.raw
        count += sum(at + end * 1000 <= ms for end in char_times(clause.text))
        at += char_times(clause.text)[-1] * 1000
    return count


async def test_voice_interrupts_and_the_model_is_told_what_was_heard():
    texts = ScriptedTexts(replies=[STORY, SHORT])
    async with ScriptedLlmServer(script=LlmScript(tokens_per_s=60, texts=texts)) as llm:
        sets = {
            "llm.provider": "openai",
            "llm.base_url": llm.base_url,
            "llm.model": "scripted",
            "scripted.transcripts": TURNS,
        }
        async with serving(engines="scripted:asr=20,tts=50", sets=sets) as daemon:
            await converse(daemon.url, llm.script)
            await asyncio.to_thread(check_books, daemon)


async def converse(url: str, script: LlmScript) -> None:
    script.requests.clear()  # those of the warm-up
    async with talking(url, microphone=True) as client:
        await client.say(1.0)
        assert await client.transcript() == "讲个故事"
        first = await client.playing(1500)
        assert detect_tone(bytes(client.audio[first].pcm[:9600])) == pytest.approx(
            tone_of("从前有一座山，"), abs=5
        )
        await client.say(0.8)
        response = await client.done()
        assert response["id"] == first
        assert response["status"] == "cancelled"
        assert response["status_details"]["reason"] == "turn_detected"
        kinds = client.kinds
        started = [at for at, kind in enumerate(kinds) if kind == STARTED]
        assert len(started) == 2
        assert started[1] < kinds.index(TRUNCATED) < kinds.index(DONE)
        # One end of playback, told three times: milliseconds, the item's text, the context's.
        [truncated] = client.of(TRUNCATED)
        [item] = response["output"]
        heard = item["content"][0]["transcript"]
        assert truncated["item_id"] == item["id"]
        assert heard
        assert STORY.startswith(heard)
        assert len(heard) == pytest.approx(spoken_by(STORY, truncated["audio_end_ms"]), abs=1)
        sent_ms = client.audio[first].ms
        assert truncated["audio_end_ms"] <= sent_ms <= truncated["audio_end_ms"] + 400

        assert await client.transcript(2) == "停一下"
        second = await client.done(2)
        assert (second["status"], second["output"][0]["content"][0]["transcript"]) == (
            "completed",
            SHORT,
        )
        assert client.audio[second["id"]].ms == pytest.approx(
            sum(char_times(clause.text)[-1] for clause in segment(SHORT)) * 1000, abs=2
        )
        reports = [(await client.wait(REPORT, turn))["report"] for turn in (1, 2)]
        assert [(r["outcome"], r["transcript"], r["answer"]) for r in reports] == [
            ("interrupted", "讲个故事", heard),
            ("answered", "停一下", SHORT),
        ]
        assert len(client.of(HEARD)) == 2
        assert not client.of("error")
    told = [request.messages for request in script.requests if not request.cancelled]
    assert told[-1][1:] == [
        {"role": "user", "content": "讲个故事"},
        {"role": "assistant", "content": heard},
        {"role": "user", "content": "停一下"},
    ]


def check_books(daemon: DaemonProcess) -> None:
    daemon.metric("sessions", 0)
    lines = daemon.turn_lines(2)
    assert [(line[2], line[3]) for line in lines] == [("1", "interrupted"), ("2", "answered")]
    page = daemon.metrics()
    assert page["turns_total{answered}"] == page["turns_total{interrupted}"] == 1
    assert page["v2v_server_seconds_count"] == 2
    assert page["v2v_server_seconds_bucket{+Inf}"] == 2
    assert 0.2 < page["v2v_server_seconds_sum"] < 10
    for part in ("endpoint_wait", "asr_final", "llm_first_token", "tts_first_chunk"):
        assert page[f"v2v_part_seconds_count{{{part}}}"] == 2
    assert page.get("turns_total{failed}", 0) == 0
    text = httpx.get(f"{daemon.http}/metrics")
    assert text.headers["content-type"].startswith("text/plain")
    assert re.search(r"# HELP duplexd_turns_total ", text.text)


async def test_a_text_message_is_answered_like_a_spoken_one():
    item = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "数数"}],
    }
    async with inside({"scripted.replies": "[一二三。]"}) as served, talking(served.url) as client:
        await client.send("conversation.item.create", item=item)
        await client.send("response.create")
        response = await client.done()
        assert response["status"] == "completed"
        assert client.audio[response["id"]].ms > 300
        report = (await client.wait(REPORT))["report"]
        assert (report["outcome"], report["answer"]) == ("answered", "一二三。")
        assert served.count("turns_total", outcome="answered") == 1
