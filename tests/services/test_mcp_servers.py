"""Invariants: functions of MCP servers are called by whichever way they are reached; one that is
not there, or dies, costs nobody more than its functions, and comes back; calls of one server run at
the same time.
"""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import mcp
import pytest

from services import mcp_servers
from services.mcp_servers import McpServers, McpServerSpec
from tests.daemon.inside import settled
from tts_engine.errors import EngineFailed

PROGRAM = '''
import asyncio, os, sys
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent

server = MCPServer("test")
inside = []
both = asyncio.Event()

@server.tool()
def add(a: int, b: int) -> str:
    """Adds."""
    return str(a + b)

@server.tool(name="self.lamp")
def lamp() -> str:
    raise ValueError("the lamp is broken")

@server.tool()
async def die() -> str:
    os._exit(3)

@server.tool()
async def meet(who: str) -> str:
    inside.append(who)
    if len(inside) == 2:
        both.set()
    await both.wait()
    return who

@server.tool()
def facts(broken: bool) -> CallToolResult:
    facts = {"灯": "亮"}
    return CallToolResult(content=[], structured_content=facts, is_error=broken)

if len(sys.argv) > 1:
    server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run(transport="stdio")
'''


COUNT = 5
GONE = re.escape("The MCP server test is not there")


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    file = tmp_path / "server.py"
    file.write_text(PROGRAM)
    return [sys.executable, str(file)]


@asynccontextmanager
async def connected(**specs: McpServerSpec) -> AsyncIterator[McpServers]:
    servers = McpServers(specs)
    await servers.start()
    try:
        yield servers
    finally:
        await servers.close()
        assert servers.tools == ()


async def present(servers: McpServers, count: int) -> dict[str, mcp_servers.DaemonTool]:
    await settled(lambda: len(servers.tools) == count, f"{count} functions")
    return {each.tool.name: each for each in servers.tools}


async def test_a_program(program: list[str]) -> None:
    async with connected(test=McpServerSpec(command=program)) as servers:
        tools = await present(servers, COUNT)
        assert set(tools) == {"add", "self_lamp", "die", "meet", "facts"}
        assert tools["add"].tool.description == "Adds."
        assert set(tools["add"].tool.parameters["properties"]) == {"a", "b"}
        assert await tools["add"].run({"a": 2, "b": 3}) == "5"
        with pytest.raises(EngineFailed, match="lamp"):
            await tools["self_lamp"].run({})
        assert await tools["facts"].run({"broken": False}) == '{"灯": "亮"}'
        with pytest.raises(EngineFailed, match=re.escape('{"灯": "亮"}')):
            await tools["facts"].run({"broken": True})


async def test_some_of_them_and_the_same_from_two(program: list[str]) -> None:
    some = McpServerSpec(command=program, only=["add"])
    async with connected(one=some, two=some) as servers:
        tools = await present(servers, 2)
        assert set(tools) == {"add", "two_add"}
        assert await tools["two_add"].run({"a": 1, "b": 1}) == "2"


