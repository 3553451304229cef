"""`bench v2v` on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.bench.v2v import OWN, V2vResult

_NAMES = {OWN: "duplexd", "default": "pipecat default", "timeout": "pipecat timeout"}
_SHOWN = ("p50", "p90", "p95", "p99", "max")


def v2v_table(result: V2vResult) -> Iterator[RenderableType]:
    """Everybody's figures, then what only the daemon tells of itself."""
    found = result.to_json()
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for head in ("v2v, ms", "turns", *_SHOWN, "cut off", "missed", "ratio"):
        table.add_column(head, justify="left" if head == "v2v, ms" else "right", no_wrap=True)
    for name, each in {OWN: found, **found["peer"]}.items():
        ratio = found["ratio_p50"].get(name)
        table.add_row(
            Text(_NAMES[name], "bold green" if name == OWN else ""),
            str(each["turns"]),
            *(_ms(each["v2v"][key]) for key in _SHOWN),
            f"{each['false_cutoff_rate']:.1%}",
            f"{each['missed_rate']:.1%}",
            "" if ratio is None else f"{ratio:.2f}",
        )
    yield table
    yield Text()
    yield from _own(found)


def _own(found: dict[str, Any]) -> Iterator[Text]:
    told = (
        ("decision to first byte, audio ready, p50", found["commit_to_byte_ms"]["p50"]),
        ("text and decision to first byte, p50", found["framework_ms"]["p50"]),
        ("over what decision and engines allow, p95", found["bound_excess_ms"]["p95"]),
        ("the first turn longer than the same one later", found["first_turn"]["excess_ms"]),
        ("sent late by the client itself, p99", found["client_late_ms"]["p99"]),
    )
    for words, ms in told:
        if ms is not None:
            yield Text.assemble((f"{words:<44}", "dim"), f"{ms:>7.1f} ms")
    for point in found.get("sweep", ()):
        yield Text(
            f"floor {point['floor_ms']:>3} ms, ceiling {point['ceiling_ms']:>4} ms: v2v p50 "
            f"{_ms(point['v2v']['p50']):>4} ms, cut off {point['false_cutoff_rate']:.1%}"
        )


def _ms(ms: float | None) -> str:
    return "-" if ms is None else f"{ms:.0f}"
