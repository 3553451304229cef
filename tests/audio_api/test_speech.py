"""Invariants: audio leaves as it is made; whoever leaves, stalls or fails ends the work at once,
and a stream that is not whole never looks as if it were.
"""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import nullcontext
from typing import Any

import httpx
import openai
import pytest

from pipeline.metrics import Metrics
from services.scripted.tts import SAMPLE_RATE, ScriptedVoice, VoiceFault
from tests.audio_api.conftest import (
    TEXT,
    ValveVoice,
    ask,
    http,
    openai_client,
    post,
    refused,
    scripted,
    seconds_of,
)
from tests.daemon.client import PATIENCE_S
from tests.daemon.inside import inside, settled
from tts_engine.errors import AtCapacity
from tts_engine.service.desk import SpeechDesk
from tts_engine.service.response import Job, SpeechResponse
from tts_engine.text.stream import segment

CLAUSES = [clause.text for clause in segment(TEXT)]
#: bytes of a `ValveVoice`'s chunk
CHUNK = SAMPLE_RATE // 10 * 2


# --- what is said -------------------------------------------------------------------------------


async def test_a_text_is_read_as_a_conversation_would_read_it():
    async with scripted() as served:
        async with openai_client(served) as api:
            await api.audio.speech.create(
                model="tts-1",
                voice="two",
                input="# 气温\n**一共25℃**，[开心]好的。<think>不要念</think>\n\n```py\nx\n```",
                speed=1.5,
                instructions="whispering",
                response_format="pcm",
            )
        spoken = served.daemon.room.voice.spoken  # type: ignore[attr-defined]
        said = "".join(clause.text for clause in spoken)
        assert "25摄氏度" in said
        assert not set("#*<`") & set(said)
        assert "不要念" not in said
        assert {(clause.voice, clause.speed) for clause in spoken} == {("two", 1.5)}
        assert spoken[0].style == "whispering"


async def test_without_a_speed_the_daemons_own_is_used():
    async with inside({"tts.speed": 2.0}, voice=ScriptedVoice()) as served, http(served) as client:
        reply = await client.post("/v1/audio/speech", json=ask(response_format="pcm"))
    assert len(reply.content) / 2 / SAMPLE_RATE == seconds_of(TEXT, speed=2.0)


async def test_sse_carries_the_audio_and_ends_with_the_usage():
    async with scripted() as served:
        events: list[dict[str, Any]] = []
        async with http(served) as client:
            body = ask(stream_format="sse", response_format="pcm")
            async with client.stream("POST", "/v1/audio/speech", json=body) as reply:
                assert reply.headers["content-type"].startswith("text/event-stream")
                async for line in reply.aiter_lines():
                    if line:
                        assert line.startswith("data: ")
                        events.append(json.loads(line.removeprefix("data: ")))
        *deltas, done = events
        assert {event["type"] for event in deltas} == {"speech.audio.delta"}
        audio = b"".join(base64.b64decode(event["audio"]) for event in deltas)
        seconds = len(audio) / 2 / SAMPLE_RATE
        assert seconds == seconds_of(TEXT)
        said = round(seconds * 20)
        assert done == {
            "type": "speech.audio.done",
            "usage": {
                "input_tokens": len(TEXT),
                "output_tokens": said,
                "total_tokens": len(TEXT) + said,
            },
        }


# --- as it is made ------------------------------------------------------------------------------


async def test_the_first_bytes_come_with_the_first_chunk():
    voice = ValveVoice()
    async with inside(voice=voice) as served, openai_client(served) as api:
        voice.give("part")
        async with api.audio.speech.with_streaming_response.create(
            model="tts-1", voice="one", input=TEXT, response_format="pcm"
        ) as reply:
            pieces = reply.iter_bytes()
            assert len(await anext(pieces)) == CHUNK
            assert voice.asked == CLAUSES[:1], "a clause at a time"
            assert served.count("speech_first_byte_seconds_count") == 1
            voice.give(*["last"] * len(CLAUSES))
            rest = b"".join([piece async for piece in pieces])
    assert len(rest) == CHUNK * len(CLAUSES)
    assert voice.asked == CLAUSES
    assert served.count("speech_requests_total", outcome="done") == 1


