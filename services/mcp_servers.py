"""Servers of functions that speak MCP, by the official SDK: connected once for all conversations.

Each has a task of its own, which connects, asks for its functions, and connects again when the
server has gone; without it its functions are not offered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
from loguru import logger

from services.tools import DaemonTool, Tool
from services.xiaozhi.mcp import free_name
from tts_engine.errors import EngineFailed

#: how long the start of the daemon waits for the servers, seconds
_START_S = 5.0
#: between attempts to connect, seconds; doubled each time
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
#: how often a connected server is asked whether it is there, seconds
_ASK_EVERY_S = 30.0
_MOST_PAGES = 32
_MOST_RESULT = 16_000


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerSpec:
    """How a server is reached.

    Parameters:
        command: program and arguments; empty: it has an address.
        env: variables for the program.
        url: the address.
        token: is sent there; empty: none.
        only: functions that are offered; empty: all.
        timeout_s: limit of one call.
    """

    command: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    token: str = ""
    only: Sequence[str] = ()
    timeout_s: float = 15.0


class McpServers:
    """All of them.

    Args:
        specs: by name.
    """

    def __init__(self, specs: Mapping[str, McpServerSpec]) -> None:
        self._servers = [_Server(name, spec) for name, spec in specs.items()]

    @property
    def tools(self) -> tuple[DaemonTool, ...]:
        """Functions of the servers that are there; of two with the same name the second gets its
        server's name in front.
        """
        found: dict[str, DaemonTool] = {}
        for server in self._servers:
            for each in server.tools:
                name = each.tool.name
                if name in found:
                    name = free_name(f"{server.name}_{name}", found)
                    each = _renamed(each, name)
                found[name] = each
        return tuple(found.values())

    async def start(self) -> None:
        """Connects; a server that takes long is not waited for."""
        if not self._servers:
            return
        for server in self._servers:
            server.start()
        waits = [asyncio.create_task(server.met.wait()) for server in self._servers]
        _, pending = await asyncio.wait(waits, timeout=_START_S)
        for each in pending:
            each.cancel()

    async def close(self) -> None:
        """Disconnects, and ends the programs. Idempotent."""
        for server in self._servers:
            await server.close()


class _Server:
    def __init__(self, name: str, spec: McpServerSpec) -> None:
        self.name = name
        self.tools: tuple[DaemonTool, ...] = ()
        #: the first attempt to connect has ended
        self.met = asyncio.Event()
        self._spec = spec
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"MCP server {self.name}")

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self.tools = ()

    async def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await self._stay()
            except Exception as error:
                logger.warning("MCP server {} is not there: {}", self.name, _cause(error))
            if self.tools:
                pause_s = _FIRST_PAUSE_S
            self.tools = ()
            self.met.set()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _stay(self) -> None:
        """Connects, and returns or raises when the server has gone."""
        from mcp import Client  # it takes its time to import, and few need it
        from mcp.client.stdio import StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client

        spec = self._spec
        if spec.command:
            program, *arguments = spec.command
            transport: Any = stdio_client(
                StdioServerParameters(command=program, args=arguments, env=dict(spec.env))
            )
        else:
            headers = {"Authorization": f"Bearer {spec.token}"} if spec.token else {}
            http = httpx2.AsyncClient(headers=headers, timeout=spec.timeout_s)
            transport = streamable_http_client(spec.url, http_client=http)
        async with Client(transport, read_timeout_seconds=spec.timeout_s) as client:
            self.tools = await self._list(client)
            logger.info("MCP server {}: {} functions", self.name, len(self.tools))
            self.met.set()
            while True:
                await asyncio.sleep(_ASK_EVERY_S)
                self.tools = await self._list(client)

    async def _list(self, client: Any) -> tuple[DaemonTool, ...]:
        described: list[Any] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await client.list_tools(cursor=cursor, cache_mode="refresh")
            described += page.tools
            cursor = page.next_cursor
            if not cursor:
                break
        wanted = self._spec.only
        names: dict[str, Any] = {}
        for each in described:
            if not wanted or each.name in wanted:
                names[free_name(each.name, names)] = each
        return tuple(self._tool(client, name, each) for name, each in names.items())

    def _tool(self, client: Any, name: str, described: Any) -> DaemonTool:
        async def run(arguments: dict[str, Any]) -> str:
            result = await client.call_tool(described.name, arguments)
            parts = (getattr(each, "text", "") for each in result.content)
            text = "\n".join(filter(None, parts))[:_MOST_RESULT]
            if result.is_error:
                raise EngineFailed(text or f"{described.name} failed")
            return text or "done"

        return DaemonTool(
            tool=Tool(
                name=name,
                description=described.description or "",
                parameters=described.input_schema or {},
            ),
            run=run,
            timeout_s=self._spec.timeout_s,
        )


def _renamed(each: DaemonTool, name: str) -> DaemonTool:
    tool = Tool(name=name, description=each.tool.description, parameters=each.tool.parameters)
    return DaemonTool(tool=tool, run=each.run, timeout_s=each.timeout_s, lane=each.lane)


def _cause(error: BaseException) -> str:
    """The first failure of a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
