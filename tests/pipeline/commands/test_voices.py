"""Voices are registered, listed, removed and moved without an engine, and say things with any."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from services.scripted.tts import VOICES, ScriptedVoice
from tests.cosyvoice.conftest import home as home
from tests.cosyvoice.conftest import model_dir as model_dir
from tests.cosyvoice.recordings import buzz, file_of, write_networks
from tests.pipeline.conftest import Run
from tts_engine.cosyvoice.voices import VoiceStore
from tts_engine.errors import EngineFailed

pytestmark = pytest.mark.usefixtures("plain_environment", "own_log")

INSTANT = ("--engines", "scripted:tts=0")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "voices"


@pytest.fixture
def kept(folder: Path, tmp_path: Path) -> tuple[str, ...]:
    """Options that name the folder, and a model of which there is what registering needs."""
    (tmp_path / "model").mkdir()
    return options(folder, write_networks(tmp_path / "model"))


def options(folder: Path, model: Path) -> tuple[str, ...]:
    voices = f"tts.cosyvoice.voices_dir={folder}"
    return "--set", voices, "--set", f"tts.cosyvoice.model_dir={model}"


@pytest.fixture
def recording(tmp_path: Path) -> str:
    path = tmp_path / "amy.wav"
    path.write_bytes(file_of(buzz(3.0)))
    return str(path)


def register(run: Run, kept: tuple[str, ...], recording: str, name: str) -> tuple[int, str, str]:
    return run("voices", "register", name, recording, "--text", "What she says.", *kept)


# --- registered voices ------------------------------------------------------------------------


def test_register_list_remove(
    run: Run, kept: tuple[str, ...], recording: str, folder: Path
) -> None:
    code, out, err = run(
        *("voices", "register", "小美", recording, "--text", "今天天气很好。"),
        *("--consent", "by e-mail", *kept),
    )
    assert code == 0
    assert "registered 小美: 3.0 s of zh" in out
    assert "checking the recording" in err
    assert "has it from now on" in err
    code, out, _ = run("voices", "list", *kept)
    assert code == 0
    for shown in ("小美", "cosyvoice2", "3.0", "今天天气很好。", "zf_xiaobei", "kokoro"):
        assert shown in out
    assert str(folder) in "".join(out.split("\n"))
    assert run("voices", "remove", "小美", *kept) == (0, "removed 小美\n", "")
    assert VoiceStore(folder).infos() == ()


def test_for_programs(run: Run, kept: tuple[str, ...], recording: str, folder: Path) -> None:
    code, out, _ = run(
        *("voices", "register", "amy", recording, "--text", "Hello."),
        *("--language", "en", "--json", *kept),
    )
    made = json.loads(out)
    assert (code, made["name"], made["language"], made["kind"]) == (0, "amy", "en", "cosyvoice2")
    rows: list[dict[str, Any]] = json.loads(run("voices", "list", "--json", *kept)[1])
    assert [row["name"] for row in rows] == ["zf_xiaobei", "zf_xiaoxiao", "amy"]
    assert rows[-1] == {key: value for key, value in made.items() if key != "sha256"}
    cloned = json.loads(run("voices", "list", "--json", "--tts", "cosyvoice", *kept)[1])
    assert cloned == rows[-1:]


def test_a_damaged_voice_is_told_of(
    run: Run, kept: tuple[str, ...], recording: str, folder: Path
) -> None:
    register(run, kept, recording, "amy")
    (folder / "amy.safetensors").unlink()
    code, out, err = run("voices", "list", *kept)
    assert code == 0
    assert "What she says" not in out
    assert "run.py voices remove amy" in err


def test_what_cannot_be_registered(
    run: Run, kept: tuple[str, ...], recording: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = register(run, kept, str(tmp_path / "none.wav"), "amy")
    assert (code, "cannot be read" in err) == (2, True)
    code, _, err = register(run, kept, __file__, "amy")
    assert (code, "no sound file" in err) == (1, True)
    code, _, err = register(run, kept, recording, "../amy")
    assert (code, "letters, digits" in err) == (2, True)
    assert register(run, kept, recording, "amy")[0] == 0
    code, _, err = register(run, kept, recording, "amy")
    assert (code, "already" in err) == (2, True)
    nowhere = ("--set", f"tts.cosyvoice.model_dir={tmp_path}")
    code, _, err = register(run, (*kept, *nowhere), recording, "eve")
    assert (code, "no speech tokenizer" in err) == (1, True)
    monkeypatch.setattr("pipeline.commands.voices._MAX_FILE", 1000)
    code, _, err = register(run, kept, recording, "eve")
    assert (code, "larger than" in err) == (1, True)


def test_a_voice_that_there_is_not(run: Run, kept: tuple[str, ...]) -> None:
    code, _, err = run("voices", "remove", "nobody", *kept)
    assert code == 2
    assert "There is no voice 'nobody'" in err


def test_to_upstream_and_back(
    run: Run, recording: str, folder: Path, tmp_path: Path, model_dir: Path
) -> None:
    kept = options(folder, model_dir)
    register(run, kept, recording, "amy")
    file = str(tmp_path / "spk2info.pt")
    code, out, _ = run("voices", "export", file, *kept)
    assert (code, out) == (0, f"{file}: 1 voices\n")
    code, _, err = run("voices", "import", file, *kept)
    assert (code, "left out amy: There is a voice 'amy' already" in err) == (1, True)
    before = VoiceStore(folder).read("amy")
    run("voices", "remove", "amy", *kept)
    code, out, err = run("voices", "import", file, *kept)
    assert (code, out, err) == (0, "imported amy\n", "")
    after = VoiceStore(folder).read("amy")
    assert after.info.text == before.info.text
    assert np.array_equal(after.features.mel, before.features.mel)


def test_without_torch(
    run: Run, kept: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "tts_engine.cosyvoice.spk2info", raising=False)
    monkeypatch.delattr("tts_engine.cosyvoice.spk2info", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    code, _, err = run("voices", "export", str(tmp_path / "x.pt"), *kept)
    assert code == 1
    assert "torch, which is not installed" in err
    assert "make engines" in err


# --- saying something -------------------------------------------------------------------------


def test_say(run: Run, tmp_path: Path) -> None:
    out_file = tmp_path / "hello.wav"
    code, out, err = run(
        "voices", "say", "你好！**今天**怎么样？", "--out", str(out_file), *INSTANT
    )
    assert (code, err) == (0, "")
    assert f"s of {VOICES[0]}, first audio after" in " ".join(out.split())
    samples, rate = soundfile.read(out_file, dtype="int16")
    assert rate == ScriptedVoice.sample_rate
    assert np.abs(samples).max() > 1000


def test_say_for_programs_in_a_voice(run: Run, tmp_path: Path) -> None:
    lengths = []
    for speed in ("1", "2"):
        file = tmp_path / "x.wav"
        code, out, _ = run(
            *("voices", "say", "你好。", "--out", str(file), "--voice", "two"),
            *("--speed", speed, "--json", *INSTANT),
        )
        said = json.loads(out)
        assert (code, said["voice"], said["file"]) == (0, "two", str(file))
        assert said["seconds"] == pytest.approx(soundfile.info(file).duration, abs=1e-3)
        assert said["first_audio_ms"] >= 0
        lengths.append(said["seconds"])
    assert lengths[0] == pytest.approx(2 * lengths[1], rel=0.1)


def test_styles_reach_the_engine(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, float]] = []
    synthesize = ScriptedVoice.synthesize

    def listening(self: ScriptedVoice, text: str, **options: Any) -> Any:
        asked.append((text, options["style"], options["speed"]))
        return synthesize(self, text, **options)

    monkeypatch.setattr(ScriptedVoice, "synthesize", listening)
    run(
        *("voices", "say", "你好，小明。[开心]真好！", "--style", "慢慢说", "--out"),
        *(str(tmp_path / "x.wav"), *INSTANT, "--set", "tts.speed=1.5"),
    )
    assert [style for _, style, _ in asked][-1] == "开心"
    assert asked[0][1:] == ("慢慢说", 1.5)


@pytest.mark.parametrize(
    "text, given, code, why",
    [
        ("", (), 2, "nothing to say"),
        ("😀", (), 2, "nothing to say"),
        ("你好", ("--voice", "nobody"), 2, "There is no voice 'nobody'"),
        ("你好", ("--speed", "3"), 2, "--speed"),
    ],
)
def test_what_cannot_be_said(
    run: Run, tmp_path: Path, text: str, given: tuple[str, ...], code: int, why: str
) -> None:
    out = tmp_path / "x.wav"
    ended, _, err = run("voices", "say", text, "--out", str(out), *given, *INSTANT)
    assert ended == code
    assert why in err
    assert not out.exists()


def test_an_engine_that_says_nothing_or_fails(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(self: ScriptedVoice, text: str, **options: Any) -> Any:
        return
        yield

    monkeypatch.setattr(ScriptedVoice, "synthesize", nothing)
    code, _, err = run("voices", "say", "你好", "--out", str(tmp_path / "x.wav"), *INSTANT)
    assert (code, "can be spoken" in err) == (2, True)

    async def failing(self: ScriptedVoice, text: str, **options: Any) -> Any:
        raise EngineFailed("The voice broke")
        yield

    monkeypatch.setattr(ScriptedVoice, "synthesize", failing)
    code, _, err = run("voices", "say", "你好", "--out", str(tmp_path / "x.wav"), *INSTANT)
    assert (code, "The voice broke" in err) == (1, True)


def test_a_file_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    code, _, err = run("voices", "say", "你好", "--out", str(tmp_path / "no" / "x.wav"), *INSTANT)
    assert (code, "cannot be written" in err) == (1, True)


@pytest.mark.models
def test_the_embedded_voice_says_something(run: Run, models_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.wav"
    code, _, _ = run("voices", "say", "你好。", "--voice", "zf_xiaoxiao", "--out", str(file))
    assert code == 0
    assert 0.3 < soundfile.info(file).duration < 3


@pytest.mark.parametrize("command", ["", "list", "register", "remove", "say", "import", "export"])
def test_help_has_an_example(run: Run, command: str) -> None:
    code, out, _ = run("voices", *filter(None, [command]), "--help")
    assert code == 0
    assert f"Example: run.py voices {command}" in " ".join(out.split())
