"""`run.py bench` says what it found: to people on the terminal, to programs as one object."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import soundfile
from rich.text import Text

from pipeline.bench import bargein, bargein_report, sessions, sessions_report, v2v
from pipeline.bench.analysis import Measured
from pipeline.bench.contest import Outcome
from pipeline.bench.v2v import FirstTurn, V2vPlan, V2vResult
from pipeline.commands import bench as command
from pipeline.commands.bench_options import bench_progress
from services.scripted.spec import parse_spec
from services.scripted.speech import synthetic_speech
from tests.pipeline.conftest import Run, own_log, plain_environment, run
from tts_engine.errors import EngineFailed

__all__ = ["own_log", "plain_environment", "run"]  # fixtures
pytestmark = pytest.mark.usefixtures("plain_environment", "own_log")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    clips = tmp_path / "clips"
    clips.mkdir()
    for name in ("a", "b"):
        soundfile.write(clips / f"{name}.wav", synthetic_speech(seconds=0.7), 16_000)
        (clips / f"{name}.txt").write_text("打开灯", encoding="utf-8")
    return str(clips)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[V2vPlan]:
    """What was to be run; nothing is."""
    kept: list[V2vPlan] = []

    def pretend(plan: V2vPlan, *, on_progress: Any) -> V2vResult:
        kept.append(plan)
        on_progress(0.5, "half of it")
        turn = Measured(clip="a", kind="real", v2v_ms=500.0, cutoff=False)
        own = Outcome(turns=[turn], client_late_ms=[0.1])
        return V2vResult(plan=plan, own=own, first=FirstTurn.of(turn, [turn]))

    monkeypatch.setattr(v2v, "run_v2v", pretend)
    return kept


def test_one_object_for_programs(run: Run, plans: list[V2vPlan], folder: str) -> None:
    code, out, err = run("bench", "v2v", "--speech", folder, "--json")
    assert code == 0, err
    assert out.count("\n") == 1
    assert err == ""
    found = json.loads(out)
    assert found["v2v"] == {"p50": 500, "p90": 500, "p95": 500, "p99": 500, "max": 500}
    for key in ("false_cutoff_rate", "missed_rate", "peer", "ratio_p50", "date", "machine"):
        assert key in found
    for key in ("commit_to_byte_ms", "framework_ms", "bound_excess_ms"):
        assert found[key]["p50"] is None
    [plan] = plans
    assert plan.spec == parse_spec(v2v.ENGINES)
    assert plan.options == (
        "--set",
        'scripted.spec="asr=60,llm=150@50,tts=150"',
        *("--set", "asr.provider=scripted", "--set", "llm.provider=scripted"),
        *("--set", "tts.provider=scripted", "--set", "vad.provider=energy"),
    )


def test_every_option_reaches_the_plan(
    run: Run, plans: list[V2vPlan], folder: str, tmp_path: Path
) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("turns: {floor_ms: 300}")
    options = ["--turns", "1", "--repeat", "3", "--no-speculation", "--peer", "pipecat", "--sweep"]
    options += ["--snr", "10", "--asr-errors", "0.1", "--timeout-s", "4", "--frame-ms", "60"]
    options += ["--engines", "none", "--config", str(file), "--set", "turns.ceiling_ms=900"]
    options += ["--report", str(tmp_path / "page"), "--log", str(tmp_path / "log")]
    code, out, err = run("bench", "v2v", "--speech", folder, *options)
    assert code == 0, err
    [plan] = plans
    assert (plan.spec, plan.repeat, plan.speculation) == (None, 3, False)
    assert (plan.peer, plan.sweep, plan.log) == (True, True, tmp_path / "log")
    assert (plan.rules.timeout_s, plan.rules.frame_ms) == (4.0, 60)
    assert plan.rules.room is not None
    assert [clip.name for clip in plan.clips] == ["a.wav"]
    assert plan.options == (
        *("--config", str(file), "--set", "turns.ceiling_ms=900"),
        *("--set", "scripted.asr_errors=0.1"),
    )
    assert "50%  half of it" in err
    assert "duplexd" in out
    assert str(tmp_path / "page" / "v2v.html") in out.replace("\n", "")
    assert (tmp_path / "page" / "v2v.html").exists()


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with bench_progress(quiet=False) as tell:
        tell(0.25, "a quarter")
    assert "25 %" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        (["v2v", "--engines", "scripted:asr=x"], 2, "is not name=milliseconds"),
        (["v2v", "--speech", "/nowhere"], 2, "Cannot read /nowhere"),
        (["v2v", "--peer", "other"], 2, "pipecat"),
        (["sessions", "--counts", "1,x"], 2, "no list of numbers"),
        (["sessions", "--counts", "0"], 2, "no list of numbers"),
        (["bargein", "--engines", "none"], 2, "scripted:"),
    ],
)
def test_what_cannot_be_meant(run: Run, options: list[str], code: int, why: str) -> None:
    found, _, err = run("bench", *options)
    assert found == code
    assert why in err


def test_a_failure_is_an_object_too(run: Run, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise EngineFailed("the daemon is gone", mend="Look into its log")

    monkeypatch.setattr(v2v, "run_v2v", fail)
    code, out, err = run("bench", "v2v", "--speech", folder, "--json")
    assert code == 1
    assert json.loads(out)["error"]["message"] == "the daemon is gone"
    assert "Look into its log" in err


def test_ctrl_c_leaves_nothing_behind(folder: str) -> None:
    run_py = Path(command.__file__).parents[2] / "run.py"
    with subprocess.Popen(
        [sys.executable, str(run_py), "bench", "v2v", "--speech", folder],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        # where the tests run in the background of a shell it is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as bench:
        assert bench.stderr is not None
        for line in bench.stderr:
            if "starting the servers" in line:
                break
        while not (servers := psutil.Process(bench.pid).children()):
            time.sleep(0.05)
            assert bench.poll() is None
        os.killpg(bench.pid, signal.SIGINT)  # as a terminal does
        assert bench.wait(60) == 130
    assert not any(server.is_running() for server in servers)


class Found:
    """A result of another bench."""

    def to_json(self) -> dict[str, int]:
        return {"found": 1}


@pytest.mark.parametrize(
    ("name", "module", "report", "options", "given"),
    [
        (
            "bargein",
            bargein,
            bargein_report,
            ["--sounds", "3", "--clients", "2", "--quick"],
            {"sounds": 3, "clients": 2, "quick": True, "spec": parse_spec(v2v.ENGINES)},
        ),
        (
            "sessions",
            sessions,
            sessions_report,
            ["--counts", "2,4", "--core", "0", "--no-memory", "--peer", "pipecat"],
            {"counts": [2, 4], "core": 0, "memory": False, "peer": True, "frame_ms": 60},
        ),
    ],
)
def test_the_other_benches(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    module: Any,
    report: Any,
    options: list[str],
    given: dict[str, Any],
) -> None:
    kept: dict[str, Any] = {}

    def pretend(config: Any, **options: Any) -> Found:
        kept.update(options)
        return Found()

    monkeypatch.setattr(module, f"run_{name}", pretend)
    monkeypatch.setattr(report, f"{name}_table", lambda result: [Text("the table")])
    monkeypatch.setattr(report, "write_report", lambda result, folder, facts: folder / "page.html")
    code, out, err = run("bench", name, *options, "--json")
    assert code == 0, err
    assert json.loads(out)["found"] == 1
    assert {key: kept[key] for key in given} == given
    code, out, err = run("bench", name, *options, "--report", str(tmp_path))
    assert code == 0, err
    assert "the table" in out
    assert "page.html" in out.replace("\n", "")


def test_the_peer_can_be_run_by_hand(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.bench import peer

    ports: list[int] = []
    monkeypatch.setattr(peer, "run", lambda config: ports.append(config.server.port))
    code, _, err = run("bench", "peer", "--set", "server.port=8099")
    assert code == 0, err
    assert ports == [8099]
