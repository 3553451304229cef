"""Invariants: an engine or a server that fails ends in a message that names the cause, never in
silence; the next turn works; the context holds nothing of the failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pipeline import effects
from services.scripted.asr import ScriptedAsr
from services.scripted.llm_script import LlmFault, LlmScript
from services.scripted.llm_server import ScriptedLlmServer
from services.scripted.spec import ScriptedTexts
from services.scripted.tts import ScriptedVoice, VoiceFault, detect_tone, tone_of
from tests.daemon.client import Client, talking
from tests.daemon.inside import Inside, inside
from tts_engine.errors import EngineFailed

APOLOGY = "抱歉。"
NOT_HEARD = "没听清。"
REPLY = "好的。"
TEXTS = ScriptedTexts(transcripts=["第一句", "第二句", "第三句"], replies=[REPLY])
MESSAGES = {
    "messages.llm_failed.zh": APOLOGY,
    "messages.asr_failed.zh": NOT_HEARD,
    "scripted.transcripts": '["第一句", "第二句", "第三句"]',
    "scripted.replies": f"[{REPLY}]",
}


def said(response: dict[str, Any]) -> str:
    """What the client is told that was heard of an answer."""
    return response["output"][0]["content"][0]["transcript"]


def failure(response: dict[str, Any], code: str) -> str:
    """The message of a response that failed."""
    assert response["status"] == "failed", response
    error = response["status_details"]["error"]
    assert error["code"] == code
    return error["message"]


async def works(client: Client, turn: int) -> None:
    """The client's next turn is answered."""
    await client.speak()
    response = await client.done(turn)
    assert (response["status"], said(response)) == ("completed", REPLY)
    assert client.audio[response["id"]].ms > 300


# --- the language model --------------------------------------------------------------------------


@asynccontextmanager
async def with_server(llm: ScriptedLlmServer, **sets: object) -> AsyncIterator[Inside]:
    more = {"llm.provider": "openai", "llm.base_url": llm.base_url, "llm.model": "scripted"}
    async with inside({**MESSAGES, **more, **sets}) as served:
        llm.script.requests.clear()
        yield served


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        (LlmFault(kind="unreachable"), "engine_failed", "broke off the connection"),
        (LlmFault(kind="slow", delay_s=60), "timed_out", "sent nothing for 0.4 s"),
        (LlmFault(kind="empty"), "engine_failed", "answered nothing"),
        (LlmFault(kind="dies", after_tokens=0), "engine_failed", "broke off the connection"),
        (LlmFault(kind="dies", after_tokens=1), "engine_failed", "broke off the connection"),
        (LlmFault(kind="garbage", after_tokens=1), "engine_failed", "not JSON"),
        (LlmFault(kind="http_500"), "engine_failed", "the scripted server fails"),
        (LlmFault(kind="http_429"), "at_capacity", "too many requests"),
    ],
    ids=lambda value: value.kind + str(value.after_tokens) if isinstance(value, LlmFault) else "",
)
async def test_a_language_model_that_fails(fault: LlmFault, code: str, message: str):
    script = LlmScript(texts=TEXTS)
    async with (
        ScriptedLlmServer(script=script) as llm,
        with_server(llm, **{"llm.first_token_timeout_s": 0.4}) as served,
        talking(served.url) as client,
    ):
        script.fault = fault
        await client.speak()
        assert await client.transcript() == "第一句"
        response = await client.done()
        assert message in failure(response, code)
        # The apology is spoken, and is no part of the answer.
        heard = said(response)
        assert REPLY.startswith(heard)
        assert len(heard) <= 2
        assert detect_tone(bytes(client.audio[response["id"]].pcm[-4800:])) == pytest.approx(
            tone_of(APOLOGY), abs=10
        )
        script.fault = None
        await works(client, 2)
        context = script.requests[-1].messages[1:]
        expected = (
            [{"role": "user", "content": "第一句"}]
            + [{"role": "assistant", "content": heard}] * bool(heard)
            + [{"role": "user", "content": "第二句"}]
        )
        if not heard:
            expected = [{"role": "user", "content": "第一句\n第二句"}]
        assert context == expected
        assert served.count("errors_total", code=code) == 1
        assert served.count("turns_total", outcome="failed") == 1
        assert served.count("turns_total", outcome="answered") == 1


async def test_a_language_model_that_stalls_in_the_middle():
    script = LlmScript(texts=TEXTS, tokens_per_s=1)
    async with (
        ScriptedLlmServer(script=script) as llm,
        with_server(llm, **{"llm.idle_timeout_s": 0.3}) as served,
        talking(served.url) as client,
    ):
        await client.speak()
        assert "sent nothing for 0.3 s" in failure(await client.done(), "timed_out")
        assert script.requests[0].cancelled
        script.tokens_per_s = 1000
        await works(client, 2)


