"""Invariants: the first key is made where one is needed, and shown once, on standard output; how
the daemon is reached is shown with it; on loopback nothing is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from loguru import logger

from pipeline.access import key_file, key_required, pages, tls_of
from pipeline.commands.invitation import invite
from pipeline.commands.options import listening
from pipeline.config import Config, load_config
from services.access.keys import KeyRing
from services.access.tls import Tls
from tests.access.test_tls import NAMES, make_bundle
from tts_engine.errors import ConfigError

PAGES = ["http://192.168.1.5:8080/", "http://10.0.0.1:8080/"]
TLS = Tls(
    certificate=Path("c"), key=Path("k"), authority=Path("/data/duplexd-ca.crt"), fingerprint="AB:C"
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("DUPLEXD_API_KEY", raising=False)
    return tmp_path / "duplexd"


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    lines: list[str] = []
    sink = logger.add(lambda line: lines.append(str(line)), level="WARNING", format="{message}")
    yield lines
    logger.remove(sink)


def config(*sets: str) -> Config:
    return load_config(None, sets, environ={})


BEYOND = config("server.host=0.0.0.0")


def test_the_first_key(
    capsys: pytest.CaptureFixture[str],
    warnings: list[str],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    invite(BEYOND, PAGES, None)
    out, err = capsys.readouterr()
    [key] = {*re.findall(r"dx-[\w-]{32}", out)}
    assert key not in err
    assert f"    http://192.168.1.5:8080/?key={key}\n" in out
    assert f"    or http://10.0.0.1:8080/?key={key}\n" in out
    assert f"API key, shown only now: {key}" in out
    assert "run.py keys add" in out
    assert KeyRing(file=key_file(BEYOND.server)).admits(key)
    assert (home / "keys.json").exists()
    [warning] = warnings
    assert "no microphone" in warning
    assert "in the clear" in warning
    assert "--tls auto" in warning


def test_what_keeps_the_output_gets_the_key_once(capsys: pytest.CaptureFixture[str]):
    invite(BEYOND, PAGES, None)
    out = capsys.readouterr().out
    [key] = re.findall(r"dx-[\w-]{32}", out)
    assert f"API key, shown only now: {key}\n" in out
    assert "It is a secret" in out
    assert "run.py keys revoke" in out
    assert "    http://192.168.1.5:8080/\n" in out
    assert "key=" not in out


def test_later_none_is_shown(capsys: pytest.CaptureFixture[str]):
    invite(BEYOND, PAGES, None)
    capsys.readouterr()
    invite(BEYOND, PAGES, None)
    out = capsys.readouterr().out
    assert "    http://192.168.1.5:8080/\n" in out
    assert "It asks for an API key; a new one: run.py keys add" in out
    assert "dx-" not in out


def test_with_a_key_of_the_environment_none_is_made(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
):
    monkeypatch.setenv("DUPLEXD_API_KEY", "a-key-for-a-container")
    invite(BEYOND, PAGES, None)
    assert "key=" not in capsys.readouterr().out
    assert not home.exists()


def test_on_loopback(capsys: pytest.CaptureFixture[str], warnings: list[str], home: Path):
    invite(config(), ["http://127.0.0.1:8080/"], None)
    assert capsys.readouterr() == ("", "")
    assert not home.exists()
    invite(config("server.require_key=true"), ["http://127.0.0.1:8080/"], None)
    assert "API key, shown only now: dx-" in capsys.readouterr().out
    invite(config(), ["https://127.0.0.1:8080/"], TLS)
    out = capsys.readouterr().out
    assert "key" not in out.replace("keys", "")
    assert "https://127.0.0.1:8080/" in out
    assert warnings == []


def test_whom_to_trust(capsys: pytest.CaptureFixture[str], warnings: list[str]):
    invite(BEYOND, ["https://192.168.1.5:8080/"], TLS)
    out = capsys.readouterr().out
    assert "/data/duplexd-ca.crt" in out
    assert "SHA-256 AB:C" in out
    assert "https://192.168.1.5:8080/duplexd-ca.crt" in out
    assert "iOS" in out
    assert "Android" in out
    assert "docs/security.md" in out
    assert warnings == []
    given = Tls(certificate=Path("c"), key=Path("k"))
    invite(BEYOND, ["https://192.168.1.5:8080/"], given)
    assert "SHA-256" not in capsys.readouterr().out


def test_a_code_for_phones(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    invite(BEYOND, PAGES, None)
    assert "▄" not in capsys.readouterr().out  # nobody could scan a file
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    invite(BEYOND, PAGES, None)
    out = capsys.readouterr().out
    assert "▄" in out
    assert max(len(re.sub(r"\x1b\[\d+m", "", line)) for line in out.splitlines()) <= 80
    invite(config("server.host=0.0.0.0", "log.format=json"), PAGES, None)
    assert "▄" not in capsys.readouterr().out


# --- what the configuration comes to --------------------------------------------------------


@pytest.mark.parametrize(
    ("sets", "required"),
    [
        ([], False),
        (["server.host=localhost"], False),
        (["server.host=Localhost."], False),
        (["server.host=::1"], False),
        (["server.host=127.0.0.2"], False),
        (["server.host=0.0.0.0"], True),
        (["server.host='::'"], True),
        (["server.host=192.168.1.5"], True),
        (["server.host=studio"], True),
        (["server.require_key=true"], True),
    ],
)
def test_where_a_key_is_required(sets: list[str], required: bool):
    assert key_required(config(*sets).server) == required


def test_pages(monkeypatch: pytest.MonkeyPatch):
    found = ["192.168.1.5", "fd00::5"]
    monkeypatch.setattr("pipeline.access.own_addresses", lambda: found)

    def of(host: str, tls: str = "off") -> list[str]:
        return pages(config(f"server.host='{host}'", f"server.tls={tls}").server, 8080)

    assert of("127.0.0.1") == ["http://127.0.0.1:8080/"]
    assert of("studio", "auto") == ["https://studio:8080/"]
    assert of("::1") == ["http://[::1]:8080/"]
    assert of("0.0.0.0", "c.pem,k.pem") == ["https://192.168.1.5:8080/"]
    assert of("::") == ["http://192.168.1.5:8080/", "http://[fd00::5]:8080/"]
    found.clear()
    assert of("0.0.0.0") == ["http://localhost:8080/"]


def test_certificates(home: Path, tmp_path: Path):
    assert tls_of(config().server) is None
    own = tls_of(config("server.tls=auto", "server.host=192.168.77.1").server)
    assert own is not None
    assert own.certificate.parent == home / "tls"
    wild = tls_of(config("server.tls=auto", "server.host=0.0.0.0").server)
    assert wild == own  # it still covers all that it has to
    certificate, key = tmp_path / "c.crt", tmp_path / "k.key"
    bundle = make_bundle(NAMES)
    certificate.write_bytes(bundle.certificate)
    key.write_bytes(bundle.key)
    given = tls_of(config(f"server.tls={certificate}, {key}").server)
    assert given == Tls(certificate=certificate, key=key)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("tls", "cert.pem", "must be off, auto, or two files: CERT,KEY"),
        ("tls", "cert.pem,", "must be off, auto, or two files: CERT,KEY"),
        ("allowed_hosts", "[a.example, 'b/c']", "'b/c' is no host name"),
        ("allowed_hosts", "['a:80']", "'a:80' is no host name"),
        ("allowed_origins", "[app.example.com]", "'app.example.com' is no origin"),
    ],
)
def test_values_that_cannot_be_used(key: str, value: str, said: str):
    with pytest.raises(ConfigError, match=f"server.{key}.*{re.escape(said)}"):
        config(f"server.{key}={value}")


def test_options_of_serve():
    assert listening(host=None, port=None, tls=None) == []
    server = config(*listening(host="::", port=81, tls="/a b.pem,/c.pem")).server
    assert (server.host, server.port, server.tls) == ("::", 81, "/a b.pem,/c.pem")
    assert config(*listening(host="0.0.0.0", port=0, tls="off")).server.tls == "off"
