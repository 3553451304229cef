from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loguru import logger

from pipeline import cli
from pipeline.access import KEY_VARIABLE
from pipeline.config import ENVIRONMENT

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable sets a key, the user's data folder is empty, and the terminal has a width."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in (*ENVIRONMENT, KEY_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    # Set and taken away again, so that what --debug sets ends with the test.
    monkeypatch.setenv(cli.DEBUG, "1")
    monkeypatch.delenv(cli.DEBUG)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def own_log() -> Iterator[None]:
    """A command sets up the log of its process; this one gets its own back."""
    yield
    logger.remove()
    logger.add(lambda line: sys.stderr.write(line))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process: exit code, standard output, standard error."""

    def call(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            cli.main(args)
        out, err = capsys.readouterr()
        code = caught.value.code
        assert isinstance(code, int)
        return code, out, err

    return call
