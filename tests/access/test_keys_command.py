"""Invariants: a key is printed once, when it is made; the list has no key; what is revoked is gone;
a wrong id is a usage error that says where the right ones are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from services.access.key_file import KeyFile
from services.access.keys import KeyRing
from tests.pipeline.conftest import Run

pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.fixture
def kept(tmp_path: Path) -> tuple[str, ...]:
    return ("--set", f"server.keys_file={tmp_path}/keys.json")


def test_add_list_and_revoke(run: Run, kept: tuple[str, ...], tmp_path: Path):
    code, out, err = run("keys", "add", "--name", "phone", *kept)
    key = out.strip()
    file = KeyFile(tmp_path / "keys.json")
    [stored] = file.read()
    assert (code, stored.name) == (0, "phone")
    assert KeyRing(file=file).admits(key)
    assert f"run.py keys revoke {stored.id}" in err
    code, out, _ = run("keys", "list", *kept)
    assert code == 0
    assert stored.id in out
    assert "phone" in out
    assert key not in out
    assert stored.sha256 not in out
    assert str(file.path) in "".join(out.split("\n"))
    assert run("keys", "revoke", stored.id, *kept) == (0, f"revoked {stored.id}, phone\n", "")
    assert file.read() == ()


def test_for_programs(run: Run, kept: tuple[str, ...], tmp_path: Path):
    code, out, err = run("keys", "add", "--json", *kept)
    made = json.loads(out)
    assert (code, err) == (0, "")
    assert KeyRing(file=KeyFile(tmp_path / "keys.json")).admits(made["key"])
    code, out, _ = run("keys", "list", "--json", *kept)
    [row] = json.loads(out)
    assert row.keys() == {"id", "name", "created"}
    assert row["id"] == made["id"]
    code, out, _ = run("keys", "revoke", made["id"], "--json", *kept)
    assert (code, json.loads(out)) == (0, row)
    assert json.loads(run("keys", "list", "--json", *kept)[1]) == []


def test_how_it_gets_into_a_browser(
    run: Run, kept: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pipeline.access.own_addresses", lambda: ["192.168.1.5", "10.0.0.1"])
    code, out, err = run("keys", "add", "--host", "0.0.0.0", "--port", "81", *kept)
    key = out.strip()
    assert (code, out) == (0, f"{key}\n")
    assert f"    http://192.168.1.5:81/?key={key}\n    or http://10.0.0.1:81/?key={key}\n" in err
    assert "certificate" not in err
    assert "▄" not in err
    _, out, err = run("keys", "add", "--host", "box", "--tls", "auto", *kept)
    assert f"    https://box:8080/?key={out.strip()}\n" in err
    assert "https://box:8080/duplexd-ca.crt" in err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _, out, err = run("keys", "add", "--host", "box", "--tls", "auto", *kept)
    assert "▄" in err
    assert "▄" not in out


@pytest.mark.parametrize("options", [[], ["--host", "0.0.0.0", "--port", "0"]])
def test_where_nobody_knows_the_address(run: Run, kept: tuple[str, ...], options: list[str]):
    code, out, err = run("keys", "add", *options, *kept)
    assert (code, out.count("\n")) == (0, 1)
    assert "with the daemon's --host, --port and --tls" in err
    assert "?key=" not in err


def test_a_key_without_a_name(run: Run, kept: tuple[str, ...]):
    made = json.loads(run("keys", "add", "--json", *kept)[1])
    assert run("keys", "revoke", made["id"], *kept)[1] == f"revoked {made['id']}\n"


def test_an_id_that_there_is_not(run: Run, kept: tuple[str, ...]):
    code, _, err = run("keys", "revoke", "nope", *kept)
    assert code == 2
    assert "There is no key with the id 'nope'" in err
    assert "run.py keys list" in err


def test_a_file_that_cannot_be_used(run: Run, tmp_path: Path):
    code, _, err = run("keys", "list", "--set", f"server.keys_file={tmp_path}")
    assert code == 1
    assert "Cannot read the API keys" in err


def test_the_usual_place(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    run("keys", "add")
    assert len(KeyFile(tmp_path / "duplexd" / "keys.json").read()) == 1


@pytest.mark.parametrize("args", [["keys"], ["keys", "add"], ["keys", "list"], ["keys", "revoke"]])
def test_help_has_an_example(run: Run, args: list[str]):
    code, out, _ = run(*args, "--help")
    assert code == 0
    assert f"Example: run.py {' '.join(args)}" in " ".join(out.split())
