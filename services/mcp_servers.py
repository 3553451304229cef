"""Servers of functions that speak MCP, by the official SDK: connected once for all conversations.

Each has a task of its own, which connects, asks for its functions, and connects again when the
server has gone; without it its functions are not offered. A call that finds it gone wakes the task.
Calls share the one client and run at the same time: it tells their results apart by their numbers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
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
                    each = replace(each, tool=replace(each.tool, name=name))
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
        self._client: Any = None  # while it is there
        self._since: float | None = None  # it was there, by the loop's clock
        self._needed = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"MCP server {self.name}")

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self.tools = ()

    async def _run(self) -> None:
        now = asyncio.get_running_loop().time
        pause_s = _FIRST_PAUSE_S
        while True:
            self._since = None
            try:
                await self._stay()
            except Exception as error:
                logger.warning("MCP server {} is not there: {}", self.name, _cause(error))
            self.met.set()
            if self._since is None:
                await self._rest(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            pause_s = _FIRST_PAUSE_S
            if now() - self._since < _FIRST_PAUSE_S:  # it dies as soon as it is there
                await self._rest(_FIRST_PAUSE_S)

    async def _rest(self, longest_s: float) -> None:
        """Waits, but no longer than until a call needs the server."""
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self._needed.wait()
        self._needed.clear()

    async def _stay(self) -> None:
        """Connects, and returns or raises when the server has gone."""
        from mcp import Client  # it takes its time to import, and few need it

        timeout_s = self._spec.timeout_s
        async with Client(_transport(self._spec), read_timeout_seconds=timeout_s) as client:
            tools = await self._list(client)
            logger.info("MCP server {}: {} functions", self.name, len(tools))
            self._client, self._since = client, asyncio.get_running_loop().time()
            try:
                while self._client is client:
                    self.tools = tools
                    self.met.set()
                    await self._rest(_ASK_EVERY_S)
                    if self._client is client:
                        tools = await self._list(client)
            finally:
                self._client, self.tools = None, ()

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
        return tuple(self._tool(name, each) for name, each in names.items())

    def _tool(self, name: str, described: Any) -> DaemonTool:
        async def run(arguments: dict[str, Any]) -> str:
            return await self._call(described.name, arguments)

        return DaemonTool(
            tool=Tool(
                name=name,
                description=described.description or "",
                parameters=described.input_schema or {},
            ),
            run=run,
            timeout_s=self._spec.timeout_s,
        )

    async def _call(self, function: str, arguments: dict[str, Any]) -> str:
        """Calls a function.

        Raises:
            EngineFailed: the server is not there, or the function failed.
            TimeoutError: it did not answer in time.
        """
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        client = self._client
        if client is None:
            raise self._absent()
        try:
            result = await client.call_tool(function, arguments)
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                self._needed.set()  # it is slow, or gone
                raise TimeoutError from None
            # What a server says that has forgotten the session is told from a function's own error
            # by asking it for something else.
            if error.code == CONNECTION_CLOSED or not await _answers(client):
                raise self._absent(client) from None
            raise EngineFailed(f"{function} failed: {error}") from None
        text = _text(result)
        if result.is_error:
            raise EngineFailed(text or f"{function} failed")
        return text or "done"

    def _absent(self, client: Any = None) -> EngineFailed:
        """A call finds that the server is not there: it is connected again at once."""
        if self._client is client:
            self._client, self.tools = None, ()
            self._needed.set()
        return EngineFailed(f"The MCP server {self.name} is not there")


@asynccontextmanager
async def _transport(spec: McpServerSpec) -> AsyncIterator[Any]:
    """The way to a server, which is closed with all that belongs to it."""
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if spec.command:
        program, *arguments = spec.command
        parameters = StdioServerParameters(command=program, args=arguments, env=dict(spec.env))
        async with stdio_client(parameters) as streams:
            yield streams
    else:
        headers = {"Authorization": f"Bearer {spec.token}"} if spec.token else {}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=spec.timeout_s) as http,
            streamable_http_client(spec.url, http_client=http) as streams,
        ):
            yield streams


async def _answers(client: Any) -> bool:
    from mcp import MCPError

    try:
        await client.list_tools(cache_mode="refresh")
    except MCPError:
        return False
    return True


def _text(result: Any) -> str:
    """What a result says: its text, or what it has instead."""
    parts = (getattr(each, "text", "") for each in result.content)
    text = "\n".join(filter(None, parts))
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    return text[:_MOST_RESULT]


def _cause(error: BaseException) -> str:
    """The first failure of a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
