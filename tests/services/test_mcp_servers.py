"""Invariants: functions of MCP servers are called by whichever way they are reached; one that is
not there, or dies, costs nobody more than its functions, and comes back.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services import mcp_servers
from services.mcp_servers import McpServers, McpServerSpec
from tests.daemon.inside import settled
from tts_engine.errors import EngineFailed

PROGRAM = '''
import os, sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("test")

@server.tool()
def add(a: int, b: int) -> str:
    """Adds."""
    return str(a + b)

@server.tool(name="self.lamp")
def lamp() -> str:
    raise ValueError("the lamp is broken")

@server.tool()
def die() -> str:
    os._exit(3)

if len(sys.argv) > 1:
    server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run(transport="stdio")
'''


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
        tools = await present(servers, 3)
        assert set(tools) == {"add", "self_lamp", "die"}
        assert tools["add"].tool.description == "Adds."
        assert set(tools["add"].tool.parameters["properties"]) == {"a", "b"}
        assert await tools["add"].run({"a": 2, "b": 3}) == "5"
        with pytest.raises(EngineFailed, match="lamp"):
            await tools["self_lamp"].run({})


async def test_some_of_them_and_the_same_from_two(program: list[str]) -> None:
    some = McpServerSpec(command=program, only=["add"])
    async with connected(one=some, two=some) as servers:
        tools = await present(servers, 2)
        assert set(tools) == {"add", "two_add"}
        assert await tools["two_add"].run({"a": 1, "b": 1}) == "2"


async def test_an_address(program: list[str], unused_tcp_port: int) -> None:
    process = await asyncio.create_subprocess_exec(
        *program, str(unused_tcp_port), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        spec = McpServerSpec(url=f"http://127.0.0.1:{unused_tcp_port}/mcp", token="x")
        async with connected(test=spec) as servers:  # it may be there only later
            tools = await present(servers, 3)
            assert await tools["add"].run({"a": 2, "b": 2}) == "4"
    finally:
        process.kill()
        await process.wait()


async def test_one_that_is_not_there(monkeypatch: pytest.MonkeyPatch, program: list[str]) -> None:
    monkeypatch.setattr(mcp_servers, "_START_S", 0.1)
    absent = McpServerSpec(command=["/nowhere/at-all"])
    async with connected(absent=absent, test=McpServerSpec(command=program)) as servers:
        assert await present(servers, 3)


async def test_one_that_dies_comes_back(
    monkeypatch: pytest.MonkeyPatch, program: list[str]
) -> None:
    monkeypatch.setattr(mcp_servers, "_ASK_EVERY_S", 0.2)
    monkeypatch.setattr(mcp_servers, "_FIRST_PAUSE_S", 0.1)
    async with connected(test=McpServerSpec(command=program)) as servers:
        tools = await present(servers, 3)
        with pytest.raises(Exception):  # noqa: B017 - whatever the SDK makes of it
            async with asyncio.timeout(5):
                await tools["die"].run({})
        await settled(lambda: servers.tools == () or "add" not in tools, "it is gone")
        again = await present(servers, 3)
        assert await again["add"].run({"a": 1, "b": 2}) == "3"


async def test_none() -> None:
    async with connected() as servers:
        assert servers.tools == ()