async def test_one_shots_together_have_one_job_at_a_time_and_take_turns():
    voice = ValveVoice()
    async with inside(voice=voice) as served, http(served) as client:
        body = ask(response_format="pcm")
        both = [asyncio.create_task(client.post("/v1/audio/speech", json=body)) for _ in range(2)]
        await settled(lambda: len(voice.asked) == 1, "nothing was asked for")
        voice.give(*["last"] * 2 * len(CLAUSES))
        for reply in await asyncio.gather(*both):
            assert len(reply.content) == CHUNK * len(CLAUSES)
    # each clause was over before the next one began, and none was overtaken twice
    assert voice.asked == voice.closed
    assert voice.asked == [clause for clause in CLAUSES for _ in range(2)]


async def test_a_slow_reader_holds_up_the_voice_and_nobody_else():
    long = "今天天气很好，我们去公园走走吧。" * 200
    voice = ScriptedVoice()
    async with inside({"speech.ahead_s": 1.0}, voice=voice) as served, http(served) as client:
        body = ask(input=long, response_format="pcm")
        async with client.stream("POST", "/v1/audio/speech", json=body) as reply:
            # what the sockets on the way do not hold is not made
            await settled(Still(voice), "the voice goes on and on")
            made = sum(clause.made_s for clause in voice.spoken)
            assert made < seconds_of(long) / 2
            other = await client.post("/v1/audio/speech", json=ask(response_format="pcm"))
            assert len(other.content) / 2 / SAMPLE_RATE == seconds_of(TEXT)
            size = 0
            async for piece in reply.aiter_bytes():
                size += len(piece)
        assert size / 2 / SAMPLE_RATE == seconds_of(long)
    assert served.count("speech_requests_total", outcome="done") == 2


class Still:
    """True once a voice that has spoken has made nothing for a hundred looks."""

    def __init__(self, voice: ScriptedVoice) -> None:
        self._voice = voice
        self._made = 0.0
        self._looks = 0

    def __call__(self) -> bool:
        made = sum(clause.made_s for clause in self._voice.spoken)
        self._looks = self._looks + 1 if made and made == self._made else 0
        self._made = made
        return self._looks > 100


# --- who leaves, and who does not take it -------------------------------------------------------


@pytest.mark.parametrize("began", [False, True])
async def test_a_client_that_leaves_ends_the_synthesis(began: bool):
    voice = ValveVoice()
    async with inside(voice=voice) as served:
        reader, writer = await post(served, ask(response_format="pcm"))
        await settled(lambda: bool(voice.asked), "nothing was asked for")
        if began:
            voice.give("part")
            await reader.readuntil(b"\r\n\r\n")
        writer.close()
        await settled(lambda: voice.closed == CLAUSES[:1], "the voice still works")
        await settled(lambda: served.count("speech_requests_total", outcome="gone") == 1, "lost")
        # its place is free again
        voice.give(*["last"] * len(CLAUSES))
        async with http(served) as client:
            reply = await client.post("/v1/audio/speech", json=ask(response_format="pcm"))
        assert reply.status_code == 200


async def test_a_client_that_leaves_before_its_body_is_whole_is_forgotten():
    async with scripted() as served:
        _, writer = await post(served, ask(), length=1000)
        writer.close()
        await settled(lambda: served.count("speech_requests_total", outcome="gone") == 1, "lost")


async def test_a_client_that_takes_nothing_is_cut():
    voice = ScriptedVoice()
    sets = {"speech.stall_s": 0.2}
    async with inside(sets, voice=voice) as served:
        long = "今天天气很好，我们去公园走走吧。" * 250
        reader, writer = await post(served, ask(input=long, response_format="wav"), buffer=4096)
        await settled(lambda: served.count("speech_requests_total", outcome="stalled") == 1, "?")
        assert served.count("errors_total", code="timed_out") == 1
        assert voice.stats.depth == 0
        got = await reader.read()  # what was on the way, and then no end of the last chunk
        assert not got.endswith(b"0\r\n\r\n")
        writer.close()


