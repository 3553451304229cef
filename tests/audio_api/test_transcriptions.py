"""Invariant: what a stock client sends is transcribed in the form that it asks for; whoever leaves
costs nothing, and nobody holds a conversation up.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from openai import AsyncOpenAI

from services.asr.base import AsrEngine, Transcript
from tests.audio_api.conftest import http, openai_client
from tests.audio_api.hearing import ValveAsr, word
from tests.audio_api.recordings import container, silent, sound, spoken
from tests.audio_api.test_end import WHOLE, all_of
from tests.daemon.client import PATIENCE_S
from tests.daemon.inside import Inside, inside, settled
from tts_engine.errors import AtCapacity, EngineFailed

TEXTS = {"scripted.transcripts": ["今天天气怎么样？", "Hello there.", "How are you?"]}
WAV = sound(spoken(gaps=(2.0, 2.0)))
ONE = sound(spoken())
PATH = "/v1/audio/transcriptions"


@asynccontextmanager
async def daemon(
    sets: Mapping[str, object] | None = None, *, asr: AsrEngine | None = None
) -> AsyncIterator[tuple[Inside, AsyncOpenAI]]:
    """A daemon with scripted engines, and a client of it."""
    async with inside({**TEXTS, **(sets or {})}, asr=asr) as served, openai_client(served) as api:
        yield served, api


def form(data: bytes = ONE, **fields: str) -> dict[str, Any]:
    """A request of a plain client."""
    return {"data": {"model": "whisper-1", **fields}, "files": {"file": ("a.wav", data)}}


async def counted(served: Inside, outcome: str, times: int = 1) -> None:
    """Waits until so many requests have ended so; the client may hear of it first."""
    name = "transcription_requests_total"
    await settled(lambda: served.count(name, outcome=outcome) == times, f"not {outcome}")


# --- forms of the answer ------------------------------------------------------------------------


async def test_the_openai_client_gets_every_form():
    async with daemon() as (served, api):

        async def heard(response_format: Any, **more: Any) -> Any:
            return await api.audio.transcriptions.create(
                model="whisper-1", file=("a.wav", WAV), response_format=response_format, **more
            )

        said = "今天天气怎么样？Hello there. How are you?"
        plain = await heard("json")
        assert plain.text == said
        assert (plain.usage.type, plain.usage.seconds) == ("duration", 8)
        assert await heard("text") == said + "\n"
        assert (await heard("srt")).startswith(
            "1\n00:00:00,192 --> 00:00:01,792\n今天天气怎么样？\n\n2\n00:00:03,200 --> "
        )
        assert (await heard("vtt")).startswith("WEBVTT\n\n00:00:00.192 --> 00:00:01.792\n今天")
        verbose = await heard("verbose_json")
        assert (verbose.text, verbose.language, verbose.duration) == (said, "english", 8.0)
        assert [each.text for each in verbose.segments] == list(TEXTS["scripted.transcripts"])
        assert [round(each.start, 1) for each in verbose.segments] == [0.2, 3.2, 6.2]
        assert verbose.words is None
        await counted(served, "done", 5)
        assert served.count("transcription_audio_seconds_sum") == 40
        assert served.count("transcription_seconds_count") == 5


async def test_words_are_shown_where_the_engine_gives_them():
    asr = ValveAsr()
    asr.give(Transcript(text="Hi all", language="en", words=(word("Hi", 0.3, 0.5),)))
    async with daemon(asr=asr) as (_, api):
        heard: Any = await api.audio.transcriptions.create(
            model="m",
            file=("a.wav", ONE),
            response_format="verbose_json",
            timestamp_granularities=["word"],
        )
    assert heard.segments is None
    assert [(each.word, each.start, each.end) for each in heard.words] == [("Hi", 0.492, 0.692)]


async def test_the_openai_client_gets_the_text_piece_by_piece():
    asr = ValveAsr()
    async with daemon(asr=asr) as (served, api):
        asr.give("Hello.")
        stream = await api.audio.transcriptions.create(
            model="gpt-4o-transcribe", file=("a.wav", WAV), stream=True
        )
        events = stream.__aiter__()
        first = await anext(events)
        assert (first.type, first.delta) == ("transcript.text.delta", "Hello.")
        assert asr.ended < 3, "the others are not recognised yet"
        asr.give("How are you?", "好")
        rest = [event async for event in events]
        assert [event.delta for event in rest[:-1]] == [" How are you?", "好"]
        assert rest[-1].type == "transcript.text.done"
        assert rest[-1].text == "Hello. How are you?好"
        assert rest[-1].usage.total_tokens == 80 + len(rest[-1].text)
        await counted(served, "done")


async def test_a_stream_of_nothing_is_done_at_once():
    async with daemon() as (_, api):
        stream = await api.audio.transcriptions.create(
            model="m", file=("a.flac", silent(5)), stream=True, response_format="text"
        )
        [only] = [event async for event in stream]
    assert (only.type, only.text) == ("transcript.text.done", "")


async def test_a_plain_client_is_told_what_it_gets():
    async with daemon() as (served, _), http(served) as client:
        for name, kind in (
            ("json", "application/json"),
            ("text", "text/plain; charset=utf-8"),
            ("vtt", "text/vtt; charset=utf-8"),
        ):
            reply = await client.post(PATH, **form(response_format=name))
            assert (reply.status_code, reply.headers["content-type"]) == (200, kind)
        reply = await client.post(PATH, **form(stream="true"))
        assert reply.headers["content-type"] == "text/event-stream"
        assert reply.text.startswith('data: {"type": "transcript.text.delta", "delta": ')


# --- what is asked of the recogniser ------------------------------------------------------------


async def test_languages_and_hotwords_are_passed_on():
    asr = ValveAsr()
    asr.give(*[""] * 3)
    async with daemon(asr=asr) as (_, api):
        await api.audio.transcriptions.create(
            model="m",
            file=("a.wav", ONE),
            language="zh-CN",
            prompt="通义千问，Sam Altman",
            temperature=0.3,
            chunking_strategy="auto",
            extra_body={"keywords": ["Kubernetes"], "languages": ["en"]},
        )
        await api.audio.transcriptions.create(model="m", file=("a.wav", ONE))
        await api.audio.transcriptions.create(model="", file=("a.wav", ONE), language="")
    assert asr.languages == [("zh", "en"), None, None]
    assert asr.hints == [("通义千问", "Sam Altman", "Kubernetes"), (), ()]


@pytest.mark.parametrize(
    "data",
    [
        sound(np.stack([spoken(rate=96_000)] * 2, axis=1), subtype="FLOAT", rate=96_000),
        sound(spoken(rate=44_100), form="MP3", subtype="MPEG_LAYER_III", rate=44_100),
        container(spoken(rate=48_000), form="webm", codec="libopus"),
        container(spoken(rate=48_000), form="mp4", video=True),
    ],
    ids=["96 kHz stereo float", "mp3", "webm", "video"],
)
async def test_any_recording_is_heard(data: bytes):
    async with daemon() as (_, api):
        heard = await api.audio.transcriptions.create(model="m", file=("voice", data))
    assert heard.text == "今天天气怎么样？"


@pytest.mark.timeout(400)
async def test_three_hours_of_silence_give_no_text():
    async with daemon() as (served, api):
        heard = await api.audio.transcriptions.create(
            model="m", file=("a.flac", silent(10_800)), timeout=300
        )
        assert heard.text == ""
        await counted(served, "done")
        assert served.count("transcription_audio_seconds_sum") == pytest.approx(10_800)
        # and what is next is heard as before
        heard = await api.audio.transcriptions.create(model="m", file=("a.wav", ONE))
    assert heard.text == "今天天气怎么样？"


async def test_one_piece_of_all_recordings_is_in_the_recogniser():
    asr = ValveAsr()
    async with daemon(asr=asr) as (served, _), http(served) as client:
        both = [asyncio.create_task(client.post(PATH, **form(WAV))) for _ in range(2)]
        for number in range(6):
            await settled(lambda n=number: len(asr.asked) == n + 1, "nothing was asked for")
            assert asr.ended == number
            asr.give(str(number))
        texts = [(await each).json()["text"].split() for each in both]
    assert sorted(number for each in texts for number in each) == list("012345")


# --- who leaves ---------------------------------------------------------------------------------


async def post(served: Inside, data: bytes, *, length: int | None = None) -> asyncio.StreamWriter:
    """A request on a socket of its own."""
    return (await talk(served, data, length=length))[1]


async def talk(
    served: Inside, data: bytes, *, length: int | None = None, **fields: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    request = httpx.Request("POST", f"http://{served.address}{PATH}", **form(data, **fields))
    body = request.read()
    host, port = served.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), family=socket.AF_INET)
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: {request.headers['content-type']}\r\n"
        f"Content-Length: {length or len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    return reader, writer


async def test_a_client_that_leaves_ends_the_work():
    asr = ValveAsr()
    async with daemon({"transcription.parallel": 1}, asr=asr) as (served, api):
        writer = await post(served, WAV)
        await settled(lambda: len(asr.asked) == 1, "nothing was asked for")
        writer.close()
        await counted(served, "gone")
        assert (asr.ended, asr.open_handles) == (1, 0)
        # its place is free again
        asr.give("next")
        heard = await api.audio.transcriptions.create(model="m", file=("a.wav", ONE))
    assert heard.text == "next"


async def test_a_client_that_leaves_before_its_body_is_whole_is_forgotten():
    async with daemon() as (served, _):
        writer = await post(served, ONE, length=10_000_000)
        writer.close()
        await counted(served, "gone")


async def test_the_end_of_the_server_is_told():
    asr = ValveAsr()
    async with daemon(asr=asr) as (served, _):
        reader, writer = await talk(served, ONE)
        await settled(lambda: len(asr.asked) == 1, "nothing was asked for")
    head, _, body = (await all_of(reader)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert json.loads(body)["error"]["code"] == "shutting_down"
    assert asr.open_handles == 0
    writer.close()


# --- what fails ---------------------------------------------------------------------------------


async def test_a_failure_of_the_recogniser_is_an_error():
    asr = ValveAsr()
    asr.give("one", EngineFailed("It broke"))
    async with daemon(asr=asr) as (served, api):
        with pytest.raises(openai.InternalServerError) as caught:
            await api.audio.transcriptions.create(model="m", file=("a.wav", WAV))
        assert (caught.value.code, caught.value.type) == ("engine_failed", "server_error")
        await counted(served, "failed")
        assert served.count("errors_total", code="engine_failed") == 1
        assert asr.open_handles == 0


async def test_a_full_recogniser_asks_to_come_back():
    asr = ValveAsr()
    asr.give(AtCapacity("64 finals wait"))
    async with daemon(asr=asr) as (served, api):
        with pytest.raises(openai.RateLimitError) as caught:
            await api.audio.transcriptions.create(model="m", file=("a.wav", ONE))
        assert caught.value.response.headers["retry-after"] == "1"
        await counted(served, "refused")


async def test_a_stream_says_what_failed_before_it_breaks_off():
    asr = ValveAsr()
    asr.give("one", EngineFailed("It broke"))
    async with daemon(asr=asr) as (served, api):
        reader, writer = await talk(served, WAV, stream="true")
        async with asyncio.timeout(PATIENCE_S):
            received = await all_of(reader)
        writer.close()
        await counted(served, "failed")
        asr.give("one", EngineFailed("It broke"))
        stream = await api.audio.transcriptions.create(model="m", file=("a.wav", WAV), stream=True)
        with pytest.raises(openai.APIError):
            async for _ in stream:
                pass
    assert received.startswith(b"HTTP/1.1 200 ")
    assert b'"delta": "one"' in received
    assert b'{"type": "error", "error": {"message": "It broke"' in received
    assert not received.endswith(WHOLE)


async def test_a_bug_is_no_text():
    asr = ValveAsr()
    asr.give(ZeroDivisionError("a bug"))  # type: ignore[arg-type]
    async with daemon(asr=asr) as (served, api):
        with pytest.raises(openai.InternalServerError):
            await api.audio.transcriptions.create(model="m", file=("a.wav", ONE))
        await counted(served, "failed")
        asr.give("next")
        heard = await api.audio.transcriptions.create(model="m", file=("a.wav", ONE))
    assert heard.text == "next"
