"""Invariants: a device's server is asked as it wants to be asked; every call ends, with a result or
an error; what comes late or unasked is nobody's.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.tools import DaemonTool
from services.xiaozhi import mcp
from services.xiaozhi.events import IotDescriptors, IotStates
from services.xiaozhi.iot import DeviceIot
from services.xiaozhi.mcp import DeviceMcp, free_name
from services.xiaozhi.messages import IotCommands
from tts_engine.errors import EngineFailed


class Server:
    """A device's, which answers what it is told to."""

    def __init__(self, *pages: dict[str, Any]) -> None:
        self.pages = list(pages)
        self.sent: list[dict[str, Any]] = []
        self.tools: list[tuple[DaemonTool, ...]] = []
        self.results: list[dict[str, Any]] = []
        self.client = DeviceMcp(
            send=self._take, vision=("http://here/vision", "token"), on_tools=self.tools.append
        )

    def _take(self, payload: dict[str, Any]) -> None:
        self.sent.append(payload)
        match payload["method"]:
            case "initialize":
                self.answer(payload, {"result": {}})
            case "tools/list":
                page = self.pages.pop(0)
                self.answer(payload, page if "error" in page else {"result": page})
            case "tools/call" if self.results:
                self.answer(payload, self.results.pop(0))
            case _:
                pass

    def answer(self, payload: dict[str, Any], body: dict[str, Any]) -> None:
        message = {"jsonrpc": "2.0", "id": payload["id"], **body}
        asyncio.get_running_loop().call_soon(self.client.receive, message)

    async def known(self) -> dict[str, DaemonTool]:
        self.client.start()
        async with asyncio.timeout(5):
            while not self.tools:  # noqa: ASYNC110
                await asyncio.sleep(0)
        return {each.tool.name: each for each in self.tools[-1]}


def text(words: str, **members: Any) -> dict[str, Any]:
    return {"result": {"content": [{"type": "text", "text": words}], **members}}


async def test_the_tools_of_all_pages_under_names_that_models_take() -> None:
    server = Server(
        {
            "tools": [
                {"name": "self.a", "description": "then self.a.b", "inputSchema": {"x": 1}},
                {"name": "self.reboot", "annotations": {"audience": ["user"]}},
                {"name": "self.both", "annotations": {"audience": ["user", "assistant"]}},
                {"name": 7},
                "nothing",
            ],
            "nextCursor": "self.a.b",
        },
        {"tools": [{"name": "self.a.b", "inputSchema": "none"}, {"name": "self a"}]},
    )
    tools = await server.known()
    assert set(tools) == {"self_a", "self_both", "self_a_b", "self_a_2"}
    assert tools["self_a"].tool.description == "then self_a_b"
    assert tools["self_a"].tool.parameters == {"x": 1}
    assert tools["self_a_b"].tool.parameters == {}
    assert {each.lane for each in tools.values()} == {"device"}
    ids = [each["id"] for each in server.sent if "id" in each]
    assert len(set(ids)) == len(ids) == 3
    assert server.sent[1] == {"jsonrpc": "2.0", "method": "notifications/initialized"}
    await server.client.close()


@pytest.mark.parametrize("bad", [["x"], {"a": 1}, None, "", 7])
async def test_a_tool_that_is_none_is_left_out(bad: Any) -> None:
    server = Server(
        {"tools": [{"name": "f"}, {"name": bad}, {}, bad, {"name": "f", "description": "again"}]}
    )
    tools = await server.known()
    assert set(tools) == {"f"}
    assert tools["f"].tool.description == ""


@pytest.mark.parametrize("silent", [False, True])
async def test_a_later_page_that_fails_costs_only_itself(
    monkeypatch: pytest.MonkeyPatch, *, silent: bool
) -> None:
    monkeypatch.setattr(mcp, "_ANSWER_S", 0.05 if silent else 10)
    failing = {"error": {"message": "Failed to add tool g because of payload size limit"}}
    server = Server({"tools": [{"name": "f"}], "nextCursor": "g"}, failing)
    if silent:
        server.answer = lambda payload, body: (  # type: ignore[method-assign]
            None if "error" in body else Server.answer(server, payload, body)
        )
    assert set(await server.known()) == {"f"}


