"""Invariants: whatever a server sends, only text comes out of an answer's stream, within bounds of
time and length; the stream never raises, and every end that is none of an answer is told.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator

import httpx2
import pytest

from services.llm.stream import PIECE
from tests.llm.raw_server import DONE, STOP, RawServer, delta, event, silent_after, text
from tests.llm.reading import read, stream_of


async def test_text_comes_out_as_it_came() -> None:
    reading = await read(lambda: [delta(role="assistant"), *text("好", "的。"), *STOP])
    assert (reading.pieces, reading.failures, reading.first) == (["好", "的。"], [], 1)


async def test_a_pair_cut_in_two_is_joined_and_a_lone_half_replaced() -> None:
    reading = await read(
        lambda: [*text("好\ud83d", "\ude00的", "\ud83d", "。\udc00", "\ud83d"), *STOP]
    )
    assert reading.text == "好😀的\ufffd。\ufffd\ufffd"
    assert reading.failures == []


ODD = [
    event(None),
    event(5),
    event([]),
    event({"choices": None}),
    event({"choices": "abc"}),
    event({"choices": [None]}),
    event({"choices": [{"index": 0, "delta": None}]}),
    event({"choices": [{"index": 0}]}),
    event({"choices": [], "usage": {"prompt_tokens": "x"}}),
    event({"choices": [], "usage": 5, "model": {"x": 1}}),
    delta(content=[{"type": "text", "text": "好"}]),
    delta(content=5),
    delta(content={"a": 1}),
    delta(tool_calls=5),
    delta(tool_calls=[{"index": None, "function": None}]),
    delta(audio={"transcript": "好"}),
    b": ping\n\n",
]


async def test_whatever_is_no_text_is_dropped() -> None:
    reading = await read(lambda: [*ODD, *text("好。"), *ODD, *STOP])
    assert (reading.pieces, reading.failures) == (["好。"], [])


@pytest.mark.parametrize(
    ("body", "silence"),
    [
        (STOP, "nothing that can be spoken"),
        ([delta(tool_calls=[{"index": 0, "function": {"name": "f"}}]), *STOP], "called tools"),
        ([*text("<think>嗯"), delta("length"), DONE], "used up its tokens"),
        ([delta("content_filter"), DONE], "held its answer back"),
    ],
    ids=["nothing", "tools", "length", "filter"],
)
async def test_a_silent_answer_knows_why(body: list[bytes], silence: str) -> None:
    reading = await read(lambda: body)
    assert reading.failures == []
    assert silence in reading.silence


@pytest.mark.parametrize("end", [[delta("stop")], [DONE], [b"data:[DO", b"NE]\n\n"]])
async def test_either_end_mark_is_an_end(end: list[bytes]) -> None:
    assert (await read(lambda: [*text("好。"), *end])).failures == []


async def test_a_stream_without_an_end_mark_was_broken_off() -> None:
    reading = await read(lambda: text("好的，data: [DONE]"))
    assert reading.text == "好的，data: [DONE]"
    [error] = reading.failures
    assert "broke off" in error.message


async def test_a_page_instead_of_a_stream() -> None:
    page = httpx2.Response(200, headers={"content-type": "text/html"}, text="<html>hi</html>")
    [error] = (await read(lambda: page)).failures
    assert "sent no answer" in error.message
    assert "OPENAI_BASE_URL" in error.mend


async def test_a_server_that_refuses() -> None:
    [error] = (await read(lambda: httpx2.Response(500, json={"error": "oops"}))).failures
    assert "failed (500: oops)" in error.message


async def test_an_event_without_end_is_not_collected() -> None:
    sent = 0

    async def endless() -> AsyncGenerator[bytes, None]:
        nonlocal sent
        yield b"data: "
        while True:
            sent += 65_536
            yield b"x" * 65_536

    [error] = (await read(endless)).failures
    assert "more than 1048576 bytes" in error.message
    assert sent < 1_200_000


async def test_a_long_stream_of_short_events_is_no_long_event() -> None:
    body = b"".join([*text(*["好"] * 12_000), *STOP])
    parts = [body[at : at + 1000] for at in range(0, len(body), 1000)]
    reading = await read(lambda: parts, chars=20_000)
    assert len(body) > 1 << 20
    assert (len(reading.text), reading.failures) == (12_000, [])


async def test_a_large_chunk_is_cut_and_the_loop_goes_round() -> None:
    rounds = 0

    async def others() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    task = asyncio.create_task(others())
    reading = await read(lambda: [*text("好" * 5 * PIECE + "。"), *STOP], on_piece=lambda _: None)
    task.cancel()
    assert [len(piece) for piece in reading.pieces] == [*[PIECE] * 5, 1]
    assert rounds >= 5


async def test_an_answer_that_does_not_end_is_cut_off() -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield delta(content="好的，")
                await asyncio.sleep(0)
        finally:
            closed.set()

    reading = await read(endless, chars=100)
    assert (len(reading.text), reading.failures) == (100, [])
    assert closed.is_set()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], r"sent nothing for 0\.2 s"),
        (text("好的，"), r"sent nothing for 0\.1 s"),
        (text("<think>"), r"sent nothing for 0\.1 s"),
    ],
    ids=["first", "idle", "thinking"],
)
async def test_silence_is_timed_out(parts: list[bytes], message: str) -> None:
    reading = await read(lambda: silent_after(*parts), first_token_s=0.2, idle_s=0.1)
    [error] = reading.failures
    assert error.code == "timed_out"
    assert re.search(message, error.message)


async def test_a_complete_answer_does_not_wait_for_its_servers_last_word() -> None:
    started = time.monotonic()
    reading = await read(lambda: silent_after(*text("好。"), delta("stop")), idle_s=60)
    assert (reading.text, reading.failures) == ("好。", [])
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    "first, later",
    [(delta(content="<think>"), delta(content="嗯")), (b": hi\n\n", delta(reasoning_content="嗯"))],
    ids=["inline", "apart"],
)
async def test_thinking_is_bounded(first: bytes, later: bytes) -> None:
    async def thinks() -> AsyncGenerator[bytes, None]:
        yield first
        while True:
            yield later
            await asyncio.sleep(0.02)

    started = time.monotonic()
    reading = await read(thinks, first_token_s=0.1, idle_s=0.1)
    [error] = reading.failures
    assert error.code == "timed_out"
    assert "thought for too long" in error.message
    assert 0.4 <= time.monotonic() - started < 5


async def test_a_listener_that_makes_it_wait_is_not_the_servers_silence() -> None:
    reading = await read(
        lambda: [*text("好", "的", "。"), *STOP], idle_s=0.1, on_piece=lambda _: 0.15
    )
    assert (reading.text, reading.failures) == ("好的。", [])


async def test_tokens_that_are_all_there_do_not_keep_the_first_ones_back() -> None:
    server, spoken = RawServer(lambda: [*text("好", "的", "。", "走"), *STOP]), asyncio.Event()
    loop, heard_before = asyncio.get_running_loop(), list[str]()
    stream = stream_of(server)
    async for chunk in stream:
        if spoken.is_set():
            break
        heard_before.append(chunk.text)
        loop.call_soon(spoken.set)
    assert heard_before == ["好"]
    await stream.close()
    await server.client.close()


async def test_a_stream_that_is_closed_ends_its_request() -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            yield delta(content="好")
            await asyncio.Event().wait()
        finally:
            closed.set()

    server = RawServer(endless)
    stream = stream_of(server)
    assert (await anext(aiter(stream))).text == "好"
    await stream.close()
    assert closed.is_set()
    await server.client.close()
