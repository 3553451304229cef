"""Invariants: over real sockets on both sides, the language model is told what the person said and
heard, whatever was generated, guessed, paused or cut off meanwhile; what nobody wants any more is
closed at its server; a log of it all leads to the same decisions.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pipeline.turns.actions import Commit, Dismiss, Revoke, Speculate
from pipeline.turns.record import read, replay
from services.scripted.llm_script import LlmRequest, LlmScript
from services.scripted.llm_server import ScriptedLlmServer
from services.scripted.spec import ScriptedTexts
from services.scripted.tts import char_times
from tests.daemon.client import PATIENCE_S, TRUNCATED, Client, talking
from tests.daemon.inside import Inside, inside
from tts_engine.text.stream import segment

STORY = "从前有一座山，山里有一座庙。庙里有一个老和尚，在给小和尚讲故事。"
SHORT = "好的，我不讲了。"
PAUSED, RESUMED = "duplexd.playback.paused", "duplexd.playback.resumed"


def spoken(text: str, ms: float) -> str:
    """What of an answer was spoken completely after so much of its audio."""
    result, at = "", 0.0
    for clause in segment(text):
        ends = [at + end * 1000 for end in char_times(clause.text)]
        result += "".join(char for char, end in zip(clause.raw, ends, strict=True) if end <= ms)
        at = ends[-1]
    return result


def said(request: LlmRequest) -> list[tuple[str, str]]:
    """The conversation that the server was told, without the prompt."""
    return [(message["role"], message["content"]) for message in request.messages[1:]]


async def another(script: LlmScript, count: int) -> LlmRequest:
    """Waits for the count-th request of the conversation."""
    async with asyncio.timeout(PATIENCE_S):
        while len(script.requests) < count:
            script.arrived.clear()
            await script.arrived.wait()
    return script.requests[count - 1]


def sets(llm: ScriptedLlmServer, *transcripts: str, **more: Any) -> dict[str, Any]:
    shown = ", ".join(f'"{text}"' for text in transcripts)
    return {
        "llm.provider": "openai",
        "llm.base_url": llm.base_url,
        "llm.model": "scripted",
        "scripted.transcripts": f"[{shown}]",
        "scripted.spec": "asr=20,tts=50",
        **{key.replace("__", "."): value for key, value in more.items()},
    }


async def test_three_turns_with_a_cough_a_barge_in_and_a_user_who_goes_on(tmp_path: Path) -> None:
    script = LlmScript(tokens_per_s=60, texts=ScriptedTexts(replies=[STORY, SHORT, "好。"]))
    async with ScriptedLlmServer(script=script) as llm:
        # The second sound is a cough: there are no words in it.
        turns = sets(
            llm, "讲个故事", "", "停一下", "山在哪里", turns__record_dir=tmp_path / "turns"
        )
        async with inside(turns) as served:
            script.requests.clear()  # those of the warm-up
            async with talking(served.url, microphone=True) as client:
                await converse(client, script)
            await served.empty()
            kept = check_books(served)
    [log] = (tmp_path / "turns").iterdir()
    check_log(log, kept=kept)


async def update(client: Client, **session: Any) -> None:
    count = len(client.of("session.updated"))
    await client.send("session.update", session={"type": "realtime", **session})
    await client.wait("session.updated", count + 1)


async def converse(client: Client, script: LlmScript) -> None:
    await update(client, duplexd={"echo_cancelled": True})
    await client.say(0.8)
    assert await client.transcript() == "讲个故事"
    first = await client.playing(800)
    await client.say(0.3)
    await client.wait(RESUMED)
    await client.playing(1800)
    await client.say(0.6)
    interrupted = await client.done()
    assert (interrupted["id"], interrupted["status"]) == (first, "cancelled")
    heard = interrupted["output"][0]["content"][0]["transcript"]
    [truncated] = client.of(TRUNCATED)
    assert heard in (
        spoken(STORY, truncated["audio_end_ms"] - 1),
        spoken(STORY, truncated["audio_end_ms"] + 1),
    )
    assert 0 < len(heard) < len(STORY)
    assert await client.transcript(2) == "停一下"
    assert (await client.done(2))["output"][0]["content"][0]["transcript"] == SHORT
    assert said(script.requests[-1]) == [
        ("user", "讲个故事"),
        ("assistant", heard),
        ("user", "停一下"),
    ]
    patient = {"turn_detection": {"type": "server_vad", "silence_duration_ms": 900}}
    await update(client, audio={"input": patient})
    before = len(script.requests)
    await client.say(0.5)
    await another(script, before + 1)  # it is answered before it is known that it is over
    await client.say(0.5)
    assert await client.transcript(3) == "山在哪里"
    assert (await client.done(3))["status"] == "completed"
    assert said(script.requests[-1]) == [
        ("user", "讲个故事"),
        ("assistant", heard),
        ("user", "停一下"),
        ("assistant", SHORT),
        ("user", "山在哪里"),
    ]
    kinds = client.kinds
    assert kinds.count("input_audio_buffer.speech_started") == 3
    assert kinds.count("response.created") == 3
    assert kinds.count(PAUSED) == 2
    assert not client.of("error")


def check_books(served: Inside) -> int:
    """Returns how many speculations were kept: one, and two more if the recogniser was in time."""
    assert served.count("dismissed_total", reason="noise") == 1
    kept = served.count("speculations_total", outcome="kept")
    assert 1 <= kept <= 3
    assert served.count("speculations_total", outcome="revoked") == 1
    assert served.count("turns_total", outcome="answered") == 2
    assert served.count("turns_total", outcome="interrupted") == 1
    return round(kept)


def check_log(path: Path, *, kept: int) -> None:
    with path.open(encoding="utf-8") as log:
        decided = [a for step in replay(read(log, name=path.name)) for a in step.actions]
    commits = [action.text for action in decided if isinstance(action, Commit)]
    assert commits == ["讲个故事", "停一下", "山在哪里"]
    assert [action.reason.value for action in decided if isinstance(action, Dismiss)] == ["noise"]
    assert sum(isinstance(action, Speculate) for action in decided) == kept + 1
    assert sum(isinstance(action, Revoke) for action in decided) == 1
    assert path.stat().st_mode & 0o077 == 0  # it holds what was said


async def test_what_nobody_wants_any_more_is_closed_at_its_server() -> None:
    script = LlmScript(tokens_per_s=5, texts=ScriptedTexts(replies=[STORY]))
    async with ScriptedLlmServer(script=script) as llm:
        turns = sets(llm, "讲个故事", turns__floor_ms=1000)
        async with inside(turns) as served:
            script.requests.clear()
            async with talking(served.url, microphone=True) as client:
                await client.say(0.5)
                first = await another(script, 1)
                await client.say(0.5)
                async with asyncio.timeout(PATIENCE_S):
                    await first.over.wait()
                assert first.cancelled
                assert first.tokens_sent < first.tokens
                second = await another(script, 2)
                assert said(second) == said(first) == [("user", "讲个故事")]
                assert client.of("response.created") == []
                await client.wait("response.created")
            async with asyncio.timeout(PATIENCE_S):
                await second.over.wait()
            assert second.cancelled  # the client is gone
