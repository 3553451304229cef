"""Invariants: a device is told an address that it can read, never one of IPv6, and only a trusted
proxy's word about it counts.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config import load_config
from pipeline.xiaozhi import make_registry
from services.xiaozhi.device_file import Visit
from services.xiaozhi.firmware import FirmwareFolder
from services.xiaozhi.ota_body import about
from services.xiaozhi.proxies import reached
from tts_engine.errors import ConfigError

ADDRESSES = ("fd00::5", "192.168.1.5", "10.0.0.5")


def told(
    host: str, *, scheme: str = "http", client: str = "10.0.0.9", trusted: str = "", **headers: str
) -> str:
    return reached(
        {"host": host, **{name.replace("_", "-"): value for name, value in headers.items()}},
        scheme=scheme,
        client=client,
        trusted=tuple(filter(None, (trusted,))),
        addresses=lambda: ADDRESSES,
    )


@pytest.mark.parametrize(
    ("host", "scheme", "expected"),
    [
        ("box.local:8080", "http", "http://box.local:8080"),
        ("192.168.1.5", "https", "https://192.168.1.5"),
        ("box", "wss", "https://box"),
        ("[fd00::9]:8080", "http", "http://192.168.1.5:8080"),
        ("[fd00::9]", "http", "http://192.168.1.5"),
        ("[::1]:81", "http", "http://localhost:81"),
        ("", "http", "http://localhost"),
        ("a b", "http", "http://localhost"),
        ("user@host", "http", "http://localhost"),
    ],
)
def test_by_which_address(host: str, scheme: str, expected: str):
    assert told(host, scheme=scheme) == expected


def test_a_machine_without_ipv4():
    found = reached(
        {"host": "[fd00::9]:1"}, scheme="http", client="", trusted=(), addresses=lambda: ()
    )
    assert found == "http://localhost:1"


@pytest.mark.parametrize(
    ("client", "trusted", "believed"),
    [
        ("10.0.0.9", "10.0.0.9", True),
        ("10.0.0.9", "10.0.0.0/8", True),
        ("10.0.0.9", "10.0.0.1/8", True),
        ("::ffff:10.0.0.9", "10.0.0.0/8", True),
        ("fd00::9", "fd00::/64", True),
        ("10.0.0.9", "", False),
        ("10.0.0.9", "10.0.0.8", False),
        ("10.0.0.9", "fd00::/64", False),
        ("fd00::9", "0.0.0.0/0", False),
        ("", "0.0.0.0/0", False),
        ("a socket", "0.0.0.0/0", False),
    ],
)
def test_who_is_believed(client: str, trusted: str, believed: bool):
    found = told(
        "me", client=client, trusted=trusted, x_forwarded_proto="HTTPS", x_forwarded_host="a.b:1"
    )
    assert found == ("https://a.b:1" if believed else "http://me")


@given(st.text(), st.text(), st.text(), st.booleans())
def test_whatever_is_sent(host: str, proto: str, forwarded: str, trusted: bool):
    found = told(
        host,
        trusted="10.0.0.9" if trusted else "",
        x_forwarded_proto=proto,
        x_forwarded_host=forwarded,
    )
    assert re.fullmatch(r"https?://[0-9A-Za-z._-]+(:[0-9]*)?", found)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
_part = st.none() | st.dictionaries(st.sampled_from(["name", "type", "version"]), _json) | _json


@given(st.text(), st.fixed_dictionaries({"application": _part, "board": _part}))
def test_whatever_a_device_says_of_itself(agent: str, body: dict[str, object]):
    board, firmware = about({"user-agent": agent}, body)
    assert board.isprintable()
    assert len(board) <= 64
    assert re.fullmatch(r"([0-9]+(\.[0-9]+)*)?", firmware)


def test_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "glob", broken)
    assert FirmwareFolder(tmp_path).newer("box", "1.0") is None


# --- the configuration ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("sets", "asks", "code"),
    [
        ([], False, False),
        (["server.host=0.0.0.0"], True, True),
        (["server.require_key=true"], True, False),
        (["xiaozhi.trusted_proxies=[127.0.0.1]"], True, True),
        (["server.host=0.0.0.0", "xiaozhi.auth=off"], False, False),
        (["server.host=0.0.0.0", "xiaozhi.enrolment=open"], True, False),
        (["xiaozhi.auth=on", "xiaozhi.enrolment=code"], True, True),
    ],
)
def test_where_tokens_and_codes_are_asked_for(
    sets: list[str], asks: bool, code: bool, tmp_path: Path
):
    kept = f"xiaozhi.devices_file={tmp_path}/devices.json"
    registry = make_registry(load_config(None, [*sets, kept], environ={}))
    assert registry.asks == asks
    if asks:
        enrolled = registry.boots(Visit(id="mac", client_id="uuid"))
        assert (bool(enrolled.code), bool(enrolled.token)) == (code, not code)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("websocket_url=http://x/", "ws:// or wss://"),
        ("websocket_url=ws://[::1]:1/", "IPv6"),
        ("trusted_proxies=[proxy.local]", "no address or network"),
        ("time_zone=Mars", "Asia/Shanghai"),
        ("time_zone=../../etc/passwd", "Asia/Shanghai"),
        ("lead_frames=11", "lead_frames"),
        ("boards={x: 0}", "boards"),
    ],
)
def test_settings_that_are_wrong(setting: str, says: str):
    with pytest.raises(ConfigError, match=says):
        load_config(None, [f"xiaozhi.{setting}"], environ={})


def test_settings_that_are_right():
    sets = ["websocket_url=wss://x/xiaozhi/v1/", "trusted_proxies=[10.0.0.0/8]", "time_zone=UTC"]
    found = load_config(None, [f"xiaozhi.{each}" for each in sets], environ={}).xiaozhi
    assert found.time_zone == "UTC"
    assert found.trusted_proxies == ("10.0.0.0/8",)
