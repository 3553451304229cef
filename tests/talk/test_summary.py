"""Every turn counts: those without an answer are counted too, and cut-off ones stand beside v2v."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from pipeline.talk.summary import answered, summarise, summary_text


def turn(v2v_ms: float | None = None, *, utterance: int = 0, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"utterance": utterance, "transcript": "喂", "status": "completed"}
    parts = {} if v2v_ms is None else {"endpoint_wait": 200.0, "frame_out": v2v_ms - 200}
    return row | {"v2v_ms": v2v_ms, "parts_ms": parts, "underruns": 0} | more


def test_percentiles_are_of_all_answers() -> None:
    rows = [turn(500.0 + 100 * i, utterance=i) for i in range(5)]
    assert summarise([*rows, turn(None, utterance=5, underruns=3)]) == {
        "turns": 6,
        "unanswered": 1,
        "cutoffs": 0,
        "v2v_ms": {"p50": 700.0, "p95": 880.0, "max": 900.0},
        "underruns": 3,
        "parts_p50_ms": {"endpoint_wait": 200.0, "frame_out": 500.0},
    }


def test_an_utterance_in_two_turns_was_cut_off() -> None:
    cut = [turn(500.0), turn(600.0), turn(550.0, utterance=1)]
    assert summarise(cut)["cutoffs"] == 1
    # a noise that says nothing is no turn too many
    assert summarise([turn(500.0), turn(None, transcript="")])["cutoffs"] == 0


def test_nothing_at_all() -> None:
    summary = summarise([])
    assert summary["v2v_ms"] == {"p50": None, "p95": None, "max": None}
    assert (summary["turns"], summary["cutoffs"], summary["parts_p50_ms"]) == (0, 0, {})
    assert "v2v p50     -" in _shown(summary)


@pytest.mark.parametrize(
    ("statuses", "complete"),
    [
        ([("completed", 0), ("completed", 1)], True),
        ([("cancelled", 0), ("completed", 0), ("completed", 1)], True),
        ([("completed", 0), ("cancelled", 1)], False),
        ([("completed", 0), ("failed", 0), ("completed", 1)], False),
        ([("completed", 0)], False),
        ([], False),
    ],
)
def test_every_utterance_wants_an_answer(statuses: list[tuple[str, int]], complete: bool) -> None:
    rows = [turn(500.0, utterance=number, status=status) for status, number in statuses]
    assert answered(rows, 2) is complete


def test_no_line_ends_in_a_blank() -> None:
    shown = _shown(summarise([turn(500.0), turn(700.0, underruns=2)])).splitlines()
    assert [line for line in shown if line != line.rstrip()] == []


def test_the_table_shows_the_same() -> None:
    shown = _shown(summarise([turn(500.0), turn(700.0, underruns=2)]))
    lines = [line.split() for line in shown.splitlines()]
    assert ["turns", "2"] in lines
    assert ["cutoffs", "1", *["pauses", "taken", "for", "the", "end", "of", "a", "turn"]] in lines
    assert ["underruns", "2", *["times", "the", "voice", "was", "late"]] in lines
    assert ["v2v", "p50", "600", "ms"] in lines
    assert ["endpoint_wait", "p50", "200", "ms"] in lines


def _shown(summary: dict[str, Any]) -> str:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(summary_text(summary))
    return capture.get()
