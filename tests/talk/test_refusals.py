"""Every way not to get a conversation ends in what was wrong, and what mends it.

Real sockets: what a peer does wrong is done by a server.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from pipeline.talk.client import TalkClient
from pipeline.talk.endpoint import Endpoint
from tests.talk.certificates import make_certificate, serving_context
from tts_engine.errors import AtCapacity, DuplexdError, EngineFailed

KEY = "sk-very-secret"


@asynccontextmanager
async def refusing(
    status: int = 403,
    body: bytes | str = b"",
    headers: Mapping[str, str] | None = None,
    *,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[tuple[int, list[str]]]:
    """A server that answers every handshake with an HTTP status; its port, and the keys it saw."""
    keys: list[str] = []
    content = body.encode() if isinstance(body, str) else body

    def refuse(_: ServerConnection, request: Request) -> Response:
        keys.append(request.headers.get("Authorization", ""))
        return Response(status, HTTPStatus(status).phrase, Headers(headers or {}), content)

    async def nobody(_: ServerConnection) -> None:
        raise AssertionError("nobody gets in")

    async with serve(nobody, "127.0.0.1", 0, process_request=refuse, ssl=tls) as server:
        yield next(iter(server.sockets)).getsockname()[1], keys


async def failure(address: str, *, key: str = "", cacert: Path | None = None) -> DuplexdError:
    client = TalkClient(Endpoint.of(address, key=key, cacert=cacert))
    with pytest.raises(DuplexdError) as caught:
        async with asyncio.timeout(30):
            await client.talk([np.zeros(480, np.int16)])
    assert KEY not in str(caught.value)
    return caught.value


def said(message: object) -> str:
    return json.dumps({"error": {"message": message, "type": "x", "param": None, "code": "x"}})


@pytest.mark.parametrize(
    ("status", "body", "key", "message", "mend"),
    [
        (401, said("No key."), "", "wants an API key", "--key or in DUPLEXD_API_KEY"),
        (401, b"", "", "wants an API key", "run.py keys add"),
        (401, said("Unknown key"), KEY, "does not know this API key", "--key"),
        (403, said("No host x. Add it."), "", "refused: No host x. Add it", ""),
        (403, b"", "", "is not a duplexd daemon: it answered with HTTP 403", "--url"),
        (404, said("no"), "", "is not a duplexd daemon: it answered with HTTP 404", "--url"),
        (200, b"hello", "", "is not a duplexd daemon: it answered with HTTP 200", "--url"),
    ],
)
async def test_statuses(status: int, body: bytes | str, key: str, message: str, mend: str) -> None:
    async with refusing(status, body) as (port, keys):
        error = await failure(f"127.0.0.1:{port}", key=key)
    assert type(error) is EngineFailed
    assert error.message.endswith(message)
    assert mend in error.mend
    assert keys == [f"Bearer {key}" if key else ""]


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (503, said("All 4 places are taken. Try later."), "All 4 places are taken. Try later"),
        (503, said("The daemon is warming up"), "refused: The daemon is warming up"),
        (429, said("Slow down"), "refused: Slow down"),
        (429, b"", "refused: HTTP 429"),
    ],
)
@pytest.mark.parametrize(
    ("after", "mend"),
    [({"Retry-After": "7"}, "Try again in 7 s"), ({}, "later"), ({"Retry-After": "x"}, "later")],
)
async def test_later(
    status: int, body: bytes | str, message: str, after: dict[str, str], mend: str
) -> None:
    async with refusing(status, body, after) as (port, _):
        error = await failure(f"127.0.0.1:{port}")
    assert type(error) is AtCapacity
    assert error.message.endswith(message)
    assert error.mend.endswith(mend)


@pytest.mark.parametrize(
    "body",
    [b"[1]", b"7", b'{"error": "x"}', said(7), said(None), said(" "), b"\xff", b"[" * 100_000],
    ids=lambda body: str(body)[:30],
)
async def test_bodies_that_say_nothing(body: bytes | str) -> None:
    async with refusing(503, body) as (port, _):
        error = await failure(f"127.0.0.1:{port}")
    assert error.message.endswith("refused: HTTP 503")


async def test_long_words_are_cut() -> None:
    async with refusing(403, said("x" * 10_000)) as (port, _):
        error = await failure(f"127.0.0.1:{port}")
    assert len(error.message) < 400


# --- TLS -------------------------------------------------------------------------------------


async def test_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "127.0.0.1")
    async with refusing(401, tls=serving_context(cert, key)) as (port, keys):
        error = await failure(f"https://127.0.0.1:{port}", key=KEY, cacert=cert)
    assert "does not know this API key" in error.message  # so it was let through
    assert keys == [f"Bearer {KEY}"]


async def test_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "127.0.0.1")
    async with refusing(tls=serving_context(cert, key)) as (port, keys):
        error = await failure(f"https://127.0.0.1:{port}", key=KEY)
    assert "certificate of https://127.0.0.1" in error.message
    assert "is not trusted: self" in error.message
    assert "--cacert FILE" in error.mend
    assert keys == []


@pytest.mark.parametrize("name", ["192.0.2.7", "box.local"])
async def test_a_certificate_for_others(name: str, tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, name)
    async with refusing(tls=serving_context(cert, key)) as (port, _):
        for host in ("127.0.0.1", "localhost"):
            error = await failure(f"{host}:{port}", cacert=cert)
            assert "is for other addresses" in error.message
            assert "that its certificate names" in error.mend


async def test_tls_where_there_is_none() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        error = await failure(f"wss://127.0.0.1:{port}")
    assert re.search(r"speaks no TLS: .*wrong version", error.message, re.IGNORECASE)
    assert "http://" in error.mend


async def test_no_tls_where_there_is_some(tmp_path: Path) -> None:
    async with refusing(tls=serving_context(*make_certificate(tmp_path, "x"))) as (port, _):
        error = await failure(f"127.0.0.1:{port}")
    assert "speaks no HTTP" in error.message
    assert "https://" in error.mend


async def test_a_peer_that_hangs_up() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        plain = await failure(f"127.0.0.1:{port}")
        secure = await failure(f"https://127.0.0.1:{port}")
    assert "speaks no HTTP: " in plain.message
    assert "speaks no TLS: " in secure.message


async def test_a_peer_that_hangs_up_on_tls_without_a_word() -> None:
    async with refusing() as (port, _):
        error = await failure(f"wss://127.0.0.1:{port}")
    assert error.message.endswith("speaks no TLS: it hung up")


async def test_a_server_of_an_older_http() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 404 File not found\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        error = await failure(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert error.message.endswith(
        "is not a duplexd daemon: it answered 'HTTP/1.0 404 File not found'"
    )
    assert "--url" in error.mend


async def test_a_name_that_nobody_has() -> None:
    for name in ("nobody.invalid", "no..body"):
        error = await failure(f"{name}:8080")
        assert error.message.startswith(f"The name {name} cannot be found: ")
        assert "Errno" not in error.message
        assert error.mend == "Correct the address, or give the IP address"


async def test_nobody_there(unused_tcp_port: int) -> None:
    error = await failure(f"127.0.0.1:{unused_tcp_port}")
    assert re.match("No daemon can be reached at ws://127", error.message)
    assert "run.py serve" in error.mend
