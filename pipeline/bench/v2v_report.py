"""The page of `bench v2v`: distributions, the trade, where the time goes, the sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.bench.analysis import Measured
from pipeline.bench.plots import Point, bars, cdf, heatmap, scatter, waterfall
from pipeline.bench.report import Report, table, write_both
from pipeline.bench.texts import REPLIES
from pipeline.bench.v2v import CEILINGS, FLOORS, OWN, SweepPoint, V2vResult

_TITLES = {
    OWN: "duplexd",
    "default": "pipecat, default",
    "timeout": "pipecat, SpeechTimeout 0.2",
}
_MEASURES = (
    ("v2v p50", ("v2v", "p50")),
    ("p90", ("v2v", "p90")),
    ("p95", ("v2v", "p95")),
    ("p99", ("v2v", "p99")),
    ("max", ("v2v", "max")),
)


def write_report(result: V2vResult, folder: Path, facts: Mapping[str, str]) -> Path:
    """Writes v2v.html, and v2v.json with every turn; returns the page's path.

    Raises:
        BadRequest: they cannot be written.
    """
    found = result.to_json()
    page = build(result, found, facts)
    return write_both(page, folder, "v2v", {**found, "details": result.turns_json()})


def build(result: V2vResult, found: Mapping[str, Any], facts: Mapping[str, str]) -> Report:
    """Puts the page together."""
    report = Report("duplexd: voice to voice", facts=facts)
    turns = {OWN: result.own.turns, **{name: each.turns for name, each in result.peers.items()}}
    summaries = {OWN: found, **found["peer"]}
    report.add(
        "In figures",
        _figures(summaries),
        "From the last voiced sample of the user to the first audible sample of the answer, at the "
        "client, in milliseconds; every turn counts. A turn is cut off when the server takes a "
        "pause for its end.",
    )
    report.add(
        "How the turns are spread",
        cdf({_TITLES[name]: _v2v(each) for name, each in turns.items()}),
        "Share of the turns that were answered within so many milliseconds.",
    )
    report.add(
        "Latency against false cutoffs",
        _trade(summaries, result.sweep),
        "Whoever waits longer cuts fewer people off: a latency says nothing without its rate. "
        "Better is to the lower left.",
    )
    answered = sorted((t for t in result.own.turns if t.stamps), key=lambda t: t.v2v_ms or 0)
    if answered:
        _where(report, answered)
    if result.sweep:
        _sweep(report, result.sweep)
    report.add("By kind of utterance", _kinds(found["by_kind"]))
    report.add("Every turn", _every(turns))
    report.add(
        "The answers",
        table(["reply of the scripted language model"], [[reply] for reply in REPLIES]),
        "They decide when the first clause, or the first sentence, is whole.",
    )
    return report


def _figures(summaries: Mapping[str, Any]) -> str:
    head = ["", "turns", *(name for name, _ in _MEASURES), "cut off", "missed"]
    rows = [
        [
            _TITLES[name],
            each["turns"],
            *(_number(each[outer][inner]) for _, (outer, inner) in _MEASURES),
            _percent(each["false_cutoff_rate"]),
            _percent(each["missed_rate"]),
        ]
        for name, each in summaries.items()
    ]
    return table(head, rows)


def _trade(summaries: Mapping[str, Any], sweep: Sequence[SweepPoint]) -> str:
    groups = {
        _TITLES[name]: [Point(x=100 * each["false_cutoff_rate"], y=each["v2v"]["p50"])]
        for name, each in summaries.items()
        if each["v2v"]["p50"] is not None
    }
    points = [
        Point(x=100 * each.false_cutoff_rate, y=p50, label=f"{each.floor_ms}–{each.ceiling_ms}")
        for each in sweep
        if (p50 := each.v2v["p50"]) is not None
    ]
    if points:
        groups["floor–ceiling, ms"] = points
    return scatter(groups, x_label="turns cut off, %", y_label="v2v p50, ms")


def _where(report: Report, answered: Sequence[Measured]) -> None:
    middle = answered[len(answered) // 2]
    report.add(
        "Where the time goes: the median turn",
        waterfall(middle.parts_ms),
        "Increments along the critical path: they sum to v2v. What was made while the turn was not "
        "yet over costs nothing here.",
    )
    at = {"fastest": 0, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "slowest": 1}
    chosen = {
        name: answered[round(share * (len(answered) - 1))].parts_ms for name, share in at.items()
    }
    report.add("From the fastest turn to the slowest", bars(chosen))


def _sweep(report: Report, sweep: Sequence[SweepPoint]) -> None:
    known = {(each.floor_ms, each.ceiling_ms): each for each in sweep}

    def grid(value: str) -> list[list[float | None]]:
        def cell(floor: int, ceiling: int) -> float | None:
            point = known.get((floor, ceiling))
            if point is None:
                return None
            return point.v2v["p50"] if value == "v2v" else 100 * point.false_cutoff_rate

        return [[cell(floor, ceiling) for ceiling in CEILINGS] for floor in FLOORS]

    for title, value in (("v2v p50, ms", "v2v"), ("turns cut off, %", "cutoffs")):
        report.add(
            f"Floor and ceiling: {title}",
            heatmap(
                grid(value),
                rows=[f"{floor} ms" for floor in FLOORS],
                columns=[f"{ceiling} ms" for ceiling in CEILINGS],
                row_label="floor",
                column_label="ceiling",
            ),
        )


def _kinds(by_kind: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        [
            kind,
            _TITLES[name],
            each["turns"],
            _number(each["v2v"]["p50"]),
            _number(each["v2v"]["p95"]),
            _percent(each["false_cutoff_rate"]),
            _percent(each["missed_rate"]),
        ]
        for name, kinds in by_kind.items()
        for kind, each in kinds.items()
    ]
    return table(["kind", "", "turns", "p50", "p95", "cut off", "missed"], sorted(rows, key=str))


def _every(turns: Mapping[str, Sequence[Measured]]) -> str:
    names = [*turns]
    rows: list[list[object]] = []
    for each in zip(*turns.values(), strict=False):
        cells = [f"{_number(t.v2v_ms) or 'missed'}{' ✂' if t.cutoff else ''}" for t in each]
        rows.append([each[0].clip, *cells])
    return table(["said (✂ cut off)", *(_TITLES[name] for name in names)], rows)


def _v2v(turns: Sequence[Measured]) -> list[float]:
    return [turn.v2v_ms for turn in turns if turn.v2v_ms is not None]


def _number(ms: float | None) -> str | None:
    return None if ms is None else f"{np.round(ms):.0f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