@asynccontextmanager
async def running(program: list[str], port: int) -> AsyncIterator[McpServerSpec]:
    """A server with an address."""
    process = await asyncio.create_subprocess_exec(
        *program, str(port), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield McpServerSpec(url=f"http://127.0.0.1:{port}/mcp", token="x")
    finally:
        process.kill()
        await process.wait()


async def test_an_address(program: list[str], unused_tcp_port: int) -> None:
    async with (
        running(program, unused_tcp_port) as spec,
        connected(test=spec) as servers,  # it may be there only later
    ):
        tools = await present(servers, COUNT)
        assert await tools["add"].run({"a": 2, "b": 2}) == "4"
        await met(tools)


async def met(tools: dict[str, mcp_servers.DaemonTool]) -> None:
    """Two calls run at the same time: each returns only when the other has begun."""
    async with asyncio.timeout(10):
        results = await asyncio.gather(*(tools["meet"].run({"who": who}) for who in "ab"))
    assert results == ["a", "b"]


async def test_calls_run_at_the_same_time(program: list[str]) -> None:
    async with connected(test=McpServerSpec(command=program)) as servers:
        await met(await present(servers, COUNT))


async def test_one_that_is_not_there(monkeypatch: pytest.MonkeyPatch, program: list[str]) -> None:
    monkeypatch.setattr(mcp_servers, "_START_S", 0.1)
    absent = McpServerSpec(command=["/nowhere/at-all"])
    async with connected(absent=absent, test=McpServerSpec(command=program)) as servers:
        assert await present(servers, COUNT)


async def test_one_that_dies_comes_back_when_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, program: list[str]
) -> None:
    monkeypatch.setattr(mcp_servers, "_ASK_EVERY_S", 600)
    async with connected(test=McpServerSpec(command=program)) as servers:
        tools = await present(servers, COUNT)
        for name, arguments in (("die", {}), ("add", {"a": 1, "b": 2})):
            with pytest.raises(EngineFailed, match=GONE):
                async with asyncio.timeout(10):
                    await tools[name].run(arguments)
            assert servers.tools == ()
        await present(servers, COUNT)
        assert await tools["add"].run({"a": 1, "b": 2}) == "3"  # also by whoever had it before


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[httpx2.AsyncClient]:
    """Those that were made."""
    made: list[httpx2.AsyncClient] = []

    class Noted(httpx2.AsyncClient):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            made.append(self)

    monkeypatch.setattr(httpx2, "AsyncClient", Noted)
    return made


async def test_an_address_comes_back_when_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
    program: list[str],
    unused_tcp_port: int,
    clients: list[httpx2.AsyncClient],
) -> None:
    monkeypatch.setattr(mcp_servers, "_ASK_EVERY_S", 600)
    monkeypatch.setattr(mcp_servers, "_LONGEST_PAUSE_S", 1)
    async with running(program, unused_tcp_port) as spec:
        servers = McpServers({"test": spec})
        await servers.start()
        tools = await present(servers, COUNT)
    try:
        for _ in range(2):
            with pytest.raises(EngineFailed, match=GONE):
                await tools["add"].run({"a": 1, "b": 2})
            assert servers.tools == ()
            async with running(program, unused_tcp_port):
                await present(servers, COUNT)
                assert await tools["add"].run({"a": 1, "b": 2}) == "3"
    finally:
        await servers.close()
    assert len(clients) >= 3
    assert all(client.is_closed for client in clients)


async def test_an_address_that_has_forgotten_who_calls(
    monkeypatch: pytest.MonkeyPatch, program: list[str], unused_tcp_port: int
) -> None:
    monkeypatch.setattr(mcp_servers, "_ASK_EVERY_S", 600)
    # The protocol up to 2025 had sessions, which a server loses when it starts anew.
    monkeypatch.setattr(mcp, "Client", partial(mcp.Client, mode="legacy"))
    async with running(program, unused_tcp_port) as spec:
        servers = McpServers({"test": spec})
        await servers.start()
        tools = await present(servers, COUNT)
    try:
        async with running(program, unused_tcp_port):
            await listening(unused_tcp_port)
            with pytest.raises(EngineFailed, match=GONE):
                await tools["add"].run({"a": 1, "b": 2})
            await present(servers, COUNT)
            assert await tools["add"].run({"a": 1, "b": 2}) == "3"
    finally:
        await servers.close()


async def listening(port: int) -> None:
    """Waits until somebody listens."""

    def heard() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    await settled(heard, "nobody listens")


async def test_an_error_of_the_server_is_no_sign_of_its_end(program: list[str]) -> None:
    async with connected(test=McpServerSpec(command=program)) as servers:
        tools = await present(servers, COUNT)
        with pytest.raises(EngineFailed, match="add"):
            await tools["add"].run({"a": "x"})
        assert len(servers.tools) == COUNT


async def test_one_that_takes_too_long(program: list[str]) -> None:
    spec = McpServerSpec(command=program, timeout_s=2.0)
    async with connected(test=spec) as servers:
        tools = await present(servers, COUNT)
        with pytest.raises(TimeoutError):
            await tools["meet"].run({"who": "a"})
        assert await tools["add"].run({"a": 1, "b": 2}) == "3"


async def test_none() -> None:
    async with connected() as servers:
        assert servers.tools == ()
