"""Invariants: the daemon answers to addresses, localhost and its own names, and to no other name,
whatever the header says.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.access.hosts import (
    host_of,
    host_port,
    is_loopback,
    is_wildcard,
    own_names,
    reached_at,
    welcome,
)

NAMES = own_names(hostname="Studio.example.net", host="voice.lan", allowed=["App.Example.com."])


def test_own_names():
    assert {
        "studio.example.net",
        "studio",
        "studio.local",
        "voice.lan",
        "app.example.com",
    } == NAMES
    assert own_names(hostname="", host="0.0.0.0") == frozenset()
    # as browsers send them; what none can send is no name
    assert own_names(hostname="Jörgs-Mac", host="語音.lan") == {
        "xn--jrgs-mac-n4a",
        "xn--jrgs-mac-n4a.local",
        "xn--i42ao6x.lan",
    }
    for odd in ("my host", "host..name", "*", "a" * 64, "x\n", "a/b"):
        assert own_names(hostname=odd, host="::") == frozenset()


@pytest.mark.parametrize(
    "header",
    [
        "localhost",
        "LOCALHOST:8080",
        "app.localhost:3000",
        "127.0.0.1:8080",
        "192.168.1.5",
        "[::1]:8080",
        "[FE80::1%25eth0]:8080",
        "8.8.8.8:443",
        "studio:8080",
        "Studio.local",
        "studio.local.",
        "voice.lan:",
        "app.example.com",
    ],
)
def test_welcome(header: str):
    assert welcome([header], NAMES)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [""],
        ["localhost", "localhost"],
        ["evil.example:8080"],
        ["studio.evil.example"],
        ["localhost.evil.example"],
        ["127.0.0.1.evil.example"],
        ["2130706433"],  # browsers make 127.0.0.1 of it before they send it
        ["0x7f.1"],
        ["user@localhost"],
        ["localhost/"],
        ["localhost, evil.example"],
        [" localhost"],
        ["localhost:80a"],
        ["[localhost]"],
        ["[::1"],
        ["::1"],
        ["."],
        ["ｌocalhost"],
    ],
)
def test_not_welcome(headers: list[str]):
    assert not welcome(headers, NAMES)


@given(st.text())
def test_any_header_is_judged(header: str):
    host = host_of(header)
    assert host is None or (host == host.lower() and host)
    assert welcome([header], frozenset()) in (True, False)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.5", False),
        ("studio", False),
        ("", False),
    ],
)
def test_loopback(host: str, loopback: bool):
    assert is_loopback(host) == loopback


def test_wildcards():
    assert [is_wildcard(host) for host in ("0.0.0.0", "::", "127.0.0.1", "studio")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("host", "hosts"),
    [
        ("0.0.0.0", ("192.168.1.5",)),
        ("::", ("192.168.1.5", "fd00::5")),
        ("0:0:0:0:0:0:0:0", ("192.168.1.5", "fd00::5")),
    ],
)
def test_where_a_host_that_stands_for_all_is_reached(host: str, hosts: tuple[str, ...]):
    assert reached_at(host, lambda: ["192.168.1.5", "fd00::5"]) == hosts
    assert reached_at(host, list) == ()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "studio"])
def test_any_other_is_reached_by_itself(host: str):
    assert reached_at(host, lambda: pytest.fail("nobody needs to know")) == (host,)


def test_brackets():
    assert [host_port(host, 80) for host in ("127.0.0.1", "fd00::5", "studio")] == [
        "127.0.0.1:80",
        "[fd00::5]:80",
        "studio:80",
    ]
