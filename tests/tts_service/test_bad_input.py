"""Invariant: bad input gets its status and its message, and the next request works."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.scripted.tts import ScriptedVoice, VoiceFault
from tests.audio_api.conftest import TEXT as VALVE_TEXT
from tests.audio_api.conftest import ValveVoice
from tests.daemon.inside import settled
from tests.tts_service.served import TEXT, CloningVoice, error_of, recording, served
from tts_engine.text.stream import segment

CLAUSES = [clause.text for clause in segment(TEXT)]


@pytest.mark.parametrize(
    "fields, status, code, param",
    [
        ({"text": ""}, 400, "invalid_value", "text"),
        ({"text": " \n"}, 400, "invalid_value", "text"),
        ({"text": "x" * 10_000}, 400, "text_too_long", "text"),
        ({"text": "😀😀🎉"}, 400, "nothing_to_say", "text"),
        ({"text": 7}, 400, "invalid_type", "text"),
        ({}, 400, "missing_required_parameter", "text"),
        ({"text": TEXT, "voice": "nobody"}, 400, "unknown_voice", "voice"),
        ({"text": TEXT, "voice": ""}, 400, "invalid_value", "voice"),
        ({"text": TEXT, "speed": 3}, 400, "invalid_value", "speed"),
        ({"text": TEXT, "speed": "fast"}, 400, "invalid_type", "speed"),
        ({"text": TEXT, "pitch": 0.1}, 400, "invalid_value", "pitch"),
        ({"text": TEXT, "speed": 2, "pitch": 0.5}, 400, "bad_request", None),
        ({"text": TEXT, "energy": 0}, 400, "invalid_value", "energy"),
        ({"text": TEXT, "language": "fr"}, 400, "invalid_value", "language"),
        ({"text": TEXT, "format": "ogg"}, 400, "invalid_value", "format"),
        ({"text": TEXT, "sample_rate": 11_025}, 400, "invalid_value", None),
        ({"text": TEXT, "format": "opus", "sample_rate": 44_100}, 400, "invalid_value", None),
        ({"text": TEXT, "instruct": "x" * 2000}, 400, "invalid_value", "instruct"),
        ({"text": TEXT, "lang": "zh"}, 400, "unknown_parameter", "lang"),
        ({"text": TEXT, "streaming": "maybe"}, 400, "invalid_type", "streaming"),
    ],
)
async def test_a_wrong_field_is_named(
    fields: dict[str, Any], status: int, code: str, param: str | None
):
    async with served() as at:
        async with at.http() as client:
            reply = await client.post("/tts", json=fields)
        assert error_of(reply) == (status, code, param)
        assert at.count("speech_requests_total", outcome="refused") == 1
        await at.works()


async def test_the_message_of_a_wrong_rate_says_which_there_are():
    async with served() as at, at.http() as client:
        asked = {"text": TEXT, "format": "opus", "sample_rate": 44_100}
        reply = await client.post("/tts", json=asked)
    assert "'sample_rate': opus has 8000, 12000, 16000, 24000, 48000" in reply.text


@pytest.mark.parametrize(
    "body, kind, status, code",
    [
        (b"{", "application/json", 400, "invalid_json"),
        (b"[]", "application/json", 400, "invalid_json"),
        (b"text=hello", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
        (b"hello", "", 415, "unsupported_media_type"),
        (b"hello", "multipart/form-data", 400, "invalid_form"),
        (b"hello", "multipart/form-data; boundary=b", 400, "invalid_form"),
    ],
)
async def test_a_body_that_is_none_is_refused(body: bytes, kind: str, status: int, code: str):
    async with served() as at:
        async with at.http() as client:
            reply = await client.post("/tts", content=body, headers={"Content-Type": kind})
        assert error_of(reply) == (status, code, None)
        await at.works()


@pytest.mark.parametrize("body", [b'{"text": "hi\\ud800"}', b'{"text": "hi\xed\xa0\x80"}'])
async def test_half_a_character_is_refused(body: bytes):
    async with served() as at:
        async with at.http() as client:
            how = {"Content-Type": "application/json"}
            reply = await client.post("/tts", content=body, headers=how)
        assert error_of(reply) == (400, "invalid_value", "text")
        assert "'text'" in reply.json()["error"]["message"]
        await at.works()


@pytest.mark.parametrize(
    "audio, status, code, said",
    [
        (recording(0.2), 400, "bad_audio", "0.2 s"),
        (b"this is no audio" * 100, 400, "bad_audio", "no sound file"),
        (b"", 400, "bad_audio", "no sound file"),
        (recording(31), 400, "bad_audio", "30 s"),
        (bytes(40 * 1024 * 1024), 413, "body_too_large", "recording has more than 2"),
        (bytes(20 * 1024 * 1024 + 1), 413, "body_too_large", "recording has more than 2"),
    ],
)
@pytest.mark.parametrize("route", ["/register-voice", "/tts"])
async def test_a_recording_that_is_none_is_refused(
    audio: bytes, status: int, code: str, said: str, route: str
):
    voice = CloningVoice()
    async with served(voice) as at:
        name = "audio" if route == "/register-voice" else "reference"
        fields = (
            {"name": "me", "text": "你好"}
            if route == "/register-voice"
            else {"text": TEXT, "reference_text": "你好"}
        )
        async with at.http() as client:
            reply = await client.post(route, data=fields, files={name: ("me.wav", audio)})
        assert error_of(reply)[:2] == (status, code)
        assert said in reply.json()["error"]["message"]
        assert not voice.cloned
        await at.works()


async def test_a_client_that_asks_first_is_told_before_it_sends():
    async with served(CloningVoice()) as at:
        host, port = at.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /register-voice HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            b"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 41943040\r\n\r\n"
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 413")
        writer.close()
        await at.works()


async def test_a_body_without_an_end_is_not_received_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tts_engine.service.bodies._WASTED", 1024)
    async with served() as at:
        host, port = at.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /tts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000000000\r\n\r\n" + bytes(200_000)
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 413")
        writer.close()
        await at.works()


async def test_fifty_at_once_are_answered_or_asked_to_come_back():
    voice = ValveVoice()
    async with served(voice, {"speech.parallel": 4}) as at:
        limits = httpx.Limits(max_connections=60)
        url = f"http://{at.address}"
        async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as client:
            asked = {"text": VALVE_TEXT, "format": "pcm"}
            tasks = [asyncio.create_task(client.post("/tts", json=asked)) for _ in range(50)]
            await settled(
                lambda: at.count("speech_requests_total", outcome="refused") == 46, "not refused"
            )
            voice.give(*["last"] * (4 * len(CLAUSES)))
            replies = await asyncio.gather(*tasks)
        good = [reply for reply in replies if reply.status_code == 200]
        full = [reply for reply in replies if reply.status_code != 200]
        assert (len(good), len(full)) == (4, 46)
        assert {error_of(reply)[:2] for reply in full} == {(429, "at_capacity")}
        assert all(reply.headers["retry-after"] == "1" for reply in full)
        voice.give(*["last"] * len(CLAUSES))
        async with at.http() as client:
            assert (await client.post("/tts", json=asked)).status_code == 200


async def test_a_client_that_leaves_in_the_middle_ends_the_work():
    voice = ValveVoice()
    async with served(voice, {"speech.parallel": 1}) as at, at.http() as client:
        voice.give("part")
        async with client.stream("POST", "/tts", json={"text": TEXT, "format": "pcm"}) as reply:
            await anext(reply.aiter_raw())
        await settled(lambda: voice.closed == CLAUSES[:1], "the voice still works")
        await settled(lambda: at.count("speech_requests_total", outcome="gone") == 1, "lost")
        voice.give(*["last"] * len(CLAUSES))
        assert (await client.post("/tts", json={"text": TEXT})).status_code == 200


async def test_a_client_that_leaves_before_its_body_is_whole_is_forgotten():
    async with served(CloningVoice()) as at:
        for route in (b"/tts", b"/register-voice"):
            host, port = at.address.split(":")
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                b"POST " + route + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
                b"Content-Type: application/json\r\n\r\n{"
            )
            await writer.drain()
            writer.close()
        await settled(lambda: at.count("speech_requests_total", outcome="gone") == 1, "lost")
        await at.works()


async def test_what_fails_before_the_first_audio_is_an_error():
    voice = ScriptedVoice(failures={1: VoiceFault(kind="raise")})
    async with served(voice) as at:
        async with at.http() as client:
            reply = await client.post("/tts", json={"text": TEXT})
        assert error_of(reply) == (500, "engine_failed", None)
        await at.works()


async def test_what_fails_in_the_middle_breaks_the_connection_off():
    voice = ScriptedVoice(failures={2: VoiceFault(kind="raise")})
    async with served(voice) as at:
        async with at.http() as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.post("/tts", json={"text": TEXT})
        assert at.count("speech_requests_total", outcome="failed") == 1
        await at.works()


async def test_a_whole_answer_that_fails_in_the_middle_is_an_error():
    voice = ScriptedVoice(failures={2: VoiceFault(kind="raise")})
    async with served(voice) as at, at.http() as client:
        reply = await client.post("/tts", json={"text": TEXT, "streaming": False})
    assert error_of(reply) == (500, "engine_failed", None)


async def test_a_service_that_warms_up_asks_to_come_back():
    never = asyncio.Event()

    class Slow(CloningVoice):
        async def start(self) -> None:
            await never.wait()

    async with served(Slow(), ready=False) as at, at.http() as client:
        replies = [
            await client.post("/tts", json={"text": TEXT}),
            await client.post("/register-voice", json={"name": "a", "text": "b", "file": "c"}),
            await client.post("/v1/audio/speech", json={"input": TEXT, "voice": "one"}),
        ]
        ready = await client.get("/readyz")
        never.set()
    assert {error_of(reply)[:2] for reply in replies} == {(503, "not_ready")}
    assert (ready.status_code, ready.headers["retry-after"]) == (503, "1")


async def test_words_of_the_list_are_not_said(tmp_path: Path):
    words = tmp_path / "words.txt"
    words.write_text("# not these\n\n坏词\nBad Word\n...\n", encoding="utf-8")
    voice = ScriptedVoice()
    async with served(voice, {"speech.blocked_words": json.dumps(str(words))}) as at:
        async with at.http() as client:
            replies = [
                await client.post("/tts", json={"text": text})
                for text in ("这是坏 词吗？", "A BAD  word.", "Ｂａｄ－Ｗｏｒｄ")
            ]
            openai = {"input": "坏词", "voice": "one"}
            replies.append(await client.post("/v1/audio/speech", json=openai))
            kind = await client.post("/tts", json={"text": "Not a bad wording, # not these."})
        assert {error_of(reply)[:2] for reply in replies} == {(400, "blocked_text")}
        assert kind.status_code == 200
        assert "坏" not in "".join(reply.text for reply in replies)
