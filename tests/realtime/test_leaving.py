"""Invariants: however a client or the conversation ends, nothing of the connection is left; a
client that does not read holds nobody up.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import time

import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect

from tests.realtime.client import nothing_left, talking
from tests.realtime.fakes import Face, FakeConversation, serving
from tests.realtime.wired import FRAME
from tts_engine.errors import (
    TimedOut,
)


def reset(connection: ClientConnection) -> None:
    """Drops the connection without a goodbye, as a vanished client does."""
    raw = connection.transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.transport.abort()


@pytest.mark.parametrize("politely", [True, False])
@pytest.mark.parametrize(
    "state", ["created", "turn open", "turn ended", "answer begun", "speaking", "paused"]
)
async def test_a_client_that_leaves_leaves_nothing(face: Face, state: str, politely: bool):
    async with nothing_left():
        async with talking(face) as client:
            sink, conversation = client.sink, client.conversation
            if state == "turn open":
                await sink.turn_opened(at_ms=0)
            elif state == "turn ended":
                await sink.turn_opened(at_ms=0)
                await sink.turn_ended(at_ms=100)
            elif state != "created":
                await sink.begin(1)
                if state != "answer begun":
                    await sink.audio(1, FRAME)
                if state == "paused":
                    await sink.pause(1)
            if not politely:
                reset(client.connection)
        async with asyncio.timeout(10):
            await conversation.over.wait()
        with pytest.raises(ConnectionError):
            await fill(conversation)
    assert face.failures == []


async def test_a_client_that_leaves_at_once(face: Face):
    async with nothing_left():
        async with connect(face.url) as connection:
            reset(connection)
        conversation = await face.sessions.opened.get()
        async with asyncio.timeout(10):
            await conversation.over.wait()


async def fill(conversation: FakeConversation) -> None:
    """Speaks until the client is gone."""
    await conversation.sink.begin(2)
    while True:
        await conversation.sink.audio(2, FRAME)
        await asyncio.sleep(0)


async def stuck_client(face: Face) -> socket.socket:
    """A client that does the handshake and never reads."""
    host, port = face.address.split(":")
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(raw, (host, int(port)))
    await loop.sock_sendall(
        raw,
        b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    )
    return raw


@pytest.mark.parametrize("loop", ["send", "post"])
async def test_a_client_that_does_not_read_is_dropped(loop: str):
    async with serving(Face(send_timeout_s=0.3)) as face, nothing_left():
        raw = await stuck_client(face)
        try:
            conversation = await face.sessions.opened.get()
            sink = conversation.sink
            started = time.monotonic()
            if loop == "send":
                with pytest.raises(ConnectionError):
                    await fill(conversation)
            else:
                await sink.begin(1)
                while not conversation.closed.is_set():
                    await sink.text(1, "x" * 5000)
                    await asyncio.sleep(0)
            async with asyncio.timeout(10):
                await conversation.over.wait()
            assert time.monotonic() - started < 8
            assert [type(failure) for failure in face.failures] == [TimedOut]
        finally:
            raw.close()


async def test_a_client_that_does_not_read_cannot_hold_up_the_close():
    async with serving(Face(send_timeout_s=0.3)) as face:
        async with nothing_left():
            raw = await stuck_client(face)
            conversation = await face.sessions.opened.get()
            await conversation.sink.begin(1)
            # one message takes the socket over its mark: the next one waits, and that is the close
            await conversation.sink.text(1, "x" * 5_000_000)
            conversation.close()
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionResetError):
                while await loop.sock_recv(raw, 65536):
                    pass
        raw.close()


async def test_a_cancelled_handler_closes_the_connection(face: Face):
    before = asyncio.all_tasks()
    async with nothing_left(), talking(face) as client:
        for task in asyncio.all_tasks() - before:
            if "run_asgi" in repr(task.get_coro()):
                task.cancel()
        async for _ in client.connection:
            pass
        assert client.conversation.closed.is_set()


async def test_the_daemon_ends_a_conversation(face: Face):
    async with nothing_left(), talking(face) as client:
        await client.sink.begin(1)
        client.conversation.close()
        await client.receive("response.created")
        async for _ in client.connection:
            pass
        assert client.connection.close_code == 1000


@pytest.mark.parametrize(
    ("breaks", "code"),
    [(RuntimeError("bug"), "engine_failed"), (TimedOut("No LLM"), "timed_out")],
)
async def test_a_conversation_that_breaks_closes_the_connection(face: Face, breaks, code):
    face.sessions.breaks = breaks
    async with nothing_left(), connect(face.url) as connection:
        assert json.loads(await connection.recv())["type"] == "session.created"
        assert json.loads(await connection.recv())["error"]["code"] == code
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await connection.recv()
    assert closed.value.rcvd
    assert closed.value.rcvd.code == 1011


async def test_a_bug_while_reading_ends_the_connection(face: Face):
    async with nothing_left(), talking(face) as client:
        client.conversation.chokes = RuntimeError("bug")
        await client.send("input_audio_buffer.append", audio="AAAA" * 4)
        assert (await client.receive("error"))["error"]["code"] == "engine_failed"
        with pytest.raises(websockets.ConnectionClosed):
            await client.connection.recv()
