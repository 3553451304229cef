"""Invariants: session.created comes first; whatever a client sends or does, the daemon answers or
closes, and when the connection is over no task of it is left.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect, unix_connect

from services.face import SessionOptions
from services.realtime import router
from services.realtime.messages import MAX_AUDIO_MESSAGE, MAX_MESSAGE
from services.realtime.uvicorn_protocol import FaceWebSocketProtocol
from tests.realtime.fakes import Face, FakeConversation, check, serving, settled
from tts_engine.errors import AtCapacity, BadAudio, EngineFailed, TimedOut, UnknownVoice

FRAME = bytes(960)


class Client:
    def __init__(self, connection: ClientConnection, conversation: FakeConversation) -> None:
        self.connection = connection
        self.conversation = conversation
        self.sink = conversation.sink

    async def send(self, kind: str, **fields: Any) -> None:
        await self.connection.send(json.dumps({"type": kind, **fields}))

    async def receive(self, kind: str | None = None) -> dict[str, Any]:
        """The next event, or the next of a kind."""
        async with asyncio.timeout(10):
            while True:
                event = check(json.loads(await self.connection.recv()))
                if kind in (None, event["type"]):
                    return event


@contextlib.asynccontextmanager
async def talking(face: Face, **options: Any) -> AsyncIterator[Client]:
    """A client that has read session.created."""
    async with connect(face.url, max_size=None, **options) as connection:
        conversation = await face.sessions.opened.get()
        client = Client(connection, conversation)
        event = await client.receive()
        assert event["type"] == "session.created"
        assert event["session"]["id"] == conversation.id
        yield client


@contextlib.asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    await settled(lambda: not asyncio.all_tasks() - before, "no task is left")


def microphone(seconds: float) -> bytes:
    rng = np.random.default_rng(1)
    return rng.integers(-9000, 9000, round(24_000 * seconds)).astype("<i2").tobytes()


async def test_a_conversation(face: Face):
    async with nothing_left(), talking(face) as client:
        sink, conversation = client.sink, client.conversation
        assert conversation.options == SessionOptions()
        before = time.monotonic()
        pcm = microphone(0.2)
        for start in range(0, len(pcm), 960):
            audio = base64.b64encode(pcm[start : start + 960]).decode()
            await client.send("input_audio_buffer.append", audio=audio)
        await conversation.until(lambda: len(conversation.heard) == 6400)
        assert before < conversation.arrivals[0] <= conversation.arrivals[-1] < time.monotonic()
        await sink.turn_opened(at_ms=10)
        await sink.partial("你")
        await sink.partial("你")
        await sink.turn_ended(at_ms=190)
        await sink.final("你好", "zh")
        event = await client.receive("conversation.item.input_audio_transcription.completed")
        assert event["transcript"] == "你好"
        await sink.begin(1)
        await sink.text(1, "很好。")
        await sink.audio(1, FRAME)
        await sink.pause(1)
        await sink.resume(1)
        await sink.audio(1, FRAME)
        await sink.end(1, "answered", heard="很好。")
        await sink.turn_report({"turn": 1, "revision": 1})
        assert base64.b64decode((await client.receive("response.output_audio.delta"))["delta"]) == (
            FRAME
        )
        await client.receive("duplexd.playback.paused")
        await client.receive("duplexd.playback.resumed")
        assert (await client.receive("response.done"))["response"]["status"] == "completed"
        report = await client.receive("duplexd.turn")
        assert report["clock"]["name"] == "monotonic"
        assert report["report"] == {"turn": 1, "revision": 1}
    assert conversation.closed.is_set()


async def test_an_interruption_and_a_late_truncation(face: Face):
    async with talking(face) as client:
        sink = client.sink
        await sink.begin(3)
        await sink.text(3, "一二三")
        await sink.audio(3, FRAME)
        await sink.flush(3, heard_ms=12)
        await sink.end(3, "interrupted", heard="一")
        await sink.turn_opened(at_ms=500)
        truncated = await client.receive("conversation.item.truncated")
        assert truncated["audio_end_ms"] == 12
        assert (await client.receive("response.done"))["response"]["status"] == "cancelled"
        assert (await client.receive())["type"] == "input_audio_buffer.speech_started"
        await client.send(
            "conversation.item.truncate",
            item_id=truncated["item_id"],
            content_index=0,
            audio_end_ms=8,
        )
        await client.conversation.called("heard_until", 3, 8)
        assert (await client.receive())["audio_end_ms"] == 8


async def test_what_a_client_asks_for_reaches_the_conversation(face: Face):
    async with talking(face) as client:
        conversation = client.conversation
        await client.send(
            "session.update",
            session={"type": "realtime", "audio": {"input": {"turn_detection": None}}},
        )
        session = (await client.receive("session.updated"))["session"]
        assert session["audio"]["input"]["turn_detection"] is None
        assert not conversation.options.server_turns
        item = {"type": "message", "role": "user", "content": [{"type": "text", "text": "问"}]}
        await client.send("conversation.item.create", item=item)
        await client.receive("conversation.item.done")
        await client.send("input_audio_buffer.append", audio="AAAA" * 4)
        await client.send("input_audio_buffer.commit")
        await client.send("response.create", response={"instructions": "简短"})
        await client.send("response.cancel")
        await client.send("input_audio_buffer.clear")
        await client.receive("input_audio_buffer.cleared")
        assert conversation.calls[1:] == [
            ("add_text", "user", "问"),
            ("commit",),
            ("respond", "简短"),
            ("cancel",),
            ("clear",),
        ]


async def test_bad_messages_are_answered_and_counted(face: Face):
    async with talking(face) as client:
        for message in ("?", b"\0\1", '{"type":"input_audio_buffer.append","audio":"!"}'):
            await client.connection.send(message)
            assert (await client.receive("error"))["error"]["type"] == "invalid_request_error"
        await client.send(
            "session.update",
            event_id="mine",
            session={"type": "realtime", "audio": {"output": {"voice": "nobody"}}},
        )
        error = (await client.receive("error"))["error"]
        assert (error["code"], error["event_id"]) == ("unknown_voice", "mine")
        await client.sink.error(EngineFailed("The recogniser died"))
        assert (await client.receive("error"))["error"]["code"] == "engine_failed"
    assert [type(failure) for failure in face.failures][2:] == [BadAudio, UnknownVoice]


@pytest.mark.parametrize("length", [MAX_MESSAGE + 1, MAX_AUDIO_MESSAGE + 1])
async def test_a_message_over_the_limit_is_refused(face: Face, length: int):
    async with talking(face) as client:
        await client.connection.send("x" * length)
        assert (await client.receive("error"))["error"]["code"] == "message_too_large"


async def test_a_client_in_a_hurry_is_slowed_down_and_kept(face: Face):
    count = 1500
    async with talking(face) as client:
        for _ in range(count):
            await client.send("session.update", session={"type": "realtime"})
        # it has not read anything yet; what the conversation says has its place all the same
        for _ in range(300):
            await client.sink.partial("x")
            await client.sink.turn_opened(at_ms=1)
        for _ in range(count):
            await client.receive("session.updated")
    assert face.failures == []


async def test_minutes_of_audio_in_one_message_leave_room_for_others(face: Face):
    async with talking(face) as client:
        pcm = microphone(30)
        await client.send("input_audio_buffer.append", audio=base64.b64encode(pcm).decode())
        others = 0
        while len(client.conversation.heard) < 30 * 32_000:
            await asyncio.sleep(0)
            others += 1
        assert len(client.conversation.arrivals) == 30
        assert others >= 30
        assert len(set(client.conversation.arrivals)) == 1


async def test_a_piece_too_short_for_a_sample_is_kept(face: Face):
    async with talking(face) as client:
        for _ in range(3):
            await client.send("input_audio_buffer.append", audio="AAA=")
        await client.conversation.until(lambda: len(client.conversation.heard) == 4)
        assert len(client.conversation.arrivals) == 1


async def test_text_mode_takes_audio_without_sending_it(face: Face):
    async with talking(face) as client:
        await client.send(
            "session.update", session={"type": "realtime", "output_modalities": ["text"]}
        )
        await client.receive("session.updated")
        await client.sink.begin(1)
        await client.sink.audio(1, FRAME)
        await client.sink.text(1, "好")
        assert (await client.receive("response.output_text.delta"))["delta"] == "好"


async def test_the_subprotocol_of_browsers_is_picked(face: Face):
    async with talking(face, subprotocols=["realtime", "openai-insecure-api-key.x"]) as client:
        assert client.connection.subprotocol == "realtime"


async def turned_away(face: Face) -> tuple[dict[str, Any], int, str]:
    async with connect(face.url) as connection:
        event = check(json.loads(await connection.recv()))
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await connection.recv()
    assert closed.value.rcvd
    return event["error"], closed.value.rcvd.code, closed.value.rcvd.reason


async def test_a_full_daemon_says_so(face: Face):
    face.sessions.full()
    async with nothing_left():
        error, code, reason = await turned_away(face)
    assert (error["code"], code, reason) == ("at_capacity", 1013, "at capacity")
    assert [type(failure) for failure in face.failures] == [AtCapacity]


async def test_a_daemon_that_warms_up_says_so(face: Face):
    face.sessions.ready = False
    error, code, reason = await turned_away(face)
    assert "warming up" in error["message"]
    assert (code, reason) == (1013, "warming up")


async def test_another_failure_at_the_door(face: Face):
    face.sessions.refusal = EngineFailed("The voice died")
    error, code, reason = await turned_away(face)
    assert (error["code"], code, reason) == ("engine_failed", 1011, "engine failed")


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


async def test_the_daemon_ends_a_conversation(face: Face):
    async with nothing_left(), talking(face) as client:
        await client.sink.begin(1)
        client.conversation.close()
        await client.receive("response.created")
        async for _ in client.connection:
            pass
        assert client.connection.close_code == 1000


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


async def test_a_peer_that_vanished_is_found_by_tcp():
    served: list[socket.socket] = []

    class Watched(FaceWebSocketProtocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            served.append(transport.get_extra_info("socket"))

    async with serving(Face(), ws=Watched) as face, talking(face):
        [accepted] = served
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        options = {"TCP_KEEPIDLE": 60, "TCP_KEEPALIVE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
        if hasattr(socket, "TCP_KEEPIDLE"):
            del options["TCP_KEEPALIVE"]
        for name, value in options.items():
            if hasattr(socket, name):
                option = getattr(socket, name)
                assert accepted.getsockopt(socket.IPPROTO_TCP, option) == value


async def test_a_platform_without_the_options_still_serves(monkeypatch: pytest.MonkeyPatch):
    for name in ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL", "TCP_KEEPCNT"):
        monkeypatch.delattr(socket, name, raising=False)
    async with serving(Face()) as face, talking(face) as client:
        await client.sink.turn_opened(at_ms=1)
        assert (await client.receive())["audio_start_ms"] == 1


async def test_a_unix_socket_has_no_such_options(tmp_path: Path):
    path = str(tmp_path / "face.sock")
    async with serving(Face(), uds=path), unix_connect(path, "ws://x/v1/realtime") as connection:
        assert json.loads(await connection.recv())["type"] == "session.created"


async def test_it_works_with_uvicorns_own_protocol():
    async with serving(Face(), ws="websockets-sansio") as face, talking(face) as client:
        await client.sink.turn_opened(at_ms=1)
        assert (await client.receive())["audio_start_ms"] == 1


async def test_a_cancelled_handler_closes_the_connection(face: Face):
    before = asyncio.all_tasks()
    async with nothing_left(), talking(face) as client:
        for task in asyncio.all_tasks() - before:
            if "run_asgi" in repr(task.get_coro()):
                task.cancel()
        async for _ in client.connection:
            pass
        assert client.conversation.closed.is_set()


async def test_a_bad_handshake_is_turned_down(face: Face):
    host, port = face.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    )
    assert b"400" in await reader.readline()
    writer.close()
    await writer.wait_closed()


def test_the_boot_id_is_optional(monkeypatch, tmp_path):
    monkeypatch.setattr(router, "_BOOT_ID", tmp_path / "boot_id")
    assert router._boot_id() == ""
    (tmp_path / "boot_id").write_text("abc\n")
    assert router._boot_id() == "abc"