# --- what fails ---------------------------------------------------------------------------------


async def test_a_failure_before_the_first_audio_is_an_error():
    voice = ScriptedVoice(failures={1: VoiceFault(kind="raise")})
    async with inside(voice=voice) as served:
        got, error, _ = await refused(served, ask())
        assert (got, error["code"], error["type"]) == (500, "engine_failed", "server_error")
        assert served.count("errors_total", code="engine_failed") == 1
        assert served.count("speech_requests_total", outcome="failed") == 1


async def test_a_voice_that_hangs_is_not_waited_for():
    voice = ScriptedVoice(failures={1: VoiceFault(kind="hang")})
    async with inside({"tts.clause_timeout_s": 0.5}, voice=voice) as served:
        status, error, _ = await refused(served, ask())
    assert (status, error["code"]) == (500, "timed_out")


async def test_a_clause_that_is_left_out_is_a_failure():
    voice = ScriptedVoice(failures={1: VoiceFault(kind="empty", after_chunks=0)})
    async with inside(voice=voice) as served:
        status, error, _ = await refused(served, ask())
    assert (status, error["code"]) == (500, "engine_failed")


async def test_a_bug_of_the_voice_is_a_failure_too():
    voice = ValveVoice()
    voice.give(ZeroDivisionError("a bug"))
    async with inside(voice=voice) as served:
        status, error, _ = await refused(served, ask())
    assert (status, error["code"]) == (500, "engine_failed")


async def test_a_full_engine_asks_to_come_back():
    voice = ValveVoice()
    voice.give(AtCapacity("64 utterances wait"))
    async with inside(voice=voice) as served:
        status, error, headers = await refused(served, ask())
        assert served.count("speech_requests_total", outcome="refused") == 1
    assert (status, error["code"], headers["retry-after"]) == (429, "at_capacity", "1")


@pytest.mark.parametrize("form", ["mp3", "pcm"])
async def test_a_failure_in_the_middle_breaks_the_connection_off(form: Any):
    voice = ScriptedVoice(failures={2: VoiceFault(kind="raise")})
    async with inside(voice=voice) as served, openai_client(served) as api:
        with pytest.raises((httpx.RemoteProtocolError, openai.APIConnectionError)):
            await api.audio.speech.create(
                model="tts-1", voice="one", input=TEXT, response_format=form
            )
        assert served.count("speech_requests_total", outcome="failed") == 1
        assert served.count("errors_total", code="engine_failed") == 1


async def test_sse_says_what_failed_before_it_breaks_off():
    voice = ScriptedVoice(failures={2: VoiceFault(kind="raise")})
    async with inside(voice=voice) as served, http(served) as client:
        body = ask(stream_format="sse", response_format="pcm")
        lines: list[str] = []
        async with client.stream("POST", "/v1/audio/speech", json=body) as reply:
            with pytest.raises(httpx.RemoteProtocolError):  # noqa: PT012 - it comes when it comes
                async for line in reply.aiter_lines():
                    lines += [line] if line else []
    last = json.loads(lines[-1].removeprefix("data: "))
    assert (last["type"], last["error"]["code"]) == ("error", "engine_failed")


async def test_being_cancelled_ends_the_synthesis():
    voice, metrics = ValveVoice(), Metrics()
    desk = SpeechDesk(
        engine=voice,
        accounts=metrics,
        ready=lambda: True,
        voices=lambda: voice.voices,
        chunk_timeout_s=PATIENCE_S,
    )
    job = Job(text=TEXT, param="input", speed=1)
    response = SpeechResponse(desk=desk, job=job, voice=nullcontext("one"))

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(_: Any) -> None:
        pass

    task = asyncio.create_task(response({}, receive, send))
    await settled(lambda: bool(voice.asked), "nothing was asked for")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert voice.closed == CLAUSES[:1]
    assert metrics.registry.get_sample_value("duplexd_speech_requests_total", {"outcome": "failed"})
