"""The built-in function that tells time and date."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from services.tools import DaemonTool, Tool

NAME = "get_time"


def clock_tool(
    zone: ZoneInfo | None = None, *, now: Callable[[ZoneInfo | None], datetime] = datetime.now
) -> DaemonTool:
    """Tells the time.

    Args:
        zone: None: that of this machine.
        now: the time in a zone.
    """

    async def run(_: dict[str, Any]) -> str:
        return now(zone).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %A, UTC%z")

    return DaemonTool(
        tool=Tool(
            name=NAME,
            description="Tells the current date, time and day of the week. "
            "告诉你现在的日期、时间和星期。",
            parameters={"type": "object", "properties": {}},
        ),
        run=run,
    )
