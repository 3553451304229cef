# pyright: strict
"""Functions that the language model may ask for: how they are described and chosen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function of the client's that the language model may ask for.

    Parameters:
        parameters: JSON schema of its arguments.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonTool:
    """A function that the daemon runs itself.

    Parameters:
        run: gets the arguments, an object as the language model wrote it, and returns the result
            as text. What it raises is told to the language model as a failure.
        timeout_s: longest wait for it.
        lane: calls of the same lane are made one after the other; a device does one thing at a
            time.
        answered: what it gives is answered. False: nothing follows the answer that calls it.
    """

    tool: Tool
    run: Callable[[dict[str, Any]], Awaitable[str]]
    timeout_s: float = 10.0
    lane: str = ""
    answered: bool = True


@dataclass(frozen=True, slots=True)
class NamedTool:
    """The function that must be called."""

    name: str


ToolChoice = Literal["auto", "none", "required"] | NamedTool


def may_choose(choice: ToolChoice, tools: Sequence[Tool]) -> bool:
    """A function that must be called has to be among the tools."""
    return not isinstance(choice, NamedTool) or any(tool.name == choice.name for tool in tools)
