"""Invariant: what cannot be spoken, or not now, is refused in OpenAI's words, and costs nothing."""

from __future__ import annotations

import asyncio
import json

import openai
import pytest

from services.audio_api.request import MAX_BODY
from services.scripted.tts import ScriptedVoice
from tests.audio_api.conftest import (
    TEXT,
    ValveVoice,
    ask,
    http,
    openai_client,
    post,
    refused,
    scripted,
)
from tests.daemon.inside import inside, settled
from tts_engine.errors import AtCapacity, BadRequest
from tts_engine.service.places import Places
from tts_engine.text.stream import segment

CLAUSES = [clause.text for clause in segment(TEXT)]


async def test_more_than_the_limit_are_asked_to_come_back():
    voice = ValveVoice()
    async with inside({"speech.parallel": 1}, voice=voice) as served, http(served) as client:
        body = ask(response_format="pcm")
        first = asyncio.create_task(client.post("/v1/audio/speech", json=body))
        await settled(lambda: bool(voice.asked), "nothing was asked for")
        async with openai_client(served) as api:
            with pytest.raises(openai.RateLimitError) as caught:
                await api.audio.speech.create(model="tts-1", voice="one", input=TEXT)
        assert caught.value.code == "at_capacity"
        assert caught.value.response.headers["retry-after"] == "1"
        assert "speech.parallel" in caught.value.message
        assert served.count("errors_total", code="at_capacity") == 1
        voice.give(*["last"] * len(CLAUSES))
        assert (await first).status_code == 200
        voice.give(*["last"] * len(CLAUSES))
        assert (await client.post("/v1/audio/speech", json=body)).status_code == 200


def test_there_are_as_many_places_as_were_set():
    places = Places(2, what="are here", mend="Wait")
    with places, places, pytest.raises(AtCapacity), places:
        pass
    with places:
        pass


@pytest.mark.parametrize("text", ["😀😀", "```py\nx\n```", "   \n", "<think>hm</think>", "# * _"])
async def test_a_text_without_a_sound_is_refused(text: str):
    async with scripted() as served:
        status, error, _ = await refused(served, ask(input=text))
        assert (status, error["param"], error["code"]) == (400, "input", "nothing_to_say")
        assert served.count("speech_requests_total", outcome="refused") == 1


async def test_a_text_that_the_voice_cannot_pronounce_is_refused():
    voice = ValveVoice()
    voice.give(*["mute"] * len(CLAUSES))
    async with inside(voice=voice) as served:
        status, error, _ = await refused(served, ask())
    assert (status, error["param"], error["code"]) == (400, "input", "nothing_to_say")


async def test_what_the_engine_refuses_is_a_bad_request():
    voice = ValveVoice()
    voice.give(BadRequest("It does not speak so"))
    async with inside(voice=voice) as served:
        status, error, _ = await refused(served, ask())
        assert served.count("speech_requests_total", outcome="refused") == 1
    assert (status, error["code"]) == (400, "bad_request")


async def test_an_unknown_voice_is_told_the_known_ones():
    async with scripted() as served:
        status, error, _ = await refused(served, ask(voice="nobody"))
        assert (status, error["param"], error["code"]) == (400, "voice", "unknown_voice")
        assert "one, two" in error["message"]


async def test_the_openai_client_sees_a_bad_request():
    async with scripted() as served:
        async with openai_client(served) as api:
            with pytest.raises(openai.BadRequestError) as caught:
                await api.audio.speech.create(model="tts-1", voice="one", input="x", speed=4)
        assert (caught.value.param, caught.value.code) == ("speed", "invalid_value")


async def test_a_body_that_is_too_large_is_not_read_to_its_end():
    async with scripted() as served:
        status, error, _ = await refused(served, b'{"input": "' + b"x" * 10_000_000)
        assert (status, error["code"]) == (413, "body_too_large")
        assert str(MAX_BODY) in error["message"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_what_a_web_page_may_send_unasked_is_no_request(kind: str):
    async with scripted() as served:
        async with http(served) as client:
            reply = await client.post(
                "/v1/audio/speech", content=json.dumps(ask()), headers={"Content-Type": kind}
            )
        assert reply.status_code == 415


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    from tts_engine.service import bodies

    monkeypatch.setattr(bodies, "BODY_TIMEOUT_S", 0.1)
    async with inside(voice=ScriptedVoice()) as served:
        reader, writer = await post(served, ask(), length=1000)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408")
        writer.close()


async def test_a_daemon_that_warms_up_asks_to_come_back():
    never = asyncio.Event()

    class Slow(ScriptedVoice):
        async def start(self) -> None:
            await never.wait()

    async with inside(voice=Slow(), ready=False) as served:
        status, error, headers = await refused(served, ask())
        never.set()
    assert (status, error["code"], headers["retry-after"]) == (503, "not_ready", "1")
