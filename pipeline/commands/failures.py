"""How an expected failure is shown to the person at the terminal."""

from __future__ import annotations

from tts_engine.errors import DuplexdError


def complain(error: DuplexdError) -> None:
    """Says what failed and what mends it, on standard error."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), error.message))
    if error.mend:
        console.print(Text.assemble(("fix:   ", "bold green"), error.mend))
