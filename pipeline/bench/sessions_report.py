"""`bench sessions` on a page, and on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.bench.plots import lines_plot
from pipeline.bench.report import Report, table, write_both
from pipeline.bench.sessions import SessionsResult
from pipeline.bench.sessions_step import SessionsStep

_HEAD = ("conversations", "of a core", "each", "late", "answered", "v2v p50", "p95", "in real time")


def write_report(result: SessionsResult, folder: Path, facts: Mapping[str, str]) -> Path:
    """Writes sessions.html, and sessions.json with all figures; returns the page's path.

    Raises:
        BadRequest: they cannot be written.
    """
    return write_both(build(result, facts), folder, "sessions", result.to_json())


def build(result: SessionsResult, facts: Mapping[str, str]) -> Report:
    """Puts the page together."""
    report = Report("duplexd: conversations on one core", facts=facts)
    report.add(
        "In figures",
        table(["", ""], [[*row] for row in _figures(result)]),
        "Every conversation speaks for 3 s and hears 4 s of an answer in every 9 s.",
    )
    servers = {name: each for name, each in _servers(result) if each.steps}
    cores = {name: [(s.n, s.cpu_core) for s in each.steps] for name, each in servers.items()}
    late = {name: [(s.n, 100 * s.late_rate) for s in each.steps] for name, each in servers.items()}
    report.add(
        "What they cost",
        lines_plot(cores, x_label="conversations", y_label="of one core"),
        "Processor time of the server's process.",
    )
    report.add(
        "Where it falls behind",
        lines_plot(late, x_label="conversations", y_label="late frames, %"),
        "Audio frames that came more than 20 ms after they were due.",
    )
    for name, each in servers.items():
        report.add(f"{name}, step by step", table(_HEAD, [_row(step) for step in each.steps]))
    return report


def sessions_table(result: SessionsResult) -> Iterator[RenderableType]:
    """Every step, then the figures."""
    for name, each in _servers(result):
        steps = Table(
            box=None, pad_edge=False, header_style="dim", title=name, title_justify="left"
        )
        for head in _HEAD:
            steps.add_column(head, justify="right")
        for step in each.steps:
            steps.add_row(*_row(step), style="" if step.real_time else "yellow")
        yield steps
        yield Text()
    for words, figure in _figures(result):
        yield Text.assemble((f"{words:<56}", "dim"), f"{figure:>12}")


def _servers(result: SessionsResult) -> Iterator[tuple[str, SessionsResult]]:
    yield "duplexd", result
    if result.peer is not None:
        yield "pipecat", result.peer


def _figures(result: SessionsResult) -> Iterator[tuple[str, str]]:
    for name, each in _servers(result):
        yield f"{name}: conversations in real time on one core", str(each.max_real_time)
    told = (
        ("memory of a conversation, MB", result.mb_per_session),
        ("growth over the conversations that were closed, MB", result.growth_mb),
        ("first frame later than for a single conversation, p95, ms", result.beyond_alone_ms),
        ("longest pause of the garbage collector, ms", result.gc_pause_ms_max),
        ("the same when nobody talked, ms", result.gc_idle_ms_max),
    )
    for words, figure in told:
        if figure is not None:
            yield words, f"{figure:.1f}"


def _row(step: SessionsStep) -> list[str]:
    return [
        str(step.n),
        f"{step.cpu_core:.0%}",
        f"{step.cpu_core / step.n:.2%}",
        f"{step.late_rate:.2%}",
        f"{step.answered_rate:.1%}",
        f"{step.v2v_ms:.0f} ms",
        f"{step.v2v_p95_ms:.0f} ms",
        "yes" if step.real_time else "no",
    ]
