"""Invariants: what a socket gave is read whole and in order, in stretches that are short however
much it is; a connection that ends does not read on.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time

from hypothesis import given
from hypothesis import strategies as st

from services.backlog import STRETCH_S, Backlog
from tests.daemon.abuse import CONTINUATION, PING, TEXT, by_hand, event, frame
from tests.realtime.client import nothing_left, talking
from tests.realtime.fakes import Face
from tests.realtime.test_leaving import stuck_client


@given(st.lists(st.binary(max_size=5000), max_size=8), st.lists(st.booleans()))
def test_all_is_read_in_order(given_pieces: list[bytes], more: list[bool]):
    read = bytearray()
    answers = iter(more)

    def take(data: bytes) -> bool:
        read.extend(data)
        return next(answers, True)

    backlog = Backlog(take, clock=lambda: 0.0)
    for piece in given_pieces:
        backlog.add(piece)
    while backlog:
        backlog.go_on()
    assert bytes(read) == b"".join(given_pieces)


def test_a_stretch_is_short():
    now = 0.0
    pieces: list[int] = []

    def take(data: bytes) -> bool:
        nonlocal now
        now += STRETCH_S * 0.6
        pieces.append(len(data))
        return True

    backlog = Backlog(take, clock=lambda: now)
    backlog.add(bytes(100_000))
    backlog.go_on()
    assert len(pieces) == 2
    assert backlog
    backlog.clear()
    backlog.go_on()
    assert len(pieces) == 2


def test_what_is_read_quickly_is_read_in_larger_pieces():
    sizes: list[int] = []
    costs = iter([0.0, 0.0, 0.0, STRETCH_S / 2, 0.0])
    now = 0.0

    def take(data: bytes) -> bool:
        nonlocal now
        sizes.append(len(data))
        now += next(costs, 0.0)
        return True

    backlog = Backlog(take, clock=lambda: now)
    backlog.add(bytes(1024 * 15))
    while backlog:
        backlog.go_on()
    assert sizes == [1024, 2048, 4096, 4096, 1024, 2048, 1024]


def test_whoever_reads_may_stop():
    backlog = Backlog(lambda _: False)
    backlog.add(b"a")
    backlog.add(b"b")
    backlog.go_on()
    assert backlog
    backlog.go_on()
    assert not backlog


async def test_the_loop_goes_round_while_a_flood_is_read(face: Face):
    fragments = frame("[", TEXT, last=False) + frame("x", CONTINUATION, last=False) * 20_000
    async with nothing_left(), talking(face):
        reader, writer = await by_hand(int(face.address.rpartition(":")[2]))
        await face.sessions.opened.get()
        writer.write(fragments + frame("]", CONTINUATION))
        longest, received = 0.0, asyncio.create_task(refusal(reader))
        while not received.done():
            started = time.thread_time()  # of this thread: others do not count
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - started)
        assert received.result() == "invalid_json"
        assert longest < 0.05
        writer.transport.abort()


async def refusal(reader: asyncio.StreamReader) -> str:
    """The code of the first error."""
    async with asyncio.timeout(10):
        while True:
            head = await reader.readexactly(2)
            size = head[1]
            if size == 126:
                size = int.from_bytes(await reader.readexactly(2), "big")
            data = json.loads(await reader.readexactly(size))
            if data["type"] == "error":
                return data["error"]["code"]


async def test_a_goodbye_behind_a_flood_is_heard_when_nobody_reads_any_more(face: Face):
    async with nothing_left(), talking(face) as client:
        appends = frame(event("input_audio_buffer.append", audio="AAA=")) * 2000
        client.connection.transport.write(appends + frame("x", PING) * 2000)
        await client.conversation.until(lambda: len(client.conversation.heard) > 0)
        started = time.monotonic()
        client.conversation.close()
        await client.connection.wait_closed()
        assert client.connection.close_code == 1000
    # uvicorn gives up after 10 s
    assert time.monotonic() - started < 8


async def test_a_client_that_vanishes_behind_a_flood_is_let_go(face: Face):
    async with nothing_left(), talking(face) as client:
        appends = frame(event("input_audio_buffer.append", audio="AAA=")) * 2000
        client.connection.transport.write(appends)
        await client.conversation.until(lambda: len(client.conversation.heard) > 0)
        client.connection.transport.abort()
        async with asyncio.timeout(10):
            await client.conversation.over.wait()


async def test_pings_of_a_client_that_does_not_read_are_not_answered(face: Face):
    async with nothing_left():
        raw = await stuck_client(face)
        conversation = await face.sessions.opened.get()
        loop = asyncio.get_running_loop()
        await read_until(raw, b"session.created")
        # more than all buffers hold; the writer has it before what is sent after this is read
        await conversation.sink.begin(1)
        await conversation.sink.text(1, "x" * 5_000_000)
        await conversation.sink.text(1, "y")
        append = event("input_audio_buffer.append", audio="A" * 4000)
        await loop.sock_sendall(raw, frame("ping", PING) * 100 + frame(append))
        await conversation.until(lambda: len(conversation.heard) > 0)  # it is heard all the same
        assert b"\x8a\x04ping" not in await read_until(raw, b'"delta":"y"')
        raw.close()
        conversation.close()


async def read_until(raw: socket.socket, end: bytes) -> bytes:
    """What comes until `end` has come."""
    received, looked_at = bytearray(), 0
    async with asyncio.timeout(10):
        while received.find(end, looked_at) < 0:
            looked_at = max(0, len(received) - len(end))
            piece = await asyncio.get_running_loop().sock_recv(raw, 1 << 20)
            assert piece, "the server hung up"
            received += piece
    return bytes(received)
