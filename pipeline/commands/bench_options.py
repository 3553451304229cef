"""What the benches' commands share: options, a failure that a program can read, progress, result.

Nothing heavy is imported here, as in `pipeline.commands.options`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pipeline.commands.failures import failures_as_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from pipeline.bench.progress import OnProgress

BenchEngines = Annotated[
    str,
    typer.Option(
        "--engines",
        metavar="scripted:SPEC|none",
        help="Fake engines with set delays; none: those of the configuration, real ones.",
        rich_help_panel="Configuration",
    ),
]
ScriptedEngines = Annotated[
    str,
    typer.Option(
        "--engines",
        metavar="scripted:SPEC",
        help="Fake engines with set delays; this bench has to know what they say.",
        rich_help_panel="Configuration",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
ReportFolder = Annotated[
    Path | None,
    typer.Option("--report", metavar="DIR", help="Write a page with plots into this folder."),
]
Peer = Annotated[
    Literal["pipecat"] | None,
    typer.Option("--peer", metavar="pipecat", help="Measure the stock pipecat pipeline beside it."),
]
FaceName = Annotated[
    Literal["realtime", "xiaozhi"],
    typer.Option("--face", help="Talk to it as a Realtime client, or as a Xiaozhi device."),
]
LogFile = Annotated[
    Path | None, typer.Option("--log", metavar="FILE", help="Log of the daemon that is measured.")
]
Quick = Annotated[bool, typer.Option("--quick", help="A tenth of it, to see that it works.")]
FrameMs = Annotated[
    int | None,
    typer.Option(
        "--frame-ms",
        min=10,
        max=100,
        help="Length of audio frames, milliseconds: 20 in v2v, 60 of devices and in sessions.",
    ),
]


@contextmanager
def ready(as_json: bool) -> Iterator[None]:
    """Logs warnings only, and lets a failure be read by who reads the result."""
    from pipeline.commands.logs import log_warnings_only

    log_warnings_only()
    with failures_as_json(as_json):
        yield


@contextmanager
def bench_progress(quiet: bool) -> Iterator[OnProgress]:
    """A bar on a terminal; elsewhere a line for every tenth part; nothing if it is not wanted."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        yield _Lines(console)
        return
    columns = (
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share, words: bar.update(task, completed=share, description=words)


class _Lines:
    """Progress where there is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0

    def __call__(self, share: float, words: str) -> None:
        if share >= self._next or share == 0:
            self._next = (int(share * 10) + 1) / 10
            self._console.print(f"{share:4.0%}  {words}", markup=False)


def numbers(text: str | None) -> list[int] | None:
    """Reads 20,40,60.

    Raises:
        typer.BadParameter: it is something else.
    """
    if text is None:
        return None
    try:
        found = [int(each) for each in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise typer.BadParameter(f"{text!r} is no list of numbers such as 20,40,60")
    return found


def run_facts() -> dict[str, str]:
    """When, where and how it was run, for the object and the page."""
    from pipeline.bench.facts import facts

    return facts()


def show(
    found: dict[str, Any], parts: Iterable[RenderableType], page: Path | None, *, as_json: bool
) -> None:
    """Prints a result, as one object or for people."""
    if as_json:
        typer.echo(json.dumps({**run_facts(), **found}, ensure_ascii=False))
        return
    from rich.console import Console

    console = Console(highlight=False)
    for part in parts:
        console.print(part)
    if page is not None:
        console.print(f"the page: {page}", style="dim", markup=False)