async def test_a_language_model_that_goes_away_and_comes_not_back():
    async with (
        ScriptedLlmServer(script=LlmScript(texts=TEXTS)) as llm,
        with_server(llm) as served,
        talking(served.url) as client,
    ):
        await works(client, 1)
        await llm.close()
        for turn in (2, 3):
            await client.speak()
            message = failure(await client.done(turn), "engine_failed")
            assert "cannot be reached" in message
            assert "Is it running" in message
        async with talking(served.url) as another:
            await another.speak()
            failure(await another.done(), "engine_failed")
        assert served.daemon.ready


# --- the pipeline --------------------------------------------------------------------------------


class _Never(asyncio.Event):
    """Does not happen."""

    def set(self) -> None:
        pass


async def test_an_interruption_that_gets_stuck_still_ends_the_answer(monkeypatch):
    monkeypatch.setattr(effects, "_SETTLE_S", 0.05)
    sets = {**MESSAGES, "scripted.replies": "[从前有一座山，山里有一座庙。]"}
    sets["scripted.transcripts"] = "[第一句, 换一个别的故事吧]"
    async with inside(sets) as served, talking(served.url) as client:
        [session] = served.daemon.sessions.values()
        session._effects._settled = _Never()
        await client.speak()
        await client.playing(400)
        await client.speak()
        assert (await client.done())["status"] == "cancelled"
        assert await client.transcript(2) == "换一个别的故事吧"
        assert (await client.done(2))["status"] == "completed"


# --- the voice -----------------------------------------------------------------------------------


class _Broken(ScriptedVoice):
    """Raises what no contract names, once."""

    async def synthesize(self, text, **kwargs):
        if not self.spoken:
            self.spoken.append(text)
            raise ZeroDivisionError("bug")
        async for chunk in super().synthesize(text, **kwargs):
            yield chunk


@pytest.mark.parametrize(
    ("voice", "code", "message"),
    [
        (ScriptedVoice(failures={1: VoiceFault(kind="raise")}), "engine_failed", "fails at"),
        (
            ScriptedVoice(failures={1: VoiceFault(kind="raise", after_chunks=1)}),
            "engine_failed",
            "fails at",
        ),
        (ScriptedVoice(failures={1: VoiceFault(kind="hang")}), "timed_out", "gave nothing for"),
        (_Broken(), "engine_failed", "ZeroDivisionError"),
    ],
    ids=["at once", "in the middle", "hangs", "bug"],
)
async def test_a_voice_that_fails(voice: ScriptedVoice, code: str, message: str):
    sets = {**MESSAGES, "tts.clause_timeout_s": 0.5}
    async with inside(sets, voice=voice) as served, talking(served.url) as client:
        await client.speak()
        assert message in failure(await client.done(), code)
        await works(client, 2)
        assert served.count("errors_total", code=code) == 1
        assert served.count("turns_total", outcome="failed") == 1


async def test_a_voice_that_ends_without_a_sound_does_not_hang_the_turn():
    voice = ScriptedVoice(failures={1: VoiceFault(kind="empty")})
    async with inside(MESSAGES, voice=voice) as served, talking(served.url) as client:
        await client.speak()
        assert (await client.done())["status"] in ("completed", "failed")
        await works(client, 2)


# --- the recogniser ------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["engine_failed", "timed_out", "at_capacity"])
async def test_a_recogniser_that_fails(code: str):
    asr = ScriptedAsr(texts=TEXTS, fail_turns={1: code})
    async with inside(MESSAGES, asr=asr) as served, talking(served.url) as client:
        await client.speak()
        failed = await client.wait("conversation.item.input_audio_transcription.failed")
        assert failed["error"]["code"] == code
        assert "fails in turn 1" in failed["error"]["message"]
        # asked early in the silence, and again when it was long enough to end the turn anyway
        assert served.count("errors_total", code=code) == 2
        # what is said about it is spoken, and stands in no context
        response = await client.done()
        assert detect_tone(bytes(client.audio[response["id"]].pcm[:4800])) == pytest.approx(
            tone_of(NOT_HEARD), abs=10
        )
        await client.speak()
        assert await client.transcript() == "第二句"
        answered = await client.done(2)
        assert (answered["status"], said(answered)) == ("completed", REPLY)


class _Bug(Exception):
    """Of a class that no contract names."""

    code = "bug"


async def test_a_recogniser_that_raises_what_it_may_not():
    asr = ScriptedAsr(texts=TEXTS, fail_turns={1: "engine_failed"})
    asr.fail_turns[1] = _Bug  # type: ignore[assignment]
    async with inside(MESSAGES, asr=asr) as served, talking(served.url) as client:
        await client.speak()
        failed = await client.wait("conversation.item.input_audio_transcription.failed")
        assert failed["error"]["code"] == EngineFailed.code
        assert "_Bug" in failed["error"]["message"]
        await client.speak()
        assert await client.transcript() == "第二句"
