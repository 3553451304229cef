"""The model store's progress: a bar on a terminal, elsewhere a line when something begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from services.models import Progress as OnProgress

#: what the store's stages are called in a line; every other one is a part of fetching
_VERBS = {
    "verifying": "verifying",
    "waiting for another process": "waiting for another process that fetches",
}
#: the longest label and what follows it fit into 80 columns
_BAR_WIDTH = 8
#: an estimate before this is worth nothing, seconds
_ESTIMATE_AFTER_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A model that is worked on.

    Parameters:
        name: the model.
        bytes: its length.
        number: its place among those of this command, from 1.
        count: how many those are.
    """

    name: str
    bytes: int
    number: int = 1
    count: int = 1

    @property
    def place(self) -> str:
        """As in "model 2 of 3"."""
        return f"model {self.number} of {self.count}"


def say_on_stderr(line: str) -> None:
    """Writes a line for people; standard output is for what a program reads."""
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(line)


@contextmanager
def progress_bar(job: Job, *, say: Callable[[str], None] | None = None) -> Iterator[OnProgress]:
    """Shows what goes on with a model while the block runs.

    Args:
        job: the model.
        say: where there is no terminal, gets a line when something begins; None says nothing.

    Yields:
        What the store is to call.
    """
    console = Console(stderr=True)
    if console.is_terminal:
        with _bar(job, console) as update:
            yield update
    else:
        yield _lines(job, say)


@contextmanager
def _bar(job: Job, console: Console) -> Iterator[OnProgress]:
    done_of: dict[str, int] = {}
    columns = (
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=_BAR_WIDTH),
        TextColumn("{task.fields[size]}", table_column=Column(no_wrap=True)),
        _TimeLeft(table_column=Column(no_wrap=True)),
    )
    # A bar that is over leaves no trace: its caller says how it ended.
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"{job.place}  {job.name}", total=job.bytes, size="")

        def update(file: str, done: int, _: int, stage: str) -> None:
            # A file that is joined from its wheels is counted once, and never runs backwards.
            done_of[file] = max(done, done_of.get(file, 0))
            completed = min(sum(done_of.values()), job.bytes)
            bar.update(
                task,
                description=f"{job.place}  {job.name}  {stage}",
                completed=completed,
                size=f"{completed / 1e6:,.0f}/{megabytes(job.bytes)}",
            )

        yield update


def _lines(job: Job, say: Callable[[str], None] | None) -> OnProgress:
    said: set[str] = set()

    def update(file: str, done: int, total: int, stage: str) -> None:
        verb = _VERBS.get(stage, "fetching")
        if say is not None and verb not in said:
            said.add(verb)
            say(f"{verb} {job.name}, {megabytes(job.bytes)}, {job.place}")

    return update


class _TimeLeft(ProgressColumn):
    """What is left at the average rate; until that is known, how long it has taken."""

    def render(self, task: Task) -> Text:
        """The column of a task."""
        elapsed = task.elapsed or 0.0
        if task.total and task.completed and elapsed > _ESTIMATE_AFTER_S:
            left = elapsed * (task.total - task.completed) / task.completed
            return Text(f"{_clock(left)} left")
        return Text(_clock(elapsed))


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def megabytes(count: int) -> str:
    """Bytes in words."""
    return f"{count / 1e6:,.0f} MB"
