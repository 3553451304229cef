"""Invariants: who cannot be served is told by HTTP, and has no conversation; who can is served over
whatever carries a WebSocket.
"""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest
import websockets
from fastapi import WebSocket
from websockets.asyncio.client import connect, unix_connect

from services.realtime import router
from services.websocket_protocol import FaceWebSocketProtocol
from tests.realtime.client import nothing_left, talking
from tests.realtime.fakes import Face, check, serving
from tts_engine.errors import (
    AtCapacity,
    BadRequest,
    DuplexdError,
    EngineFailed,
    UnknownVoice,
)


async def turned_away(face: Face) -> tuple[int, dict[str, Any], str | None]:
    """Status, error and Retry-After of a handshake that is refused."""
    async with nothing_left():
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with connect(face.url):
                pass
    response = refused.value.response
    error = json.loads(response.body or b"")["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert face.sessions.opened.empty()
    return response.status_code, error, response.headers.get("Retry-After")


async def test_a_full_daemon_says_so(face: Face, caplog: pytest.LogCaptureFixture):
    face.sessions.full()
    status, error, retry = await turned_away(face)
    assert (status, error["code"], error["type"]) == (503, "at_capacity", "server_error")
    assert retry == "5"
    # no failure of the server's
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []
    assert [type(failure) for failure in face.failures] == [AtCapacity]


async def test_a_daemon_that_warms_up_says_so(face: Face):
    face.sessions.ready = False
    status, error, retry = await turned_away(face)
    assert (status, retry) == (503, "2")
    assert "warming up" in error["message"]


@pytest.mark.parametrize(
    ("refusal", "status"),
    [(EngineFailed("The voice died"), 500), (BadRequest("No"), 400), (UnknownVoice("No"), 400)],
)
async def test_another_failure_at_the_door(face: Face, refusal: DuplexdError, status: int):
    face.sessions.refusal = refusal
    got, error, retry = await turned_away(face)
    assert (got, error["code"], retry) == (status, refusal.code, None)


@pytest.mark.parametrize("error", [OSError("gone"), RuntimeError("closed"), KeyError("a bug")])
async def test_a_client_that_leaves_at_the_door_has_no_conversation(
    face: Face, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    async def accept(*_: Any) -> None:
        raise error

    monkeypatch.setattr(WebSocket, "accept", accept)
    async with nothing_left():
        with pytest.raises(websockets.InvalidStatus):
            async with connect(face.url):
                pass
        conversation = await face.sessions.opened.get()
        assert conversation.closed.is_set()


async def test_a_transcription_session_by_address(face: Face):
    async with connect(f"{face.url}?intent=transcription") as connection:
        session = check(json.loads(await connection.recv()))["session"]
        conversation = await face.sessions.opened.get()
        assert session["type"] == "transcription"
        assert session["id"] == conversation.id
        assert conversation.options.auto_respond is False


async def test_the_subprotocol_of_browsers_is_picked(face: Face):
    async with talking(face, subprotocols=["realtime", "openai-insecure-api-key.x"]) as client:
        assert client.connection.subprotocol == "realtime"


async def test_a_bad_handshake_is_turned_down(face: Face):
    host, port = face.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    )
    assert b"400" in await reader.readline()
    writer.close()
    await writer.wait_closed()


async def test_a_unix_socket_has_no_such_options(tmp_path: Path):
    path = str(tmp_path / "face.sock")
    async with serving(Face(), uds=path), unix_connect(path, "ws://x/v1/realtime") as connection:
        assert json.loads(await connection.recv())["type"] == "session.created"


async def test_it_works_with_uvicorns_own_protocol():
    async with serving(Face(), ws="websockets-sansio") as face, talking(face) as client:
        await client.sink.turn_opened(at_ms=1)
        assert (await client.receive())["audio_start_ms"] == 1


async def test_a_platform_without_the_options_still_serves(monkeypatch: pytest.MonkeyPatch):
    for name in ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL", "TCP_KEEPCNT"):
        monkeypatch.delattr(socket, name, raising=False)
    async with serving(Face()) as face, talking(face) as client:
        await client.sink.turn_opened(at_ms=1)
        assert (await client.receive())["audio_start_ms"] == 1


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


def test_the_boot_id_is_optional(monkeypatch, tmp_path):
    monkeypatch.setattr(router, "_BOOT_ID", tmp_path / "boot_id")
    assert router._boot_id() == ""
    (tmp_path / "boot_id").write_text("abc\n")
    assert router._boot_id() == "abc"