async def test_a_first_page_that_fails_leaves_what_was_known() -> None:
    server = Server({"tools": [{"name": "f"}]}, {"error": {"message": "no"}})
    await server.known()
    server.client.receive({"method": "notifications/tools/list_changed"})
    async with asyncio.timeout(5):
        while server.pages:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    assert len(server.tools) == 1


async def test_results_and_errors() -> None:
    server = Server({"tools": [{"name": "self.camera.take_photo"}, {"name": "f"}]})
    tools = await server.known()
    assert tools["self_camera_take_photo"].timeout_s == 30
    run = tools["f"].run
    server.results = [text("true"), {"result": {"x": 1}}, {"result": 7}]
    assert [await run({}) for _ in range(3)] == ["true", '{"x": 1}', "{}"]
    server.results = [text("broken", isError=True), {"error": {"message": "no"}}]
    with pytest.raises(EngineFailed, match="broken"):
        await run({})
    with pytest.raises(EngineFailed, match="refuses tools/call: no"):
        await run({"a": 1})
    assert server.sent[-1]["params"] == {"name": "f", "arguments": {"a": 1}}


async def test_what_is_late_or_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "_CALL_S", 0.01)
    server = Server({"tools": [{"name": "f"}]}, {"tools": [{"name": "g"}]})
    tools = await server.known()
    with pytest.raises(EngineFailed, match="did not answer tools/call"):
        await tools["f"].run({})
    for late in (server.sent[-1]["id"], "1", None, True, 99):
        server.client.receive({"id": late, "result": {}})
    server.client.receive({"method": "notifications/tools/list_changed"})
    async with asyncio.timeout(5):
        while len(server.tools) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert [each.tool.name for each in server.tools[-1]] == ["g"]


async def test_a_device_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "_ANSWER_S", 0.01)
    sent: list[Any] = []
    client = DeviceMcp(send=sent.append, vision=("", ""), on_tools=lambda _: pytest.fail("none"))
    client.receive({"method": "notifications/tools/list_changed"})
    await client.close()
    client.start()
    await asyncio.sleep(0.1)
    assert [each["method"] for each in sent] == ["initialize"]
    await client.close()


async def test_the_end_ends_what_is_awaited() -> None:
    server = Server({"tools": [{"name": "f"}]})
    tools = await server.known()
    running = asyncio.create_task(tools["f"].run({}))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    await server.client.close()
    with pytest.raises(asyncio.CancelledError):
        await running


@given(st.lists(st.text(max_size=80), max_size=20))
def test_names(own: list[str]) -> None:
    names: dict[str, str] = {}
    for each in own:
        name = free_name(each, names)
        assert 0 < len(name) <= 64
        assert name not in names
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
        names[name] = each


async def test_things_of_old_devices() -> None:
    sent: list[IotCommands] = []
    tools: list[tuple[DaemonTool, ...]] = []
    iot = DeviceIot(send=sent.append, on_tools=tools.append)
    lamp = {
        "name": "Lamp",
        "description": "灯",
        "methods": {
            "TurnOn": {"description": "开灯", "parameters": {}},
            "Dim": {"parameters": {"to": {"type": "number", "description": "%"}, "x": 7}},
        },
    }
    iot.describe(IotDescriptors((lamp,)))
    iot.describe(IotDescriptors(({"name": "Fan", "methods": []}, {"methods": {}}), update=True))
    known = {each.tool.name: each for each in tools[-1]}
    assert set(known) == {"Lamp_TurnOn", "Lamp_Dim", "get_states"}
    assert known["Lamp_TurnOn"].tool.description == "灯: 开灯"
    assert known["Lamp_Dim"].tool.parameters["properties"]["to"] == {
        "type": "integer",
        "description": "%",
    }
    assert await known["Lamp_Dim"].run({"to": 5}) == "done"
    assert sent == [IotCommands(({"name": "Lamp", "method": "Dim", "parameters": {"to": 5}},))]
    iot.states(IotStates(({"name": "Lamp", "state": {"on": True}}, {"name": "Other"})))
    assert await known["get_states"].run({}) == '{"Lamp": {"on": true}}'
    iot.describe(IotDescriptors(()))
    assert tools[-1] == ()
