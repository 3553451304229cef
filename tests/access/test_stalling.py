"""Invariants: no connection is held by who says nothing, half of something, or does not read; it
needs neither a key nor a limit of its own to be cut; who is slow and goes on is served; the end of
the server waits for nobody; others are served meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from services import http_protocol
from services.access.key_file import KeyFile
from services.access.tls import own_tls
from tests.access.fakes import House, open_house
from tests.access.test_tls import NAMES

PATIENCE_S = 30.0
ASK = b"GET /any HTTP/1.1\r\nHost: localhost\r\n\r\n"
SHAKE = (
    b"GET /any HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(KeyFile(tmp_path / "keys.json"))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes seconds takes less."""
    monkeypatch.setattr(http_protocol, "HEAD_S", 0.3)
    monkeypatch.setattr(http_protocol, "_LATER_S", 0.0)


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the server has logged as an error."""
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


@asynccontextmanager
async def connected(house: House, first: bytes) -> AsyncIterator[asyncio.StreamReader]:
    host, _, port = house.address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(first)
    try:
        yield reader
    finally:
        writer.transport.abort()


async def until_cut(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the server ends the connection."""
    received = b""
    async with asyncio.timeout(PATIENCE_S):
        try:
            while data := await reader.read(65536):
                received += data
        except ConnectionResetError:
            pass
    return received


# --- who says nothing -----------------------------------------------------------------------


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"GET",
        b"GET / HTTP/1.1\r\nHost: local",
        ASK + b"G",
        b"POST /any HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
    ],
)
async def test_who_says_half_or_nothing_is_cut(house: House, first: bytes):
    async with open_house(house), connected(house, first) as reader:
        received = await until_cut(reader)
    assert received.startswith(b"HTTP/1.1 401 ") == (b"\r\n\r\n" in first)


@pytest.mark.usefixtures("short")
async def test_a_head_byte_by_byte_is_no_way_around(house: House):
    async with open_house(house):
        host, _, port = house.address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        cut = asyncio.create_task(until_cut(reader))
        while not cut.done():
            writer.write(b"G")
            await asyncio.sleep(0.05)
        assert await cut == b""
        writer.transport.abort()


@pytest.mark.usefixtures("short")
async def test_a_conversation_is_not_cut(house: House):
    """The limit is one of HTTP: a WebSocket is as silent as it likes."""
    held = asyncio.Event()

    async def rooms(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        held.set()

    async with open_house(house, keys=None, app=rooms):
        async with connected(house, SHAKE + b"\r\n") as reader:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 1.0)
            assert not held.is_set()
        await asyncio.wait_for(held.wait(), PATIENCE_S)


@pytest.mark.usefixtures("short")
async def test_an_answer_that_takes_its_time_is_not_cut(house: House):
    async def rooms(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(1.0)  # longer than a head may take
        await Response(b"late")(scope, receive, send)

    async with open_house(house, keys=None, app=rooms) as client:
        assert (await client.get("/")).text == "late"


async def test_many_idle_connections_keep_nobody_out(house: House):
    async with open_house(house) as client:
        host, _, port = house.address.partition(":")
        idle = [(await asyncio.open_connection(host, int(port)))[1] for _ in range(500)]
        for number, each in enumerate(idle):
            each.write(ASK[: number % len(ASK)])
        async with asyncio.timeout(PATIENCE_S):
            assert (await client.get("/any")).status_code == 401
        for each in idle:
            each.transport.abort()


# --- handshakes that are none ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (b"X-Long: " + b"a" * 9000, 431),
        (b"\r\n".join(b"X-%d: 1" % number for number in range(200)), 431),
        (b"X-Control: \x01", 400),
        (b"Transfer-Encoding: chunked", 400),
        (b"Content-Length: 5", 400),
        (b"Sec-WebSocket-Protocol: \xff", 400),
        (b"Sec-WebSocket-Version: 12", 400),
    ],
)
async def test_a_malformed_handshake_is_answered(
    house: House, caplog: pytest.LogCaptureFixture, more: bytes, status: int
):
    async with open_house(house), connected(house, SHAKE + more + b"\r\n\r\n") as reader:
        received = await until_cut(reader)
    assert received.startswith(b"HTTP/1.1 %d " % status)
    assert house.scopes == []
    assert complaints(caplog) == []


