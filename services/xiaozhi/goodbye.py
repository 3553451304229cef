# pyright: strict
"""The function by which the language model ends a conversation with a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from services.tools import DaemonTool, Tool

NAME = "goodbye"


def goodbye_tool(leave: Callable[[], None]) -> DaemonTool:
    """Ends the conversation when the answer that calls it was played.

    Args:
        leave: is told that it was called.
    """

    async def run(_: dict[str, Any]) -> str:
        leave()
        return "done"

    return DaemonTool(
        tool=Tool(
            name=NAME,
            description="Ends the conversation. Call it when the user says goodbye or wants "
            "nothing more, and say goodbye in the same answer. "
            "结束对话。用户说再见、拜拜、没事了或者让你退下时调用，并在同一次回答里道别。",
            parameters={"type": "object", "properties": {}},
        ),
        run=run,
        answered=False,
    )
