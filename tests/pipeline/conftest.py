from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeline import cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the environment sets a key, and the terminal has a width."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL", "DUPLEXD_MODELS"):
        monkeypatch.delenv(name, raising=False)
    # Set and taken away again, so that what --debug sets ends with the test.
    monkeypatch.setenv(cli.DEBUG, "1")
    monkeypatch.delenv(cli.DEBUG)
    monkeypatch.setenv("COLUMNS", "100")


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
