"""The model store's progress as a bar on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from services.models import Progress as OnProgress


@contextmanager
def progress_bar(name: str) -> Iterator[OnProgress]:
    """Shows a bar while the block runs, if standard error is a terminal.

    Args:
        name: the model, shown before the file.

    Yields:
        What the store is to call.
    """
    # On stderr, so that what a program reads stays clean; a bar that is over leaves no trace.
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(name, total=None)

        def update(file: str, done: int, total: int, stage: str) -> None:
            bar.update(task, description=f"{name}: {file}: {stage}", completed=done, total=total)

        yield update
