"""Commands whose --help shows no type beside a flag, as `--json <bool>` says nothing, and whose
paragraphs are broken where the terminal ends, not where the source's lines do.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption


class PlainCommand(TyperCommand):
    """A command with plain help."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        paragraphs = (self.help or "").split("\n\n")
        self.help = "\n\n".join(" ".join(each.split()) for each in paragraphs)

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, --help included."""
        return _plain(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group with plain help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, --help included."""
        return _plain(super().get_params(ctx))


def _plain(params: list[Any]) -> list[Any]:
    for param in params:
        if isinstance(param, TyperOption) and param.is_bool_flag:
            param.metavar = ""
    return params
