"""Invariants: what was recorded replays to the same decisions; a line that no recorder wrote is an
error that names it.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.turns.actions import Action, Commit, Dismiss, Reason
from pipeline.turns.core import step
from pipeline.turns.events import (
    AnswerEnded,
    Closed,
    Event,
    FinalText,
    Muted,
    RespondRequested,
    TextTurn,
    TurnProbability,
    Window,
    Withdrawn,
)
from pipeline.turns.record import BadLog, Entry, Recorder, as_json, read, replay
from pipeline.turns.settings import WINDOW_MS, TurnSettings
from pipeline.turns.state import TurnState

SETTINGS = TurnSettings()
#: no length of time is without a value, which would equal nothing
_NUMBERS = st.floats(allow_nan=False)
_TOLD: st.SearchStrategy[Event | TurnSettings] = st.one_of(
    st.builds(Window, st.just(0.0), st.floats(0, 1), st.floats(-120, 0)),
    st.builds(Window, st.just(0.0), st.sampled_from([0.0, 1.0]), st.just(-20.0)),
    *(
        st.builds(kind, **{each.name: _NUMBERS for each in fields(kind) if each.type == "float"})
        for kind in Event.__args__
        if kind is not Window
    ),
    st.builds(TurnSettings, idle_ms=st.none() | st.integers(100, 500).map(float)),
)


def logged(*told: Event | TurnSettings) -> list[str]:
    lines: list[str] = []
    recorder = Recorder(lines.append)
    for each in told:
        recorder(each)
    return lines


@given(st.lists(_TOLD, max_size=60), st.integers(1, 10))
def test_a_log_replays_to_the_same_decisions(told: list[Event | TurnSettings], run: int) -> None:
    state, actions = TurnState(), list[tuple[Action, ...]]()
    at, whole = 0.0, list[Event | TurnSettings]([SETTINGS])
    for each in told:
        # Windows come in runs, or no turn would ever open.
        for _ in range(run if isinstance(each, Window) else 1):
            if isinstance(each, Window):
                at += WINDOW_MS
                each = replace(each, at_ms=at)
            whole.append(each)
    for each in whole:
        if isinstance(each, TurnSettings):
            state = replace(state, settings=each)
            actions.append(())
        else:
            state, done = step(state, each)
            actions.append(done)
    decisions = list(replay(read(logged(*whole), name="log")))
    assert [decision.entry.told for decision in decisions] == whole
    assert [decision.actions for decision in decisions] == actions
    assert decisions[-1].after == state


def test_entries_bear_the_clock_of_received_audio() -> None:
    told = (SETTINGS, Muted(True), Window(32.0, 0.25, -31.5), TextTurn("你好", "zh"), Closed())
    entries = read(logged(*told), name="log")
    assert entries == tuple(
        Entry(at, each) for at, each in zip((0.0, 0.0, 32.0, 32.0, 32.0), told, strict=True)
    )


def test_a_line_is_json_with_its_kind() -> None:
    assert json.loads(logged(Window(64.0, 0.5, -20.0))[0]) == {
        "at": 64.0,
        "kind": "Window",
        "probability": 0.5,
        "level_db": -20.0,
    }
    assert as_json(Commit("hi", "en", True)) == {
        "kind": "Commit",
        "text": "hi",
        "language": "en",
        "answer": True,
        "ask": None,
        "number": 0,
    }
    assert json.loads(json.dumps(as_json(Dismiss(Reason.ECHO))))["reason"] == "echo"


def test_what_a_log_lacks_has_its_default() -> None:
    settings = '{"at": 0, "kind": "TurnSettings", "floor_ms": 300}\n'
    withdrawn = '{"at": 0, "kind": "Withdrawn", "number": 3}\n'
    entries = read([settings, withdrawn], name="log")
    assert [entry.told for entry in entries] == [TurnSettings(floor_ms=300), Withdrawn(3)]


def test_a_line_that_was_cut_off_counts_for_nothing() -> None:
    lines = logged(SETTINGS, AnswerEnded(), RespondRequested(1))
    assert len(read([*lines[:2], lines[2][:-5]], name="log")) == 2
    assert len(read([*lines[:2], lines[2].rstrip()], name="log")) == 3


@pytest.mark.parametrize(
    "line, problem",
    [
        ("nonsense\n", "it is no JSON"),
        ("[" * 100_000 + "\n", "it is no JSON"),
        ("[]\n", "it is no JSON object"),
        ('{"at": 0}\n', "its kind is none of TurnSettings, Window"),
        ('{"at": 0, "kind": ["Window"]}\n', "its kind is none of TurnSettings, Window"),
        ('{"at": "0", "kind": "Closed"}\n', "at is no number"),
        ('{"at": true, "kind": "Closed"}\n', "at is no number"),
        ('{"kind": "Closed"}\n', "at is no number"),
        ('{"at": 0, "kind": "Closed", "why": 1}\n', "Closed has no why"),
        ('{"at": 0, "kind": "Muted", "on": 1}\n', "on of Muted is to be bool, not 1"),
        ('{"at": 0, "kind": "FinalFailed", "request": 1.5}\n', "is to be int, not 1.5"),
        ('{"at": 0, "kind": "FinalFailed", "request": true}\n', "is to be int, not True"),
        ('{"at": 0, "kind": "FinalText", "request": 1, "text": "x"}\n', "FinalText lacks language"),
    ],
)
def test_a_line_that_no_recorder_wrote_is_named(line: str, problem: str) -> None:
    with pytest.raises(BadLog) as error:
        read([*logged(SETTINGS), line], name="a.jsonl")
    assert str(error.value).startswith("a.jsonl, line 2: ")
    assert problem in str(error.value)


@pytest.mark.parametrize("told", [[], [TurnProbability(1, 0.5)], [FinalText(1, "", ""), SETTINGS]])
def test_a_log_begins_with_the_settings(told: list[Event | TurnSettings]) -> None:
    with pytest.raises(BadLog, match=r"a\.jsonl: .*TurnSettings"):
        read(logged(*told), name="a.jsonl")