async def test_a_handshake_with_too_long_a_path(house: House):
    long = SHAKE.replace(b"/any", b"/any?" + b"a" * 9000) + b"\r\n"
    async with open_house(house), connected(house, long) as reader:
        assert (await until_cut(reader)).startswith(b"HTTP/1.1 414 ")


# --- who does not read ----------------------------------------------------------------------


async def endless(scope: Scope, receive: Receive, send: Send) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b"a" * 65536
            await asyncio.sleep(0)

    await StreamingResponse(pieces())(scope, receive, send)


def deaf(house: House) -> socket.socket:
    """A client that asks and then takes next to nothing."""
    host, _, port = house.address.partition(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((host, int(port)))
    client.sendall(ASK)
    return client


async def test_an_application_without_a_limit_is_not_held(
    house: House, caplog: pytest.LogCaptureFixture
):
    """The server's own limit ends it."""
    over = asyncio.Event()

    async def rooms(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await endless(scope, receive, send)
        finally:
            over.set()

    async with open_house(house, keys=None, app=rooms, stall_s=0.2):
        client = deaf(house)
        await asyncio.wait_for(over.wait(), PATIENCE_S)
        client.close()
    assert complaints(caplog) == []


async def test_pipelined_requests_without_a_key_hold_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(http_protocol, "_LATER_S", 0.0)
    async with open_house(house, stall_s=0.2):
        client = deaf(house)
        client.setblocking(False)
        loop = asyncio.get_running_loop()

        async def ask() -> None:
            while True:
                await loop.sock_sendall(client, ASK * 100)

        with pytest.raises(OSError):  # reset, or a broken pipe: it was cut
            await asyncio.wait_for(ask(), PATIENCE_S)
        client.close()


@pytest.mark.usefixtures("short")
async def test_who_takes_the_end_of_an_answer_slowly_gets_it_all(house: House):
    """As a player does that reads in its own time, with the application long done."""
    size = 600_000

    async def rooms(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(b"a" * size)(scope, receive, send)

    async with open_house(house, keys=None, app=rooms, stall_s=PATIENCE_S):
        client = deaf(house)
        await asyncio.sleep(1.0)  # longer than the next head may take
        client.setblocking(True)
        client.settimeout(PATIENCE_S)

        def read() -> int:
            got = 0
            while got < size:
                data = client.recv(65536)
                if not data:
                    break
                got += len(data)
            return got

        assert await asyncio.to_thread(read) >= size
        client.close()


# --- the end --------------------------------------------------------------------------------


async def test_the_end_waits_for_nobody(house: House, caplog: pytest.LogCaptureFixture):
    began = asyncio.Event()

    async def rooms(scope: Scope, receive: Receive, send: Send) -> None:
        began.set()
        await endless(scope, receive, send)

    async with open_house(house, keys=None, app=rooms):
        client = deaf(house)
        await asyncio.wait_for(began.wait(), PATIENCE_S)
        loop = asyncio.get_running_loop()
        started = loop.time()
    assert loop.time() - started < 4.0  # the server's patience with its tasks is 5 s
    client.close()
    assert complaints(caplog) == []


async def test_what_is_nearly_done_is_finished(house: House):
    asked = asyncio.Event()

    async def rooms(scope: Scope, receive: Receive, send: Send) -> None:
        asked.set()
        await asyncio.sleep(0.1)
        await Response(b"done")(scope, receive, send)

    async with AsyncExitStack() as stack:
        async with open_house(house, keys=None, app=rooms):
            reader = await stack.enter_async_context(connected(house, ASK))
            await asyncio.wait_for(asked.wait(), PATIENCE_S)
        assert (await until_cut(reader)).endswith(b"\r\n\r\ndone")


# --- TLS ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("short")
async def test_over_tls_silence_is_cut_as_well(house: House, tmp_path: Path):
    tls = own_tls(tmp_path / "tls", NAMES)
    trusting = ssl.create_default_context(cafile=tls.authority)
    async with open_house(house, tls=tls):
        host, _, port = house.address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=trusting)
        assert await until_cut(reader) == b""
        writer.transport.abort()
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(ASK)  # plain HTTP: refused by TLS, and nothing is held up
        writer.transport.abort()
        reader, writer = await asyncio.open_connection(host, int(port), ssl=trusting)
        writer.write(ASK)
        assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
        writer.transport.abort()
