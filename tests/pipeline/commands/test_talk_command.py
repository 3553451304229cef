"""`run.py talk` prints what fits the terminal, or exactly one JSON object, whatever happens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from loguru import logger

from pipeline.commands import talk as command
from pipeline.config import Config
from pipeline.talk import daemon as daemons
from pipeline.talk.daemon import own_daemon
from pipeline.talk.endpoint import Endpoint
from services.models import ModelState
from services.scripted.speech import synthetic_speech
from services.scripted.tts import ScriptedVoice
from tests.pipeline.conftest import Run
from tests.talk.served import SCRIPTED

pytestmark = pytest.mark.usefixtures("plain_environment", "own_log")

SETS = ["--set", "scripted.transcripts=[你好吗？]", "--set", "scripted.replies=[好的。]"]


@pytest.fixture(scope="module")
def running() -> Iterator[str]:
    """host:port of a daemon."""
    with own_daemon(["--engines", SCRIPTED, *SETS]) as address:
        yield address


@pytest.fixture
def wav(tmp_path: Path) -> str:
    path = tmp_path / "in.wav"
    soundfile.write(path, synthetic_speech(seconds=0.7), 16_000)
    return str(path)


def one_object(out: str) -> dict[str, Any]:
    assert out.count("\n") == 1
    value = json.loads(out)
    assert isinstance(value, dict)
    return value


# --- a talk ----------------------------------------------------------------------------------


def test_json_is_one_object_with_a_summary(
    run: Run, running: str, wav: str, tmp_path: Path
) -> None:
    heard = tmp_path / "out.wav"
    code, out, err = run("talk", "--url", running, "--wav", wav, "--json", "--out", str(heard))
    assert (code, err) == (0, "")
    value = one_object(out)
    assert (value["transcript"], value["answer"]) == ("你好吗？", "好的。")
    [turn] = value["turns"]
    summary = value["summary"]
    assert summary["turns"] == 1
    assert summary["v2v_ms"] == dict.fromkeys(("p50", "p95", "max"), turn["v2v_ms"])
    assert summary["underruns"] == 0
    assert summary["parts_p50_ms"] == turn["parts_ms"]
    assert soundfile.info(heard).channels == 2


def test_a_talk_in_80_columns(
    run: Run, running: str, wav: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    options = ["--wav", wav, "--wav", wav, "--out", str(tmp_path / "[x].wav")]
    code, out, err = run("talk", "--url", f"ws://{running}/v1/realtime", *options)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines.count("you     你好吗？") == lines.count("duplexd 好的。") == 2
    bars = [line for line in lines if "language model" in line]
    assert len(bars) == 2
    assert max(map(len, bars)) <= 80
    assert any(line.split()[:2] == ["turns", "2"] for line in lines)
    assert "".join(out.split()).endswith("[x].wav:leftsent,rightheard")


def test_a_daemon_of_its_own(run: Run, wav: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    @contextmanager
    def started(arguments: list[str], *, key: str, log: Path | None) -> Iterator[str]:
        assert key.startswith("dx-")
        asked.append(arguments)
        raise AssertionError("enough was seen")
        yield ""

    monkeypatch.setattr(daemons, "own_daemon", started)
    monkeypatch.setattr(daemons, "state_of", lambda _: "ready")
    for options in (["--own"], ["--set", "tts.speed=1.1"], ["--tts", "scripted"]):
        with pytest.raises(AssertionError, match="enough"):
            command_line(run, "--wav", wav, *options)
    assert asked == [
        [],
        ["--set", "tts.speed=1.1"],
        ["--set", "tts.provider=scripted"],
    ]


def command_line(run: Run, *options: str) -> tuple[int, str, str]:
    return run("talk", *options)


@pytest.mark.parametrize("states", [["ready"], ["warming", "warming", "ready"]])
def test_a_running_daemon_is_used(
    run: Run, running: str, wav: str, states: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(states)
    monkeypatch.setattr(daemons, "state_of", lambda _: next(left))
    monkeypatch.setattr(daemons, "address_of", lambda *_: running)
    monkeypatch.setattr(daemons, "_ASK_EVERY_S", 0)
    code, out, err = run("talk", "--wav", wav)
    assert code == 0
    assert "duplexd 好的。" in out
    assert err == ("waiting for the daemon to warm up\n" if "warming" in states else "")


def test_without_a_daemon_one_is_started(
    run: Run, wav: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def started(arguments: list[str], *, key: str, log: Path | None) -> Iterator[str]:
        raise AssertionError(f"started with {arguments}")
        yield ""

    monkeypatch.setattr(daemons, "own_daemon", started)
    monkeypatch.setattr(daemons, "state_of", lambda _: "none")
    with pytest.raises(AssertionError, match=r"started with \[\]"):
        run("talk", "--wav", wav)


# --- keys and certificates -------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where keys and certificates are kept."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("DUPLEXD_API_KEY", raising=False)
    return tmp_path / "duplexd"


@pytest.fixture
def locked(data: Path) -> Iterator[str]:
    """host:port of a daemon that wants KEY."""
    options = ["--set", "server.require_key=true", "--engines", SCRIPTED, *SETS]
    with own_daemon(options, key=KEY) as address:
        yield address


KEY = "dx-0123456789abcdef"
WRONG = "dx-fedcba9876543210"


def test_the_key_is_an_option_or_a_variable(
    run: Run, locked: str, wav: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["talk", "--url", locked, "--wav", wav]
    assert run(*options, "--key", KEY)[0] == 0
    code, out, err = run(*options, "--json")
    assert code == 1
    assert "wants an API key" in one_object(out)["error"]["message"]
    assert "fix:   Give one with --key or in DUPLEXD_API_KEY" in err
    monkeypatch.setenv("DUPLEXD_API_KEY", WRONG)
    code, out, err = run(*options, "--json")
    assert code == 1
    assert "does not know this API key" in err
    assert WRONG not in out + err
    monkeypatch.setenv("DUPLEXD_API_KEY", KEY)
    assert run(*options)[0] == 0


def at(monkeypatch: pytest.MonkeyPatch, states: dict[Endpoint, str]) -> list[Endpoint]:
    """Lets daemons be in these states, and gives back who is talked to, and is not."""
    talked: list[Endpoint] = []

    def converse(daemon: Endpoint, *_: object, **__: object) -> list[dict[str, Any]]:
        talked.append(daemon)
        return []

    @contextmanager
    def own(*_: object, **__: object) -> Iterator[str]:
        yield "own:1"

    monkeypatch.setattr(daemons, "state_of", lambda daemon: states[daemon])
    monkeypatch.setattr(daemons, "own_daemon", own)
    monkeypatch.setattr(command, "_converse", converse)
    return talked


@pytest.mark.usefixtures("data")
def test_a_running_daemon_that_wants_a_key_is_not_replaced(
    run: Run, wav: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Endpoint.of("127.0.0.1:8080", key=KEY)
    talked = at(monkeypatch, {plain: "locked"})
    run("talk", "--wav", wav, "--key", KEY)
    assert talked == [plain]


@pytest.mark.parametrize(("state", "used"), [("ready", True), ("none", False)])
def test_a_running_daemon_that_was_started_with_tls(
    run: Run, wav: str, data: Path, state: str, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Endpoint.of("127.0.0.1:8080")
    secure = Endpoint.of("127.0.0.1:8080", cacert=data / "tls" / "duplexd-ca.crt")
    talked = at(monkeypatch, {plain: "alien", secure: state})
    run("talk", "--wav", wav)
    assert talked[0] == secure if used else talked[0].url.startswith("ws://own:1")


@pytest.mark.parametrize(
    ("tls", "options"), [("auto", []), ("auto", ["--cacert", "c"]), ("c,k", [])]
)
def test_the_configured_daemon_has_tls(
    run: Run,
    wav: str,
    data: Path,
    tls: str,
    options: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Config().server.model_copy(update={"tls": tls})
    monkeypatch.setattr(
        command, "configured", lambda *_, **__: Config().model_copy(update={"server": server})
    )
    cacert = data / "tls" / "duplexd-ca.crt" if tls == "auto" else None
    cacert = Path("c") if options else cacert
    daemon = Endpoint.of("https://127.0.0.1:8080", cacert=cacert)
    talked = at(monkeypatch, {daemon: "ready"})
    run("talk", "--wav", wav, *options)
    assert talked == [daemon]


# --- texts -----------------------------------------------------------------------------------


class Shelf:
    """A store whose voice is there."""

    def status(self, name: str) -> ModelState:
        return ModelState.PRESENT

    def path(self, name: str) -> Path:
        return Path("/models") / name


def test_texts_are_said_in_the_embedded_voice(
    run: Run, running: str, wav: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ScriptedVoice] = []

    def build(*, model_dir: Path, threads: int) -> ScriptedVoice:
        logger.info("hello")
        logger.warning("look out")
        assert (model_dir, threads >= 1) == (Path("/models/kokoro"), True)
        made.append(ScriptedVoice())
        return made[-1]

    monkeypatch.setattr("tts_engine.kokoro.engine.KokoroEngine", build)
    monkeypatch.setattr("pipeline.store.open_store", lambda _: Shelf())
    questions = tmp_path / "q.txt"
    questions.write_text("# one\n你在哪里？\n", encoding="utf-8")
    texts = ["--say", "早上好。", "--say-file", str(questions), "--say-voice", "two"]
    code, out, err = run("talk", "--url", running, "--wav", wav, *texts, "--json")
    assert (code, err) == (0, "WARNING: look out\n")
    assert [(said.text, said.voice) for said in made[0].spoken] == [
        ("早上好。", "two"),
        ("你在哪里？", "two"),
    ]
    assert len(one_object(out)["turns"]) == 3
    code, out, err = run("talk", "--url", running, "--say", "好", "--say-voice", "two")
    assert (code, err.splitlines()[0]) == (0, "loading the voice that says it")
    assert "loading" not in out
    code, out, err = run("talk", "--url", running, "--say", "好", "--say-voice", "x", "--json")
    assert code == 2
    assert one_object(out)["error"]["code"] == "bad_request"
    assert "no voice 'x'" in err


# --- failures --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "give --wav FILE"),
        (["--say", "x", "--own", "--url", "h:1"], "not both"),
        (["--say", "x", "--own", "--cacert", "c.pem"], "not both"),
    ],
)
def test_wrong_usage(run: Run, options: list[str], said: str) -> None:
    code, _, err = run("talk", "--json", *options)
    assert code == 2
    assert said in err


@pytest.mark.parametrize(
    ("options", "code", "error", "message"),
    [
        (["--wav", "gone.wav"], 1, "bad_audio", "Cannot read gone.wav: No such file"),
        (["--say-file", "gone.txt"], 2, "bad_request", "Cannot read gone.txt"),
        (["--wav", "x.wav", "--out", "talk"], 2, "bad_request", "unknown format"),
        (["--wav", "x.wav", "--engines", "scripted:x=1"], 2, "config", "names no engine"),
        (["--wav", "x.wav", "--set", "tts.sped=1"], 2, "config", "tts.speed"),
        (["--wav", "{wav}", "--url", "ftp://h"], 2, "bad_request", "HOST:PORT"),
        (["--wav", "{wav}", "--key", "密"], 2, "bad_request", "no key has"),
        (["--wav", "{wav}", "--cacert", "gone.pem"], 2, "bad_request", "gone.pem: No such file"),
    ],
)
def test_failures_are_one_object_too(
    run: Run, wav: str, options: list[str], code: int, error: str, message: str
) -> None:
    ended, out, err = run("talk", "--json", *(each.format(wav=wav) for each in options))
    assert ended == code
    details = one_object(out)["error"]
    assert details["code"] == error
    assert message in details["message"] + details["mend"]
    assert err.startswith("error: ")


def test_no_daemon_at_the_address(run: Run, wav: str, unused_tcp_port: int, tmp_path: Path) -> None:
    address = f"127.0.0.1:{unused_tcp_port}"
    out_file = tmp_path / "out.wav"
    options = ["--url", address, "--wav", wav, "--out", str(out_file)]
    code, out, err = run("talk", *options, "--json")
    assert code == 1
    assert one_object(out)["error"]["code"] == "engine_failed"
    assert f"No daemon can be reached at ws://{address}/v1/realtime" in err
    assert not out_file.exists()
    code, out, err = run("talk", *options)
    assert (code, out) == (1, "")
    assert "fix:   Start one with `run.py serve`" in err


def test_a_fault_of_ours_is_one_object_and_a_traceback(
    run: Run, wav: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(command, "_converse", fail)
    with pytest.raises(ZeroDivisionError):
        run("talk", "--json", "--wav", wav, "--url", "h:1")
    details = one_object(capsys.readouterr().out)["error"]
    assert details == {"code": "internal", "message": "ZeroDivisionError('oops')", "mend": ""}


def rows(*more: dict[str, Any]) -> list[dict[str, Any]]:
    row = {
        "utterance": 0, "transcript": "", "answer": "", "status": "", "error": None,
        "v2v_ms": None, "parts_ms": {}, "work_ms": {}, "underruns": 0, "audio_s": 0.0,
    }  # fmt: skip
    return [row | each for each in more]


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        (rows(), ["The daemon heard nothing."]),
        (rows({}), ["you     (nothing)", "duplexd (nothing)"]),
        (rows({"audio_s": 1.2}), ["duplexd (a voice, but no text came)"]),
        (
            rows({"transcript": "你好", "status": "failed", "error": "no [brain]"}),
            ["you     你好", "error   no [brain]"],
        ),
        (
            rows({"answer": "[好", "status": "cancelled"}, {"status": "failed"}),
            ["duplexd [好 (interrupted)", "v2v p50     -"],
        ),
    ],
)
@pytest.mark.parametrize("as_json", [True, False])
def test_an_utterance_without_an_answer_fails(
    run: Run,
    wav: str,
    turns: list[dict[str, Any]],
    said: list[str],
    as_json: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "_converse", lambda *_, **__: turns)
    options = ["--json"] if as_json else []
    code, out, err = run("talk", "--wav", wav, "--url", "h:1", *options)
    assert (code, err) == (1, "")
    if as_json:
        assert one_object(out)["turns"] == turns
    if not as_json:
        assert out.splitlines()[-1].strip()
    for line in said if not as_json else []:
        assert any(line == shown.rstrip() for shown in out.splitlines())


def test_what_there_is_of_a_failed_talk_is_recorded(
    run: Run, wav: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.talk.client import TalkClient
    from tts_engine.errors import EngineFailed

    async def die(self: TalkClient, *_: object, **__: object) -> None:
        self.recording.sent.append(np.ones(480, np.int16))
        raise EngineFailed("gone")

    monkeypatch.setattr(TalkClient, "talk", die)
    out_file = tmp_path / "out.wav"
    code, _, err = run("talk", "--wav", wav, "--url", "h:1", "--out", str(out_file))
    assert (code, err) == (1, "error: gone\n")
    assert soundfile.info(out_file).frames == 480
