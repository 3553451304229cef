"""An address is understood as people write it, and a key is shown to nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.talk.endpoint import Endpoint
from tts_engine.errors import BadRequest


@pytest.mark.parametrize(
    ("address", "url", "base"),
    [
        ("box:80", "ws://box:80/v1/realtime", "http://box:80"),
        ("[::1]:80", "ws://[::1]:80/v1/realtime", "http://[::1]:80"),
        ("ws://box", "ws://box/v1/realtime", "http://box"),
        ("http://box:80/", "ws://box:80/v1/realtime", "http://box:80"),
        ("https://box:80#x", "wss://box:80/v1/realtime", "https://box:80"),
        ("WSS://box/a/realtime?model=m", "wss://box/a/realtime?model=m", "https://box"),
    ],
)
def test_addresses(address: str, url: str, base: str) -> None:
    daemon = Endpoint.of(address)
    assert (daemon.url, daemon.base, daemon.secure) == (url, base, url.startswith("wss"))
    assert (daemon.tls() is not None) == daemon.secure


def test_a_certificate_to_trust_means_tls(tmp_path: Path) -> None:
    assert Endpoint.of("box:80", cacert=tmp_path / "c.pem").url == "wss://box:80/v1/realtime"
    with pytest.raises(BadRequest, match="nothing to check at http://box") as caught:
        Endpoint.of("http://box", cacert=tmp_path / "c.pem")
    assert "https://" in caught.value.mend


@pytest.mark.parametrize(
    "address",
    ["", "ftp://box", "ws://", "box:99999", "box:0", "box:x", "a b:80", "ws://[::1", "ws://a\n"],
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(BadRequest, match="is no address of a daemon") as caught:
        Endpoint.of(address)
    assert "HOST:PORT" in caught.value.mend


@pytest.mark.parametrize("address", ["ws://me:secret@box:80", "ftp://me:secret@box"])
def test_a_password_in_an_address_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Endpoint.of(address)
    assert "secret" not in str(caught.value)


def test_a_key_is_sent_and_not_shown() -> None:
    daemon = Endpoint.of("box:80", key=" abc \n")
    assert daemon.headers == {"Authorization": "Bearer abc"}
    assert "abc" not in repr(daemon)
    assert Endpoint.of("box:80").headers == Endpoint.of("box:80", key=" ").headers == {}


@pytest.mark.parametrize("key", ["密abc", "ab c", "abc\r\nX: y", "abc\x00"])
def test_what_no_header_can_hold(key: str) -> None:
    with pytest.raises(BadRequest, match="characters that no key has") as caught:
        Endpoint.of("box:80", key=key)
    assert "abc" not in str(caught.value)
    assert "ab c" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file"), (b"", "no PEM"), (b"no certificate", "no PEM")]
)
def test_a_certificate_that_is_none(content: bytes | None, why: str, tmp_path: Path) -> None:
    path = tmp_path / "cert.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadRequest, match=why) as caught:
        Endpoint.of("box:80", cacert=path).tls()
    assert str(path) in caught.value.message
