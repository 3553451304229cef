"""Functions that every conversation is offered: the built-in ones, and those of MCP servers."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from pipeline.config_schema import Config
from services.clock_tool import clock_tool
from services.mcp_servers import McpServers, McpServerSpec
from services.tools import DaemonTool


class ToolShelf:
    """Those that the configuration names.

    Args:
        config: of the daemon.
    """

    def __init__(self, config: Config) -> None:
        tools, zone = config.tools, config.xiaozhi.time_zone
        self._built_in = (clock_tool(ZoneInfo(zone) if zone else None),) if tools.clock else ()
        self._servers = McpServers(
            {
                name: McpServerSpec(
                    command=server.command,
                    env=server.env,
                    url=server.url or "",
                    token=server.token.get_secret_value() if server.token else "",
                    only=server.only,
                    timeout_s=server.timeout_s,
                )
                for name, server in tools.mcp.items()
            }
        )

    def tools(self) -> tuple[DaemonTool, ...]:
        """As they are now."""
        return (*self._built_in, *self._servers.tools)

    async def start(self) -> None:
        """Connects to the servers."""
        await self._servers.start()

    async def close(self) -> None:
        """Disconnects. Idempotent."""
        await self._servers.close()
