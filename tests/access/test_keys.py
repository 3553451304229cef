"""Invariants: a key is kept as a hash only, in a file of its owner's; a good key is recognised, no
other; changes of the file count within a second, and a file that cannot be read lets nobody in.
"""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from services.access.key_file import NAME_LENGTH, KeyFile
from services.access.keys import KeyRing, chosen_key, digest_of, new_key
from tests.access.fakes import Clock
from tests.daemon.process import ROOT
from tts_engine.errors import BadRequest, ConfigError, DuplexdError


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "data" / "keys.json")


def test_keys_are_random_and_long():
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    for key in keys:
        assert key.startswith("dx-")
        assert len(key) == 3 + 32
        assert chosen_key(key, source="it") == key
    assert 32 * math.log2(64) >= 160


def test_what_is_kept(file: KeyFile):
    key = new_key()
    stored = file.add(digest_of(key), name="phone")
    text = file.path.read_text()
    assert key not in text
    assert key[3:] not in text
    assert json.loads(text)["keys"][0] == stored.model_dump()
    assert (stored.name, len(stored.id)) == ("phone", 8)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert {each.name for each in file.path.parent.iterdir()} == {"keys.json", "keys.json.lock"}


def test_add_and_revoke(file: KeyFile):
    assert file.read() == ()
    first, second = (file.add(digest_of(new_key()), name=name) for name in ("a", "b"))
    assert file.read() == (first, second)
    assert file.revoke(first.id) == first
    assert file.read() == (second,)
    with pytest.raises(BadRequest, match=f"no key with the id '{first.id}'"):
        file.revoke(first.id)


def test_the_first_key_is_made_once(file: KeyFile):
    first = file.add_first("0" * 64)
    assert first is not None
    assert file.add_first("1" * 64) is None
    assert file.read() == (first,)


def test_no_first_key_is_made_where_nothing_can_be_written(
    file: KeyFile, monkeypatch: pytest.MonkeyPatch
):
    file.add("0" * 64)
    monkeypatch.setattr("services.access.key_file.locked", lambda *_, **__: pytest.fail("locked"))
    assert file.add_first("1" * 64) is None


@pytest.mark.parametrize("name", ["a" * (NAME_LENGTH + 1), "a\nb"])
def test_names_that_are_none(file: KeyFile, name: str):
    with pytest.raises(BadRequest, match="printable"):
        file.add("0" * 64, name=name)
    assert file.read() == ()


def test_many_processes_add_at_a_time(file: KeyFile):
    code = (
        "import sys; from pathlib import Path; from services.access.key_file import KeyFile\n"
        "for _ in range(10): KeyFile(Path(sys.argv[1])).add('0' * 64)"
    )
    command = [sys.executable, "-c", code, str(file.path)]
    workers = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    assert len({key.id for key in file.read()}) == 30


@pytest.mark.parametrize("content", ["", "[]", "{", '{"keys": [{"id": "x"}]}', '{"kees": []}'])
def test_a_file_of_something_else(file: KeyFile, content: str):
    file.path.parent.mkdir()
    file.path.write_text(content)
    with pytest.raises(ConfigError, match="is not a file of API keys") as caught:
        file.read()
    assert str(file.path) in str(caught.value)
    with pytest.raises(ConfigError):
        file.add("0" * 64)
    assert file.path.read_text() == content


def test_places_where_no_file_can_be(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(DuplexdError, match="Cannot write the API keys") as caught:
        KeyFile(tmp_path / "file" / "keys.json").add("0" * 64)
    assert "server.keys_file" in caught.value.mend
    (tmp_path / "folder").mkdir()
    with pytest.raises(DuplexdError, match="Cannot read the API keys"):
        KeyFile(tmp_path / "folder").read()


def test_what_cannot_be_written_leaves_nothing(file: KeyFile, monkeypatch: pytest.MonkeyPatch):
    kept = file.add("0" * 64)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DuplexdError, match="No space left"):
        file.add("1" * 64)
    assert file.read() == (kept,)
    assert {each.name for each in file.path.parent.iterdir()} == {"keys.json", "keys.json.lock"}


# --- recognising ----------------------------------------------------------------------------


def test_good_keys_and_others(file: KeyFile):
    keys = [new_key(), new_key()]
    for key in keys:
        file.add(digest_of(key))
    ring = KeyRing(file=file, chosen=["a-key-of-our-own"])
    assert all(ring.admits(key) for key in (*keys, "a-key-of-our-own"))
    for wrong in ("", "dx-", keys[0][:-1], keys[0] + "x", keys[0].upper(), digest_of(keys[0]), "é"):
        assert not ring.admits(wrong)


def test_without_any_key_nobody_gets_in(file: KeyFile):
    assert not KeyRing(file=file).admits(new_key())


def test_changes_count_within_a_second(file: KeyFile):
    clock, old, new = Clock(), new_key(), new_key()
    stored = file.add(digest_of(old))
    ring = KeyRing(file=file, clock=clock)
    file.add(digest_of(new))
    clock.now += 0.5
    assert not ring.admits(new)
    clock.now += 0.5
    assert ring.admits(new)
    file.revoke(stored.id)
    clock.now += 1
    assert (ring.admits(old), ring.admits(new)) == (False, True)


def test_a_file_that_did_not_change_is_not_read(file: KeyFile, monkeypatch: pytest.MonkeyPatch):
    clock, key = Clock(), new_key()
    file.add(digest_of(key))
    ring = KeyRing(file=file, clock=clock)
    monkeypatch.setattr(KeyFile, "read", lambda _: pytest.fail("it was read"))
    clock.now += 2
    assert ring.admits(key)


def test_a_file_that_is_damaged_lets_nobody_in(file: KeyFile, errors: list[str]):
    clock, key = Clock(), new_key()
    file.add(digest_of(key))
    ring = KeyRing(file=file, chosen=["a-key-of-our-own"], clock=clock)
    good = file.path.read_bytes()
    file.path.write_text("damaged")
    for _ in range(3):
        clock.now += 1
        assert not ring.admits(key)
        assert ring.admits("a-key-of-our-own")
    [line] = errors
    assert "is not a file of API keys" in line
    file.path.write_bytes(good)
    clock.now += 1
    assert ring.admits(key)
    file.path.unlink()
    clock.now += 1
    assert not ring.admits(key)


def test_a_damaged_file_is_told_at_the_start(file: KeyFile):
    file.path.parent.mkdir()
    file.path.write_text("damaged")
    with pytest.raises(ConfigError):
        KeyRing(file=file)


# --- keys that are set by hand --------------------------------------------------------------


def test_keys_that_are_set_by_hand():
    assert chosen_key(" 0123456789abcdef\n", source="X") == "0123456789abcdef"
    assert chosen_key("AZaz09-._~+/AZaz==", source="X") == "AZaz09-._~+/AZaz=="
    with pytest.raises(ConfigError, match="X is too short") as caught:
        chosen_key("0123456789abcde", source="X")
    assert "0123" not in str(caught.value)
    for wrong in (
        "0123456789abcdef;",
        "0123456789 abcdef",
        "0123456789abcdeé",
        "=0123456789abcdef",
    ):
        with pytest.raises(ConfigError, match="X has characters") as caught:
            chosen_key(wrong, source="X")
        assert "0123" not in str(caught.value)
