"""Invariants: a web page of another host does not get in; a page of this machine, a page that the
daemon's own host serves and a client that is no page do.
"""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from services.realtime.origins import foreign_origin
from tests.realtime.fakes import Face, settled
from tts_engine.errors import BadRequest


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost", "127.0.0.1:8080"),
        ("http://LOCALHOST:3000", "[::1]:8080"),
        ("https://app.localhost:3000", "daemon"),
        ("http://127.0.0.1:5173", "daemon.example"),
        ("http://127.8.9.1", "daemon.example"),
        ("http://[::1]:5173", "daemon.example"),
        ("http://192.168.1.5:8080", "192.168.1.5:8080"),
        ("https://voice.example", "voice.example"),
        ("https://Voice.Example.", "voice.example:8443"),
    ],
)
def test_pages_that_may_connect(origin: str, host: str):
    assert foreign_origin(Headers({"origin": origin, "host": host})) is None


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://evil.example", "127.0.0.1:8080"),
        ("https://evil.example:8080", "voice.example:8080"),
        ("http://localhost.evil.example", "localhost"),
        ("http://127.0.0.1.evil.example", "127.0.0.1"),
        ("http://notlocalhost", "localhost"),
        ("http://192.168.1.6", "192.168.1.5"),
        ("null", "null"),
        ("", ""),
        ("file://", "localhost"),
        ("http://[::1", "[::1"),
        ("chrome-extension://abcdef", "localhost"),
    ],
)
def test_pages_that_may_not(origin: str, host: str):
    assert foreign_origin(Headers({"origin": origin, "host": host})) == origin


def test_clients_that_are_no_pages():
    assert foreign_origin(Headers({"host": "voice.example"})) is None


def test_every_origin_counts():
    raw = [(b"origin", b"http://localhost"), (b"origin", b"http://evil.example")]
    assert foreign_origin(Headers(raw=raw)) == "http://evil.example"


async def test_a_foreign_page_is_refused_at_the_handshake(face: Face, warnings: list[str]):
    with pytest.raises(InvalidStatus) as refused:
        await connect(face.url, origin="http://evil.example")  # type: ignore[arg-type]
    assert refused.value.response.status_code == 403
    assert face.sessions.opened.empty()
    await settled(lambda: bool(face.failures), "the refusal is counted")
    assert [type(failure) for failure in face.failures] == [BadRequest]
    [line] = warnings
    assert "'http://evil.example' may not connect" in line


@pytest.mark.parametrize("origin", [None, "http://localhost:3000", "own"])
async def test_a_welcome_page_gets_in(face: Face, origin: str | None):
    if origin == "own":
        origin = f"http://{face.address}"
    async with connect(face.url, origin=origin) as connection:  # type: ignore[arg-type]
        assert "session.created" in str(await connection.recv())
