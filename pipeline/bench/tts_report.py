"""`bench tts` on a page, and on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.bench.plots import bars, lines_plot
from pipeline.bench.report import Report, table, write_both
from pipeline.bench.tts_result import TtsResult

#: of a step; times in ms, first and total are p50
_STEP = ("spoken", "first", "p95", "p99", "total", "RTF", "per s", "failed")
_Found = Mapping[str, Any]


def write_report(result: TtsResult, folder: Path, facts: Mapping[str, str]) -> Path:
    """Writes tts.html, and tts.json with all figures; returns the page's path.

    Raises:
        BadRequest: they cannot be written.
    """
    found = result.to_json()
    return write_both(build(found, facts), folder, "tts", found)


def build(found: _Found, facts: Mapping[str, str]) -> Report:
    """Puts the page together from the object of `TtsResult.to_json`."""
    report = Report("duplexd: speech", facts=facts)
    report.add(
        "In figures",
        table(["", *_names(found)], [[words, *row] for words, row in _figures(found)]),
        "First chunk: from the request to its first audio. A second of speech is 25 speech tokens.",
    )
    for title, key, x_label in (
        ("By the length of the text", "by_length", "characters"),
        ("Several at a time", "by_concurrency", "requests at a time"),
    ):
        if found[key]:
            _sweep(report, title, _sides(found, key), x_label)
    stages = {
        f"{name}, {second.replace('_', ' ')}": each
        for name, side in _all(found)
        for second, each in side["cpu_s_per_audio_s"]["stages"].items()
    }
    if stages:
        report.add(
            "What a second of speech costs",
            bars(stages, unit="s"),
            "Processor seconds, by stage: at the beginning of an utterance and in its 30th second. "
            "Of upstream's ten solver steps in the 30th, all of them the same work, two are taken "
            "and the others counted as the second.",
        )
    return report


def tts_table(result: TtsResult) -> Iterator[RenderableType]:
    """The figures, then every step."""
    found = result.to_json()
    names = _names(found)
    figures = Table(box=None, pad_edge=False, header_style="dim")
    figures.add_column("")
    for name in names:
        figures.add_column(name, justify="right")
    for words, row in _figures(found):
        figures.add_row(words, *("-" if each is None else each for each in row))
    for _, side in _all(found):
        yield Text(side["engine"], "dim")
    yield figures
    for key, unit in (("by_length", "characters"), ("by_concurrency", "at a time")):
        for name, steps in _sides(found, key).items():
            if steps:
                yield Text()
                yield _steps(name, steps, unit)


def _steps(name: str, steps: _Found, unit: str) -> Table:
    shown = Table(
        box=None, pad_edge=False, header_style="dim", title=f"{name}, ms", title_justify="left"
    )
    for head in (unit, *_STEP):
        shown.add_column(head, justify="right", no_wrap=head != "failed")
    for number, step in steps.items():
        shown.add_row(number, *_row(step))
    return shown


def _sweep(report: Report, title: str, sides: Mapping[str, _Found], x_label: str) -> None:
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, steps in sides.items():
        for words, key in (("first chunk", "first_chunk_ms"), ("all of it", "total_ms")):
            lines[f"{name}, {words}"] = [
                (float(number), step[key]["p50"])
                for number, step in steps.items()
                if step[key]["p50"] is not None
            ]
    report.add(title, lines_plot(lines, x_label=x_label, y_label="ms, p50"))
    rows = [
        [number, name, *_row(step)]
        for name, steps in sides.items()
        for number, step in steps.items()
    ]
    report.add(
        f"{title}, in figures",
        table([x_label, "", *_STEP], rows),
        "First chunk and all of it in milliseconds, p50; seconds of work a second of audio (RTF).",
    )


def _figures(found: _Found) -> Iterator[tuple[str, list[str | None]]]:
    """Rows of words and one figure a side, without those that nobody has."""
    sides = [side for _, side in _all(found)]
    rows: list[tuple[str, Sequence[float | None], str]] = [
        ("first chunk, first request, ms", [s["first_chunk_ms"]["first"] for s in sides], ".0f"),
        ("later requests, p50, ms", [s["first_chunk_ms"]["later_p50"] for s in sides], ".0f"),
        ("later requests, p95, ms", [s["first_chunk_ms"]["later_p95"] for s in sides], ".0f"),
        ("first request, processor s", [s["first_chunk_cpu_s"]["first"] for s in sides], ".2f"),
        ("later requests, processor s", [s["first_chunk_cpu_s"]["later"] for s in sides], ".2f"),
        ("first requests measured", [s["first_chunk_runs"]["first"] for s in sides], "d"),
        ("later requests measured", [s["first_chunk_runs"]["later"] for s in sides], "d"),
        ("second 1, processor s", [s["cpu_s_per_audio_s"]["second_1"] for s in sides], ".2f"),
        ("second 30, processor s", [s["cpu_s_per_audio_s"]["second_30"] for s in sides], ".2f"),
        ("decoder steps per token", [s["decode_steps_per_token"] for s in sides], ".3f"),
        ("memory, MB", [s["memory_mb"] for s in sides], ".0f"),
    ]
    for words, figures, form in rows:
        if any(each is not None for each in figures):
            yield words, [None if each is None else f"{each:{form}}" for each in figures]
    for which in ("first", "later"):
        if (ratio := found["ratio"][which]) is not None:
            of = "processor time" if found["ratio"]["of"] == "cpu" else "time"
            yield f"ratio of {of}, {which}", [f"{ratio:.3f}", *[None] * (len(sides) - 1)]


def _row(step: _Found) -> list[str]:
    first, total = step["first_chunk_ms"], step["total_ms"]
    failed = ", ".join(f"{count} {code}" for code, count in step["failures"].items())
    return [
        str(step["requests"]),
        *(_ms(first[key]) for key in ("p50", "p95", "p99")),
        _ms(total["p50"]),
        "-" if step["rtf"]["p50"] is None else f"{step['rtf']['p50']:.2f}",
        f"{step['requests_per_s']:.2f}",
        failed or "0",
    ]


def _all(found: _Found) -> Iterator[tuple[str, _Found]]:
    """Both sides by name."""
    yield "duplexd", found
    if found["peer"]:
        yield "upstream", found["peer"]


def _names(found: _Found) -> list[str]:
    return [name for name, _ in _all(found)]


def _sides(found: _Found, key: str) -> dict[str, _Found]:
    return {name: side[key] for name, side in _all(found)}


def _ms(ms: float | None) -> str:
    return "-" if ms is None else f"{ms:.0f}"
