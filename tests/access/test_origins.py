"""Invariants: a web page of another host does not get in, unless it is allowed; a page of the
client's machine, a page that the daemon's own host serves and a client that is no page do.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from services.access.origins import foreign_origin, origin_of


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


@pytest.mark.parametrize(
    ("origin", "welcome"),
    [
        ("https://app.example.com", True),
        ("https://APP.example.com:443", True),
        ("http://app.example.com", False),
        ("https://app.example.com:8443", False),
        ("https://example.com", False),
        ("https://app.example.com.evil.example", False),
    ],
)
def test_pages_that_are_allowed(origin: str, welcome: bool):
    allowed = frozenset({"https://app.example.com:443"})
    found = foreign_origin(Headers({"origin": origin, "host": "localhost"}), allowed)
    assert (found is None) == welcome


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://App.Example.com", "https://app.example.com:443"),
        ("http://app.example.com:8080/", "http://app.example.com:8080"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("http://app.example.com", "http://app.example.com:80"),
        ("app.example.com", None),
        ("https://app.example.com/page", None),
        ("https://app.example.com?x", None),
        ("https://user@app.example.com", None),
        ("https://app.example.com:port", None),
        ("https://", None),
        ("ftp://app.example.com", None),
        ("null", None),
    ],
)
def test_what_an_origin_is(text: str, origin: str | None):
    assert origin_of(text) == origin


@given(st.text())
def test_any_origin_is_judged(origin: str):
    headers = Headers(raw=[(b"host", b"localhost"), (b"origin", origin.encode("utf-8", "replace"))])
    assert foreign_origin(headers) in (None, headers["origin"])
    found = origin_of(origin)
    assert found is None or origin_of(found) == found
