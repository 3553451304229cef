"""`bench asr` on a page, and on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.bench.asr_result import AsrResult
from pipeline.bench.plots import lines_plot
from pipeline.bench.report import Report, table, write_both

_LEVEL = ("audio s/s", "answer", "p95", "partial", "p95", "final", "p95", "MB", "failed")
_LANGUAGE = ("utterances", "units", "errors", "wrong", "missing", "too many")
_Found = Mapping[str, Any]


def write_report(result: AsrResult, file: Path, facts: Mapping[str, str]) -> Path:
    """Writes the page, and a .json with all figures beside it; returns the page's path.

    Raises:
        BadRequest: they cannot be written.
    """
    found = result.to_json()
    return write_both(build(found, facts), file.parent, file.stem, found)


def build(found: _Found, facts: Mapping[str, str]) -> Report:
    """Puts the page together from the object of `AsrResult.to_json`."""
    report = Report("duplexd: recognition", facts=facts)
    report.add(
        "In figures",
        table(["", *_names(found)], [[words, *row] for words, row in _figures(found)]),
        "Errors of characters (Chinese) and of words (English). First partial from the onset of "
        "speech, final text from the last voiced sample, both at the pace of speech.",
    )
    rows = [[language, name, *row] for name, side in _all(found) for language, row in _errors(side)]
    report.add("What was understood", table(["", "", *_LANGUAGE], rows))
    if found["ratio"]:
        report.add("Ours over pipecat's", table(["", "ratio"], _ratios(found)))
    if found["by_concurrency"]:
        _levels(report, found)
    for name, side in _all(found):
        if side["worst"]:
            rows = [
                [x["file"], f"{x['errors']} / {x['units']}", x["marked"]] for x in side["worst"]
            ]
            report.add(f"Most errors: {name}", table(["", "errors", "said → heard"], rows))
    return report


def asr_table(result: AsrResult) -> Iterator[RenderableType]:
    """The figures, errors by language, every level, and the worst utterances."""
    found = result.to_json()
    for _, side in _all(found):
        yield Text(side["engine"], "dim")
    yield _shown(["", *_names(found)], [[words, *row] for words, row in _figures(found)])
    if found["ratio"]:
        yield Text()
        yield _shown(["ours over pipecat's", ""], _ratios(found))
    for name, side in _all(found):
        yield Text()
        yield _shown([name, *_LANGUAGE], [[language, *row] for language, row in _errors(side)])
        if side["by_concurrency"]:
            rows = [[count, *_row(level)] for count, level in side["by_concurrency"].items()]
            yield Text()
            yield _shown([f"{name}, at a time", *_LEVEL], rows)
        for each in side["worst"][:3]:
            yield Text(f"  {each['file']}: {each['marked']}", "dim")


def _levels(report: Report, found: _Found) -> None:
    speed: dict[str, list[tuple[float, float]]] = {}
    waits: dict[str, list[tuple[float, float]]] = {}
    for name, side in _all(found):
        levels = [(float(count), level) for count, level in side["by_concurrency"].items()]
        speed[name] = [(at, x["audio_s_per_s"]) for at, x in levels if x["audio_s_per_s"]]
        for words, key in (("final", "final_ms"), ("asked to text, files", "answer_ms")):
            line = [(at, x[key]["p95"]) for at, x in levels if x[key]["p95"] is not None]
            if line:
                waits[f"{name}, {words}"] = line
    label = "conversations at a time"
    report.add(
        "Several at a time: how much",
        lines_plot(speed, x_label=label, y_label="seconds of audio a second"),
        "Files, each as soon as the one before it is done.",
    )
    report.add("Several at a time: how soon", lines_plot(waits, x_label=label, y_label="ms, p95"))
    rows = [
        [count, name, *_row(level)]
        for name, side in _all(found)
        for count, level in side["by_concurrency"].items()
    ]
    report.add("Several at a time, in figures", table([label, "", *_LEVEL], rows))


def _figures(found: _Found) -> Iterator[tuple[str, list[str | None]]]:
    """Rows of words and one figure a side, without those that nobody has."""
    sides = [side for _, side in _all(found)]
    rows: list[tuple[str, Sequence[float | None], str]] = [
        ("characters wrong (zh)", [s["cer"] for s in sides], ".1%"),
        ("words wrong (en)", [s["wer"] for s in sides], ".1%"),
        ("real-time factor", [s["rtf"] for s in sides], ".3f"),
        ("processor s a second, files", [s["cpu_s_per_audio_s"] for s in sides], ".3f"),
        ("the same, as spoken", [s["spoken_cpu_s_per_audio_s"] for s in sides], ".3f"),
        ("asked to text, files, p50, ms", [s["answer_ms"]["p50"] for s in sides], ".0f"),
        ("first partial, p50, ms", [s["first_partial_ms"]["p50"] for s in sides], ".0f"),
        ("first partial, p95, ms", [s["first_partial_ms"]["p95"] for s in sides], ".0f"),
        ("asked after, p50, ms", [s["asked_ms"]["p50"] for s in sides], ".0f"),
        ("final text, p50, ms", [s["final_ms"]["p50"] for s in sides], ".0f"),
        ("final text, p95, ms", [s["final_ms"]["p95"] for s in sides], ".0f"),
        ("memory, MB", [s["memory_mb"] for s in sides], ".0f"),
    ]
    for words, figures, form in rows:
        if any(each is not None for each in figures):
            yield words, [None if each is None else f"{each:{form}}" for each in figures]


def _errors(side: _Found) -> Iterator[tuple[str, list[str]]]:
    for language, each in side["by_language"].items():
        rate = "-" if each["rate"] is None else f"{each['rate']:.1%}"
        counts = ("substitutions", "deletions", "insertions")
        yield (
            language,
            [
                f"{each['utterances']}",
                f"{each['units']}",
                rate,
                *(f"{each[count]}" for count in counts),
            ],
        )


def _ratios(found: _Found) -> list[list[str | None]]:
    ratio = {**found["ratio"]}
    levels = ratio.pop("audio_s_per_s")
    named = {**ratio, **{f"audio_s_per_s, {count}": each for count, each in levels.items()}}
    return [[name, None if each is None else f"{each:.3f}"] for name, each in named.items()]


def _row(level: _Found) -> list[str]:
    times = [
        _ms(level[key][share])
        for key in ("answer_ms", "first_partial_ms", "final_ms")
        for share in ("p50", "p95")
    ]
    failed = ", ".join(f"{count} {code}" for code, count in level["failures"].items())
    speed = level["audio_s_per_s"]
    return [
        "-" if speed is None else f"{speed:.2f}",
        *times,
        f"{level['memory_mb']:.0f}",
        failed or "0",
    ]


def _shown(heads: Sequence[str], rows: Sequence[Sequence[str | None]]) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="dim")
    for number, head in enumerate(heads):
        shown.add_column(head, justify="right" if number else "left")
    for row in rows:
        shown.add_row(*("-" if cell is None else cell for cell in row))
    return shown


def _all(found: _Found) -> Iterator[tuple[str, _Found]]:
    """Both sides by name."""
    yield "duplexd", found
    if found["peer"]:
        yield "pipecat", found["peer"]


def _names(found: _Found) -> list[str]:
    return [name for name, _ in _all(found)]


def _ms(ms: float | None) -> str:
    return "-" if ms is None else f"{ms:.0f}"
