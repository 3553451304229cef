"""Recordings are transcribed without a daemon, one that is bad stops no other, and the exit code
tells.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.commands import weights
from pipeline.config import load_config
from pipeline.transcription import build_vad
from services.vad.energy import EnergyVad
from services.vad.silero import SileroVad
from tests.audio_api.recordings import container, sound, spoken
from tests.conftest import Speech
from tests.pipeline.conftest import Run

pytestmark = pytest.mark.usefixtures("plain_environment", "own_log")

ROOT = Path(__file__).resolve().parents[3]
SCRIPTED = ("--engines", "scripted:instant")
SAID = "今天天气怎么样？"

Give = Callable[[str, bytes], str]


@pytest.fixture
def give(tmp_path: Path) -> Give:
    def write(name: str, data: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    return write


@pytest.fixture
def wav(give: Give) -> str:
    return give("talk.wav", sound(spoken(gaps=(2.0,))))


def test_a_text_goes_to_standard_output(run: Run, wav: str) -> None:
    code, out, err = run("transcribe", wav, *SCRIPTED)
    assert (code, out) == (0, f"{SAID}{SAID}\n")
    assert err.startswith(f"{wav}: 5.0 s of audio in ")


@pytest.mark.parametrize("form", ["json", "verbose_json"])
def test_json_is_an_object_a_line(run: Run, wav: str, give: Give, form: str) -> None:
    video = give("film.mkv", container(spoken(rate=48_000), form="matroska", video=True))
    code, out, _ = run("transcribe", wav, video, "--format", form, *SCRIPTED)
    first, second = map(json.loads, out.splitlines())
    assert code == 0
    assert (first["text"], second["text"]) == (SAID * 2, SAID)
    assert ("segments" in first and "words" in first) == (form == "verbose_json")


@pytest.mark.parametrize("form", ["srt", "vtt"])
def test_subtitles(run: Run, wav: str, form: str) -> None:
    code, out, _ = run("transcribe", wav, "-f", form, *SCRIPTED)
    assert code == 0
    assert out.count(" --> ") == 2
    assert out.startswith("1\n00:00:00,192" if form == "srt" else "WEBVTT\n\n00:00:00.192")


def test_texts_of_several_stand_under_their_names(run: Run, wav: str, give: Give) -> None:
    other = give("b.wav", sound(spoken()))
    code, out, _ = run("transcribe", wav, other, *SCRIPTED)
    assert code == 0
    assert out == f"==> {wav} <==\n{SAID}{SAID}\n==> {other} <==\n{SAID}\n"


def test_files_are_written_and_a_bad_one_stops_no_other(
    run: Run, wav: str, give: Give, tmp_path: Path
) -> None:
    bad, missing = give("bad.wav", b"a text"), str(tmp_path / "none.wav")
    other = give("b.flac", sound(spoken(), form="FLAC"))
    folder = tmp_path / "made" / "texts"
    code, out, err = run(
        *("transcribe", bad, wav, missing, str(tmp_path), other),
        *("-f", "srt", "--output", str(folder), *SCRIPTED),
    )
    assert (code, out) == (1, "")
    assert sorted(path.name for path in folder.iterdir()) == ["b.srt", "talk.srt"]
    assert SAID in (folder / "talk.srt").read_text(encoding="utf-8")
    flat = " ".join(err.split())
    assert f"error: {bad}: The file cannot be read as audio fix: Send" in flat
    assert f"error: {missing}: No such file or directory" in flat
    assert f"error: {tmp_path}: Is a directory" in flat


def test_a_text_that_cannot_be_written_is_told(run: Run, wav: str, tmp_path: Path) -> None:
    (tmp_path / "talk.txt").mkdir()
    code, _, err = run("transcribe", wav, "--output", str(tmp_path), *SCRIPTED)
    assert code == 1
    assert "Is a directory" in err


@pytest.mark.parametrize(
    "args, why",
    [
        (["a.wav", "b.wav", "-f", "srt"], "Add --output DIR"),
        (["a.wav", "x/a.mp3", "--output", "{tmp}"], "written twice"),
        (["a.wav", "--output", "{tmp}/file"], "cannot be made"),
        (["-", "-"], "once only"),
        (["a.wav", "--language", "fr"], "Choose one of zh, en"),
        (["a.wav", "-f", "mp3"], "'mp3' is not one of"),
        ([], "Missing argument"),
        (["a.wav", "--set", "asr.nothing=1"], "asr.nothing"),
    ],
)
def test_wrong_usage(run: Run, tmp_path: Path, args: list[str], why: str) -> None:
    (tmp_path / "file").touch()
    given = [arg.replace("{tmp}", str(tmp_path)) for arg in args]
    code, out, err = run("transcribe", *given, *SCRIPTED)
    assert (code, out) == (2, "")
    assert why in " ".join(err.split())


def test_languages_and_hotwords_reach_the_recogniser(
    run: Run, wav: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline import recognition
    from services.asr.base import AsrEngine
    from tests.audio_api.hearing import ValveAsr

    asr = ValveAsr()

    def build(*_: object, **__: object) -> AsrEngine:
        return asr

    async def start() -> None:
        asr.give("a", "b")

    monkeypatch.setattr(recognition, "build_asr", build)
    monkeypatch.setattr(asr, "start", start)
    code, out, _ = run(
        *("transcribe", wav, "--language", "en", "--hotwords", "Kokoro, 你好", *SCRIPTED)
    )
    assert (code, out) == (0, "a b\n")
    assert (asr.languages, asr.hints) == ([("en",)], [("Kokoro", "你好")])


def test_standard_input_may_be_a_file_or_a_pipe(wav: str) -> None:
    command = [sys.executable, str(ROOT / "run.py"), "transcribe", "-", *SCRIPTED]
    with open(wav, "rb") as file:
        plain = subprocess.run(command, stdin=file, capture_output=True, timeout=100)
    piped = subprocess.run(command, input=Path(wav).read_bytes(), capture_output=True, timeout=100)
    for done in (plain, piped):
        assert (done.returncode, done.stdout.decode()) == (0, f"{SAID}{SAID}\n")
        assert done.stderr.decode().startswith("-: 5.0 s of audio in ")


def test_standard_input_that_is_closed_is_told() -> None:
    command = [sys.executable, str(ROOT / "run.py"), "transcribe", "-", *SCRIPTED]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, timeout=100
    )
    assert done.returncode == 2
    assert done.stderr.decode().startswith("error: Standard input is closed\n")


def test_a_named_pipe_is_read_to_its_end(run: Run, wav: str, tmp_path: Path) -> None:
    pipe, data = tmp_path / "pipe", Path(wav).read_bytes()
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(data), daemon=True)
    writer.start()
    code, out, _ = run("transcribe", str(pipe), *SCRIPTED)
    writer.join(20)
    assert (code, out) == (0, f"{SAID}{SAID}\n")


def test_a_model_that_is_missing_is_fetched_as_serve_does(
    run: Run, wav: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def fetch(_: object, names: tuple[str, ...]) -> None:
        asked.append(names)

    monkeypatch.setattr(weights, "fetch_missing", fetch)
    run("transcribe", wav, *SCRIPTED)
    options = ("--set", "models.dir=/nowhere", "--set", "models.offline=true")
    code, _, err = run("transcribe", wav, *options)
    assert (code, "whisper-base" in err) == (1, True)
    code, *_ = run("transcribe", wav, "--asr", "funasr", *options)
    assert code == 1
    assert asked == [(), ("whisper-base",), ("sensevoice-small",)]


def test_the_detector_is_the_configured_one() -> None:
    assert isinstance(build_vad(load_config(None, environ={})), SileroVad)
    energy = load_config(None, ["vad.provider=energy"], environ={})
    assert isinstance(build_vad(energy), EnergyVad)


@pytest.mark.models
@pytest.mark.timeout(600)
def test_real_words(run: Run, speech: Speech, give: Give) -> None:
    said = speech("Please open the window, it is very warm in here.")
    code, out, _ = run("transcribe", give("warm.ogg", sound(said, form="OGG", subtype="VORBIS")))
    assert code == 0
    assert "open the window" in out.lower()
