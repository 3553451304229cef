"""How an expected failure is shown: to the person at the terminal, and to a program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from tts_engine.errors import DuplexdError


def complain(error: DuplexdError) -> None:
    """Says what failed and what mends it, on standard error."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), error.message))
    if error.mend:
        console.print(Text.assemble(("fix:   ", "bold green"), error.mend))


@contextmanager
def failures_as_json(wanted: bool) -> Iterator[None]:
    """A program that reads our standard output gets its one object also when the command fails."""
    try:
        yield
    except Exception as error:
        if wanted:
            expected = isinstance(error, DuplexdError)
            details = {
                "code": error.code if expected else "internal",
                "message": error.message if expected else repr(error),
                "mend": error.mend if expected else "",
            }
            typer.echo(json.dumps({"error": details}, ensure_ascii=False))
        raise
