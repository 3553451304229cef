"""A voice is there when it was written whole, after a restart as before it; what is not whole is
left out with one warning that names the mend; a name never leads out of the folder.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loguru import logger

from tts_engine.cosyvoice.kind import Kind
from tts_engine.cosyvoice.prompt import trim_prompt
from tts_engine.cosyvoice.reference import Reference
from tts_engine.cosyvoice.voice import VoiceFeatures, VoiceInfo, is_name, language_of, trimmed
from tts_engine.cosyvoice.voices import Progress, VoiceStore, by_age
from tts_engine.errors import BadAudio, BadRequest, EngineFailed, ModelCorrupt, UnknownVoice

from .recordings import buzz, file_of

TEXT = "今天天气很好。"


class Measure:
    """Stands for the frontend: features of the right shapes, at once."""

    kind: Kind = "cosyvoice2"

    def features(self, reference: Reference, progress: Progress) -> VoiceFeatures:
        progress("measuring")
        return features(len(reference.wav_16k) // 640)


def features(count: int) -> VoiceFeatures:
    draw = np.random.default_rng(count)
    return trimmed(
        draw.integers(0, 6561, count).astype(np.int32),
        draw.standard_normal((2 * count + 1, 80)).astype(np.float32),
        draw.standard_normal(192).astype(np.float32),
    )


def info(name: str, kind: Kind = "cosyvoice2") -> VoiceInfo:
    return VoiceInfo(
        name=name, kind=kind, text=TEXT, language="zh", created="2026-01-01", duration_s=3.0
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "voices"


@pytest.fixture
def store(root: Path) -> VoiceStore:
    return VoiceStore(root)


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    lines: list[str] = []
    handler = logger.add(lambda line: lines.append(str(line)), level="WARNING", format="{message}")
    yield lines
    logger.remove(handler)


def register(store: VoiceStore, name: str = "小美", **options: str) -> VoiceInfo:
    return store.register(name, file_of(buzz(3.0)), TEXT, extractor=Measure(), **options)


# --- the life of a voice ----------------------------------------------------------------------


def test_register_restart_list_remove(store: VoiceStore, root: Path) -> None:
    assert store.infos() == ()
    stages: list[str] = []
    made = store.register(
        "小美",
        file_of(buzz(3.0)),
        "**今天**气温25℃。",
        extractor=Measure(),
        consent="  her own, by e-mail ",
        progress=stages.append,
    )
    assert made.text == "今天气温25摄氏度。"
    assert (made.language, made.kind, made.duration_s) == ("zh", "cosyvoice2", 3.0)
    assert made.consent == "her own, by e-mail"
    assert made.created.endswith("+00:00")
    assert stages == ["checking the recording", "measuring"]
    register(store, "Tom-2", language="yue")
    again = VoiceStore(root)
    assert [each.name for each in again.infos()] == ["Tom-2", "小美"]
    voice = again.read("小美")
    assert voice.info == made
    expected = features(80)
    for name in ("llm_tokens", "flow_tokens", "mel", "embedding"):
        stored = getattr(voice.features, name)
        assert stored.dtype == getattr(expected, name).dtype
        assert np.array_equal(stored, getattr(expected, name))
    assert again.read("Tom-2").info.language == "yue"
    store.remove("小美")
    assert [each.name for each in again.infos()] == ["Tom-2"]
    with pytest.raises(UnknownVoice, match="Tom-2"):
        again.read("小美")
    with pytest.raises(UnknownVoice):
        again.remove("小美")
    store.remove("Tom-2")
    with pytest.raises(UnknownVoice, match=r"run\.py voices register"):
        again.read("小美")
    assert [path.name for path in root.iterdir()] == [".lock"]


def test_only_what_has_changed_is_read_again(
    store: VoiceStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        store.add(info(name), features(75))
    store.infos()
    reads: list[str] = []
    plain = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: reads.append(path.stem) or plain(path))
    folder, voice = store.stamp(), store.stamp("a")
    assert [each.name for each in store.infos()] == ["a", "b"]
    assert reads == []
    assert (store.stamp(), store.stamp("a")) == (folder, voice)
    other = VoiceStore(root)
    other.remove("a")
    assert store.stamp("a") is None
    other.add(info("a", "cosyvoice3"), features(90))
    assert store.stamp("a") not in (None, voice)
    assert [each.kind for each in store.infos()] == ["cosyvoice3", "cosyvoice2"]
    assert reads == ["a", "a"]
    other.remove("b")
    assert [each.name for each in store.infos()] == ["a"]
    assert store.stamp("../a") is None


def test_the_first_that_was_registered_comes_first() -> None:
    made = [
        info("b").model_copy(update={"created": created, "name": name})
        for name, created in (("z", "2026-01-01"), ("b", "2026-01-02"), ("a", "2026-01-02"))
    ]
    assert [each.name for each in by_age(reversed(made))] == ["z", "a", "b"]


def test_only_their_owner_reads_them(store: VoiceStore, root: Path) -> None:
    register(store, "a")
    assert {path.stat().st_mode & 0o777 for path in root.glob("a.*")} == {0o600}


def test_a_name_is_taken_once(store: VoiceStore) -> None:
    register(store, "a")
    with pytest.raises(BadRequest, match="already") as caught:
        register(store, "a")
    assert "run.py voices remove a" in caught.value.mend
    with pytest.raises(BadRequest, match="already"):  # also one that came in between
        store.add(info("a"), features(75))


@pytest.mark.parametrize(
    "name",
    ["", "a b", "../a", "a/b", "/a", ".a", "-a", "a.b", "a\0", "名字！", "a" * 65, "é", "a\n"],
)
def test_names_that_are_none(store: VoiceStore, root: Path, name: str) -> None:
    with pytest.raises(BadRequest, match="name of a voice"):
        register(store, name)
    with pytest.raises(BadRequest, match="name of a voice"):
        store.add(info(name), features(75))
    for use in (store.read, store.remove):
        with pytest.raises(UnknownVoice):
            use(name)
    assert not root.exists()


@given(st.text(max_size=70))
def test_a_name_stays_in_its_folder(name: str) -> None:
    if is_name(name):
        assert Path(f"/x/{name}.json").parent == Path("/x")
        assert not name.startswith((".", "-"))
        assert len(os.fsencode(f".{name}.safetensors-12345678")) < 256


def test_longest_name(store: VoiceStore) -> None:
    register(store, "名" * 64)
    assert store.read("名" * 64).info.duration_s == 3.0


@pytest.mark.parametrize(
    "change, why",
    [
        ({"text": ""}, "text is missing"),
        ({"text": "！？😀"}, "text is missing"),
        ({"text": "好" * 601}, "601 characters"),
        ({"language": "fr"}, "no language 'fr'"),
        ({"consent": "x" * 501}, "consent"),
    ],
)
def test_what_cannot_be_registered(
    store: VoiceStore, root: Path, change: dict[str, str], why: str
) -> None:
    options = {"text": TEXT, **change}
    with pytest.raises(BadRequest, match=why):
        store.register("a", file_of(buzz(3.0)), extractor=Measure(), **options)
    assert not root.exists()


def test_the_recording_is_checked_before_it_is_measured(store: VoiceStore, root: Path) -> None:
    class Never(Measure):
        def features(self, reference: Reference, progress: Progress) -> VoiceFeatures:
            raise AssertionError("measured")

    with pytest.raises(BadAudio):
        store.register("a", b"noise", TEXT, extractor=Never())
    assert not root.exists()


# --- damage -----------------------------------------------------------------------------------


def no_json(json_: Path, other: Path) -> None:
    json_.write_text("{}")


def another_json(json_: Path, other: Path) -> None:
    record = json.loads(json_.read_text())
    record["voice"]["name"] = "b"
    json_.write_text(json.dumps(record))


def lost(json_: Path, other: Path) -> None:
    other.unlink()


def half(json_: Path, other: Path) -> None:
    other.write_bytes(other.read_bytes()[:100])


def unreadable(json_: Path, other: Path) -> None:
    json_.unlink()
    json_.mkdir()


@pytest.mark.parametrize("damage", [no_json, another_json, lost, half, unreadable])
def test_a_damaged_voice_is_left_out(
    store: VoiceStore,
    root: Path,
    warnings: list[str],
    damage: Callable[[Path, Path], None],
) -> None:
    register(store, "a")
    register(store, "c")
    damage(root / "a.json", root / "a.safetensors")
    for _ in range(2):
        assert [each.name for each in store.infos()] == ["c"]
    [warning] = warnings
    assert "'a' is left out" in warning
    assert "run.py voices remove a" in warning
    with pytest.raises(ModelCorrupt) as caught:
        store.read("a")
    assert "run.py voices remove a" in caught.value.mend
    assert store.read("c").info.name == "c"


def test_a_damaged_voice_can_be_removed_and_made_again(
    store: VoiceStore, root: Path, warnings: list[str]
) -> None:
    register(store, "a")
    (root / "a.json").unlink()  # as after a crash between the two files
    assert store.infos() == ()
    register(store, "a")
    half(root / "a.json", root / "a.safetensors")
    store.remove("a")
    register(store, "a")
    assert [each.name for each in store.infos()] == ["a"]
    assert warnings == []


def test_a_file_with_no_name_of_a_voice(store: VoiceStore, root: Path, warnings: list[str]) -> None:
    register(store, "a")
    (root / "my notes.json").write_text("{}")
    assert [each.name for each in store.infos()] == ["a"]
    assert "Take " in warnings[0]


def test_what_is_no_voice_inside(store: VoiceStore, root: Path) -> None:
    good = features(75)
    bad = VoiceFeatures(
        llm_tokens=good.llm_tokens,
        flow_tokens=good.flow_tokens,
        mel=good.mel[:-1],
        embedding=good.embedding,
    )
    store.add(info("a"), bad)
    with pytest.raises(ModelCorrupt, match="one length"):
        store.read("a")
    import hashlib

    (root / "a.safetensors").write_bytes(b"no tensors")
    record = json.loads((root / "a.json").read_text())
    record["features_sha256"] = hashlib.sha256(b"no tensors").hexdigest()
    (root / "a.json").write_text(json.dumps(record))
    with pytest.raises(ModelCorrupt, match="not one of a voice"):
        store.read("a")


def test_a_voice_of_another_model(store: VoiceStore, root: Path, warnings: list[str]) -> None:
    store.add(info("old"), features(75))
    store.add(info("new", "cosyvoice3"), features(75))
    assert [each.name for each in store.infos()] == ["new", "old"]
    strict = VoiceStore(root, kind="cosyvoice3")
    assert [each.name for each in strict.infos()] == ["new"]
    assert "measured for cosyvoice2, and the model is cosyvoice3" in warnings[0]
    with pytest.raises(ModelCorrupt, match="measured for cosyvoice2"):
        strict.read("old")


@pytest.mark.parametrize("file", ["a.safetensors", "a.json"])
def test_a_full_disk_leaves_no_voice(
    store: VoiceStore, root: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    replace = os.replace

    def full(source: str, target: Path) -> None:
        if Path(target).name == file:
            raise OSError(28, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", full)
        with pytest.raises(EngineFailed, match="No space left"):
            register(store, "a")
    assert store.infos() == ()
    assert not [path for path in root.iterdir() if path.name.startswith(".a")]
    register(store, "a")
    assert store.read("a").info.name == "a"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineFailed, match="cannot be changed"):
        register(VoiceStore(tmp_path / "file"))


def test_a_voice_that_vanishes_while_it_is_listed(
    store: VoiceStore, root: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    register(store, "a")
    register(store, "b")
    read = Path.read_bytes

    def vanishing(path: Path) -> bytes:
        if path == root / "a.json":
            path.unlink(missing_ok=True)
        return read(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", vanishing)
        assert [each.name for each in store.infos()] == ["b"]
    assert warnings == []


def test_a_voice_that_is_replaced_while_it_is_read(
    store: VoiceStore, root: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(info("a"), features(75))
    read = Path.read_bytes

    def replacing(path: Path) -> bytes:
        if path == root / "a.safetensors":
            patched.undo()
            VoiceStore(root).remove("a")
            VoiceStore(root).add(info("a", "cosyvoice3"), features(90))
        return read(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", replacing)
        voice = store.read("a")
    assert (voice.info.kind, len(voice.features.llm_tokens)) == ("cosyvoice3", 90)
    assert warnings == []


def test_readers_see_whole_voices_while_others_write(root: Path, warnings: list[str]) -> None:
    """One process registers and removes a name with ever other features, another one lists."""
    stop = threading.Event()

    def change() -> None:
        writer = VoiceStore(root)
        for round_ in range(60):
            writer.add(info("a"), features(50 + round_))
            writer.remove("a")
        stop.set()

    thread = threading.Thread(target=change)
    reader = VoiceStore(root)
    thread.start()
    while not stop.is_set():
        for each in reader.infos():
            assert each == info("a")
    thread.join()
    assert warnings == []


def test_without_safetensors(store: VoiceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add(info("a"), features(75))
    monkeypatch.setitem(__import__("sys").modules, "safetensors.numpy", None)
    assert [each.name for each in store.infos()] == ["a"]
    for use in (lambda: store.read("a"), lambda: register(store, "b")):
        with pytest.raises(EngineFailed, match="make engines"):
            use()
    store.remove("a")


# --- lengths and languages --------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 800), st.integers(-3, 3))
def test_the_flow_s_part_is_trimmed_in_whole_tokens(count: int, more: int) -> None:
    tokens = np.arange(count, dtype=np.int32)
    mel = np.repeat(np.arange(max(0, 2 * count + more)), 80).reshape(-1, 80).astype(np.float32)
    made = trimmed(tokens, mel, np.zeros(192, np.float32))
    whole = min(count, len(mel) // 2)
    assert np.array_equal(made.llm_tokens, tokens[:whole])
    cut = whole - len(made.flow_tokens)
    assert np.array_equal(made.flow_tokens, tokens[cut:whole])
    assert np.array_equal(made.mel[:, 0], np.arange(2 * cut, 2 * whole))
    assert made.mel.flags.c_contiguous
    assert 0 <= cut <= 19
    if whole >= 10:
        assert 10 <= -len(made.flow_tokens) % 25 <= 15
        assert cut == min(k for k in range(20) if 10 <= (k - whole) % 25 <= 15)
    else:
        assert cut == trim_prompt(whole) == 0


@pytest.mark.parametrize(
    "text, language",
    [
        ("你好", "zh"),
        ("Hello", "en"),
        ("こんにちは", "ja"),
        ("日本語です", "ja"),
        ("안녕", "ko"),
        ("OK 好", "zh"),
        ("", "en"),
    ],
)
def test_languages_by_script(text: str, language: str) -> None:
    assert language_of(text) == language
