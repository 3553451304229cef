"""Several turns in a few numbers: voice to voice, beside how often a turn was cut off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.text import Text

from pipeline.latency import PARTS

#: what a device can lose
_LOST = (
    ("lost_at_start", "", "lost at the start"),
    ("overflowed", "", "did not fit into its queue"),
    ("outside", "", "came when it was not to speak"),
    ("starved_ms", " ms", "of silence in between"),
    ("cut_ms", " ms", "cut off at the end"),
)

Turns = Sequence[dict[str, Any]]

#: what is counted, in words for the terminal
_COUNTED = {
    "unanswered": "turns after which nothing was heard",
    "cutoffs": "pauses taken for the end of a turn",
    "underruns": "times the voice was late",
}


def summarise(turns: Turns) -> dict[str, Any]:
    """Sums turns up, as `pipeline.talk.turn.measure` gives them.

    Returns:
        turns: how many there were.
        unanswered: how many of them nothing was heard after.
        cutoffs: turns too many: the daemon took a pause inside an utterance for its end.
        v2v_ms: p50, p95 and max over all turns with an answer; None without any. Percentiles are
            interpolated between the neighbours.
        underruns: times an answer's audio came too late.
        parts_p50_ms: p50 of every part, over the turns that have it; they need not sum to v2v.
    """
    v2v = [turn["v2v_ms"] for turn in turns if turn["v2v_ms"] is not None]
    said = Counter(turn["utterance"] for turn in turns if turn["transcript"])
    p50, p95 = np.percentile(v2v, (50, 95)) if v2v else (None, None)
    parts = {part: [t["parts_ms"][part] for t in turns if part in t["parts_ms"]] for part in PARTS}
    return {
        "turns": len(turns),
        "unanswered": len(turns) - len(v2v),
        "cutoffs": sum(count - 1 for count in said.values()),
        "v2v_ms": {"p50": _round(p50), "p95": _round(p95), "max": max(v2v, default=None)},
        "underruns": sum(turn["underruns"] for turn in turns),
        "parts_p50_ms": {
            part: _round(np.percentile(values, 50)) for part, values in parts.items() if values
        },
    }


def answered(turns: Turns, utterances: int) -> bool:
    """Every utterance got an answer to its end, and none failed."""
    complete = {turn["utterance"] for turn in turns if turn["status"] == "completed"}
    return len(complete) == utterances and not any(turn["status"] == "failed" for turn in turns)


def summary_text(summary: dict[str, Any]) -> Text:
    """The same for people, without a blank at the end of a line."""
    rows = [("turns", "bold", str(summary["turns"]), "", "")]
    for name, meaning in _COUNTED.items():
        count = summary[name]
        rows.append((name, "", str(count), "yellow" if count else "", meaning))
    for name, ms in summary["v2v_ms"].items():
        rows.append((f"v2v {name}", "bold green", _ms(ms), "bold green", ""))
    for part, ms in summary["parts_p50_ms"].items():
        rows.append((f"{part} p50", "", _ms(ms), "", ""))
    names, values = (max(len(row[column]) for row in rows) for column in (0, 2))
    lines: list[Text] = []
    for name, style, value, value_style, meaning in rows:
        line = Text.assemble((f"{name:<{names}}", style), "  ", (f"{value:>{values}}", value_style))
        lines.append(line.append(f"  {meaning}", "dim") if meaning else line)
    return Text("\n").join(lines)


def device_text(turn: dict[str, Any]) -> Text:
    """What a Xiaozhi device heard of a turn's answer, in one line; what it lost stands out."""
    losses: dict[str, Any] = turn["device"]
    text = Text.assemble(("v2v ", "bold green"), (_ms(turn["v2v_ms"]), "bold green"))
    text.append(f"  {losses['frames']} frames", "dim")
    lost = [f"{losses[name]:.0f}{unit} {meaning}" for name, unit, meaning in _LOST if losses[name]]
    if lost:
        return text.append("  " + ", ".join(lost), "yellow")
    return text.append(", all heard, without a gap", "dim")


def _ms(ms: float | None) -> str:
    return "-" if ms is None else f"{ms:.0f} ms"


def _round(ms: float | None) -> float | None:
    return None if ms is None else round(float(ms), 1)
