"""Invariants: the server speaks to a device's tool server in the way that it understands, and a
tool is called by voice, end to end, with a language model's server that streams the call in pieces.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from services.scripted.llm_script import LlmRequest, LlmScript
from services.scripted.llm_server import ScriptedLlmServer
from services.scripted.spec import ScriptedTexts
from tests.daemon.inside import Inside, inside
from tests.xiaozhi.device import SENTENCE, START, STOP, Device, connected
from tests.xiaozhi.order import HELLO, STT, answers
from tests.xiaozhi.turn import turn

MCP = ("mcp", "")
VOLUME, CAMERA = "self.audio_speaker.set_volume", "self.camera.take_photo"
CALL = '@call self_audio_speaker_set_volume {"volume": 30}@then 音量{tool}了。'
TOOLS: list[dict[str, Any]] = [
    {
        "name": "self.get_device_status",
        "description": f"Call it before {VOLUME}.",
        "inputSchema": {"type": "object", "properties": {}},
    },
    {
        "name": VOLUME,
        "description": "Set the volume.",
        "inputSchema": {
            "type": "object",
            "properties": {"volume": {"type": "integer", "minimum": 0, "maximum": 100}},
            "required": ["volume"],
        },
    },
    {
        "name": "self.reboot",
        "description": "Reboot the system",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"audience": ["user"]},
    },
]


class Firmware:
    """The tool server of the firmware, with a tool a page.

    Parameters:
        page_fails: a page of tools cannot be sent.
        silent: it answers nothing until this is set.
        held: calls are not answered; they stay in `calls`.
    """

    def __init__(
        self, *, page_fails: bool = False, silent: asyncio.Event | None = None, held: bool = False
    ) -> None:
        self.volume = 70
        self.asked: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.page_fails = page_fails
        self.silent = silent
        self.held = held
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, device: Device) -> None:
        """Answers a device's requests."""
        self.device = device
        device.tools = self.receive

    def receive(self, payload: dict[str, Any]) -> dict[str, Any] | None:
        """A message: an answer, or None. What the firmware would not take is an error here."""
        assert payload["jsonrpc"] == "2.0"
        assert isinstance(payload.get("params", {}), dict)
        self.asked.append(payload)
        if payload["method"].startswith("notifications"):
            assert "id" not in payload
            return None
        assert type(payload["id"]) is int
        assert payload["id"] not in [each.get("id") for each in self.asked[:-1]]
        if payload["method"] == "tools/call":
            self.calls.append(payload)
            return None if self.held else self.run(payload)
        if self.silent is not None:
            task = asyncio.create_task(self._later(payload, self.silent))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return None
        return self.describe(payload)

    async def _later(self, payload: dict[str, Any], when: asyncio.Event) -> None:
        await when.wait()
        await self.device.send("mcp", payload=self.describe(payload))

    def describe(self, payload: dict[str, Any]) -> dict[str, Any]:
        """What it is, and what it can do."""
        if payload["method"] == "initialize":
            vision = payload["params"]["capabilities"]["vision"]
            assert vision["url"].startswith(("http://", "https://"))
            assert isinstance(vision["token"], str)
            return self.result(
                payload,
                {
                    "protocolVersion": "2024-11-05",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "bread-compact-wifi", "version": "2.4.2"},
                },
            )
        assert payload["method"] == "tools/list"
        cursor = payload["params"]["cursor"]
        at = next((at for at, each in enumerate(TOOLS) if each["name"] == cursor), 0)
        if self.page_fails and at == 1:
            return self.error(payload, f"Failed to add tool {cursor} because of payload size limit")
        following = TOOLS[at + 1]["name"] if at + 1 < len(TOOLS) else ""
        page = {"tools": [TOOLS[at]], **({"nextCursor": following} if following else {})}
        return self.result(payload, page)

    def run(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Sets the volume."""
        assert payload["params"]["name"] == VOLUME
        arguments = payload["params"]["arguments"]
        if not isinstance(arguments.get("volume"), int):
            return self.error(payload, "Missing valid argument: volume")
        self.volume = arguments["volume"]
        content = [{"type": "text", "text": f"是{self.volume}"}]
        return self.result(payload, {"content": content, "isError": False})

    @staticmethod
    def result(payload: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": payload["id"], "result": result}

    @staticmethod
    def error(payload: dict[str, Any], message: str) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": payload["id"], "error": {"message": message}}


@asynccontextmanager
async def daemon_with(*replies: str) -> AsyncIterator[tuple[Inside, LlmScript]]:
    """A daemon whose language model is a server that streams, and calls tools."""
    script = LlmScript(texts=ScriptedTexts(replies=list(replies)), tokens_per_s=400)
    async with ScriptedLlmServer(script=script) as llm:
        sets = {"llm.provider": "openai", "llm.base_url": llm.base_url, "llm.model": "scripted"}
        async with inside(sets) as daemon:
            script.requests.clear()
            yield daemon, script


@asynccontextmanager
async def equipped(
    daemon: Inside, firmware: Firmware, *, version: int = 1
) -> AsyncIterator[Device]:
    """A device with tools that are known."""
    async with connected(daemon.address, version=version) as device:
        firmware.serve(device)
        await device.hello(features={"mcp": True})
        await known(firmware, device)
        yield device


async def known(firmware: Firmware, device: Device) -> None:
    """Waits until the last page of tools was taken."""
    pages = len(TOOLS)
    await device.until(
        lambda: len([each for each in firmware.asked if each["method"] == "tools/list"]) == pages,
        "the last page",
    )
    for count in (1, 2):
        await device.send("ping")
        await device.wait(("pong", ""), count)


def offered(request: LlmRequest) -> dict[str, dict[str, Any]]:
    """The functions that a language model was offered."""
    tools = request.body.get("tools", [])
    return {each["function"]["name"]: each["function"] for each in tools}


def shown(device: Device) -> str:
    """All subtitles."""
    return "".join(each.body["text"] for each in device.of(SENTENCE) if each.body)


# --- what can you do? -------------------------------------------------------------------------
async def test_tools_are_asked_for_page_by_page() -> None:
    """Checklist: MCP: initialize right after the hello, then all pages; ids are numbers, each once;
    tools for users only are not offered; names are such as language models' servers take.
    """
    firmware = Firmware()
    async with daemon_with("好的。") as (daemon, script), equipped(daemon, firmware) as device:
        assert device.kinds[:2] == [HELLO, MCP]
        assert [each["method"] for each in firmware.asked] == [
            "initialize",
            "notifications/initialized",
            *["tools/list"] * 3,
        ]
        lists = [each["params"] for each in firmware.asked if each["method"] == "tools/list"]
        assert [each["cursor"] for each in lists] == ["", VOLUME, "self.reboot"]
        assert all(each["withUserTools"] is False for each in lists)
        await turn(device)
        functions = offered(script.requests[0])
        assert {"self_get_device_status", "self_audio_speaker_set_volume"} <= functions.keys()
        assert not [name for name in functions if "reboot" in name]
        about = functions["self_get_device_status"]["description"]
        assert about == "Call it before self_audio_speaker_set_volume."
        schema = functions["self_audio_speaker_set_volume"]["parameters"]
        assert schema["properties"]["volume"]["maximum"] == 100


async def test_a_device_without_tools_is_asked_nothing() -> None:
    """Checklist: MCP only where the hello says so."""
    async with daemon_with("好的。") as (daemon, _), connected(daemon.address) as device:
        await device.hello(features={"mcp": False})
        await turn(device)
        assert not device.of(MCP)


async def test_a_page_that_fails_does_no_harm() -> None:
    """Checklist: MCP error in the list of tools: the conversation goes on."""
    firmware = Firmware(page_fails=True)
    async with daemon_with("好的。") as (daemon, _), connected(daemon.address) as device:
        firmware.serve(device)
        await device.hello(features={"mcp": True})
        await turn(device)
        await turn(device)
        answers(device.told)


async def test_tools_that_are_told_late_are_known_from_then_on() -> None:
    """Checklist: MCP: audio is not kept waiting, and the list is taken when it comes."""
    come = asyncio.Event()
    firmware = Firmware(silent=come)
    async with (
        daemon_with("好的。", CALL) as (daemon, script),
        connected(daemon.address) as device,
    ):
        firmware.serve(device)
        await device.hello(features={"mcp": True})
        await turn(device)
        assert "self_audio_speaker_set_volume" not in offered(script.requests[0])
        come.set()
        await known(firmware, device)
        await turn(device)
        assert firmware.volume == 30


# --- calls ------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", [1, 2, 3])
async def test_the_volume_is_set_by_voice_and_the_result_is_spoken(version: int) -> None:
    """Checklist: a tool call by voice, streamed in pieces by the language model's server."""
    firmware = Firmware()
    async with (
        daemon_with(CALL) as (daemon, script),
        equipped(daemon, firmware, version=version) as device,
    ):
        await turn(device)
        assert firmware.volume == 30
        assert [each["params"] for each in firmware.calls] == [
            {"name": VOLUME, "arguments": {"volume": 30}}
        ]
        assert shown(device) == "音量是30了。"
        seen = answers(device.told)
        assert len(seen.played) == 1  # one start, one stop
        assert seen.played[0] > 5
        assert script.requests[0].tokens >= 3  # its arguments came in pieces
        [asked, told] = script.requests[1].messages[-2:]
        assert asked["tool_calls"][0]["function"]["name"] == "self_audio_speaker_set_volume"
        assert told["role"] == "tool"
        assert told["content"] == "是30"
        await turn(device)
        assert len(firmware.calls) == 2
        assert len(device.of(STT)) == 2


async def test_an_error_of_a_tool_is_said_and_the_next_turn_works() -> None:
    """Checklist: MCP error of a call: it has a message and no code."""
    firmware = Firmware()
    call = '@call self_audio_speaker_set_volume {"volume": "loud"}@then 不行：{tool}。'
    async with daemon_with(call, CALL) as (daemon, _), equipped(daemon, firmware) as device:
        await turn(device)
        assert "Missing valid argument" in shown(device)
        assert not answers(device.told).speaking
        await turn(device)
        assert firmware.volume == 30


async def test_a_reply_that_comes_too_late_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checklist: MCP late reply: the model was told that none came, and the next call is not taken
    for answered.
    """
    monkeypatch.setattr("services.xiaozhi.mcp._CALL_S", 0.3)
    firmware = Firmware(held=True)
    async with daemon_with(CALL) as (daemon, _), equipped(daemon, firmware) as device:
        await turn(device)
        assert "了" in shown(device)
        assert "30" not in shown(device)
        late = firmware.calls[0]
        await device.listen()
        await device.speak()
        await device.until(lambda: len(firmware.calls) == 2, "the second call")
        await device.send("mcp", payload=firmware.run(late))  # the first one's, during the second
        await device.send("mcp", payload={**firmware.run(late), "id": "1"})
        await device.send("mcp", payload=firmware.run(firmware.calls[1]))
        await device.wait(STOP, 2)
        assert shown(device).endswith("音量是30了。")
        assert len(device.of(START)) == 2
        answers(device.told)


async def test_calls_are_made_one_after_the_other() -> None:
    """Checklist: MCP: a device runs one call at a time."""
    firmware = Firmware(held=True)
    both = (
        '@call self_audio_speaker_set_volume {"volume": 10}'
        '@call self_audio_speaker_set_volume {"volume": 20}@then 好了。'
    )
    async with daemon_with(both) as (daemon, _), equipped(daemon, firmware) as device:
        await device.listen()
        await device.speak()
        for count in (1, 2):
            await device.until(lambda n=count: len(firmware.calls) == n, f"call {count}")
            await asyncio.sleep(0.1)
            assert len(firmware.calls) == count
            await device.send("mcp", payload=firmware.run(firmware.calls[-1]))
        await device.wait(STOP)
        assert firmware.volume == 20
        assert shown(device) == "好了。"


async def test_an_abort_while_a_tool_works() -> None:
    """Checklist: abort while a tool works: one stop, the late result is nobody's, the next turn
    works.
    """
    firmware = Firmware(held=True)
    async with daemon_with(CALL, "好的。") as (daemon, _), equipped(daemon, firmware) as device:
        await device.listen()
        await device.speak()
        await device.until(lambda: bool(firmware.calls), "the call")
        await device.abort()
        await device.wait(STOP)
        count = len(device.told)
        await device.send("mcp", payload=firmware.run(firmware.calls[0]))
        await asyncio.sleep(0.5)
        assert device.told[count:] == []
        await turn(device)
        assert shown(device) == "好的。"
        answers(device.told, aborts=1)


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"jsonrpc": "2.0", "id": 2},
        {"jsonrpc": "2.0", "id": None, "result": []},
        {"jsonrpc": "2.0", "id": 3, "result": {"tools": 7, "nextCursor": 7}},
        {"jsonrpc": "2.0", "id": 3, "result": {"tools": [7, {"name": 7}, {}], "nextCursor": "x"}},
        {"jsonrpc": "2.0", "id": 3, "error": "broken"},
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
        {"jsonrpc": "2.0", "id": 9, "method": "sampling/createMessage", "params": {}},
    ],
    ids=json.dumps,
)
async def test_what_no_tool_server_would_send(payload: dict[str, Any]) -> None:
    """Checklist: MCP: answers that are none do no harm."""
    async with daemon_with("好的。") as (daemon, _), connected(daemon.address) as device:
        device.tools = lambda asked: (
            {**payload, "id": asked["id"]} if "id" in payload and "id" in asked else payload
        )
        await device.hello(features={"mcp": True})
        await turn(device)
        assert len(device.of(MCP)) < 50
        answers(device.told)
