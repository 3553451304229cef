"""`run.py replay`: what was decided, for people and programs; a bad file is one clear error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.turns.events import (
    AnswerEnded,
    Event,
    FinalText,
    Muted,
    PlaybackStarted,
    Starved,
    Window,
)
from pipeline.turns.record import Recorder
from pipeline.turns.settings import TurnSettings
from tests.pipeline.conftest import Run

pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A question that was answered, over whose answer somebody coughed."""
    told: list[TurnSettings | Event] = [TurnSettings(speculations=2)]
    voices = [0.0] * 3 + [1.0] * 20 + [0.0] * 4
    told += [Window(32.0 * number, voice, -20.0) for number, voice in enumerate(voices, 1)]
    told += [FinalText(1, "几点？", "zh"), Starved(100.0), PlaybackStarted()]
    told += [Window(32.0 * number, 1.0, -20.0) for number in range(28, 32)]
    told += [Muted(True)]
    told += [Window(32.0 * number, 1.0, -20.0) for number in range(32, 40)]
    told += [FinalText(2, "", ""), AnswerEnded()]
    path = tmp_path / "log.jsonl"
    with path.open("w") as file:
        recorder = Recorder(file.write)
        for each in told:
            recorder(each)
    return path


def test_the_table_shows_what_was_decided_and_why(run: Run, log: Path) -> None:
    code, out, _ = run("replay", str(log))
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines() if line.strip()]
    assert lines == [
        "s what happened what was decided then",
        "0.192 voice listen at_ms=96 speaking",
        "open turn at_ms=96",
        "0.864 silence finalise request=1 speaking",
        "0.864 final text request=1 “几点？” “zh” speculate number=1 “几点？” “zh” speaking",
        "0.864 starved for_ms=100 end turn at_ms=864 idle",
        "commit “几点？” “zh” answer number=1",
        "0.960 voice pause candidate",
        "listen at_ms=864",
        "1.120 silence finalise request=2 candidate",
        "1.248 final text request=2 resume idle",
        "dismiss noise",
        "1 turns opened, 1 committed, 0 empty; 1 answers made in advance, 1 kept; 0 "
        "interrupted, 1 sounds dismissed",
    ]


def test_programs_get_a_line_a_decision(run: Run, log: Path) -> None:
    code, out, _ = run("replay", str(log), "--json")
    assert code == 0
    decisions = [json.loads(line) for line in out.splitlines()]
    assert decisions[0] == {
        "at": 192.0,
        "event": {"kind": "Window", "probability": 1.0, "level_db": -20.0},
        "actions": [{"kind": "Listen", "at_ms": 96.0}, {"kind": "OpenTurn", "at_ms": 96.0}],
        "phase": "speaking",
    }
    assert decisions[-1]["actions"][-1] == {"kind": "Dismiss", "reason": "noise", "text": ""}


def test_a_bad_file_is_one_clear_error(run: Run, log: Path, tmp_path: Path) -> None:
    log.write_bytes(log.read_bytes() + b"\xff\xfe\n")
    code, out, err = run("replay", str(log))
    assert (code, out) == (1, "")
    assert f"{log}, line 47: it is no JSON" in err
    code, _, err = run("replay", str(tmp_path / "none.jsonl"))
    assert code == 2
    assert "none.jsonl" in err


def test_a_file_that_cannot_be_read_is_one_clear_error(
    run: Run, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    code, _, err = run("replay", str(log))
    assert code == 1
    assert f"{log} cannot be read: Permission denied" in err
