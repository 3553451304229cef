"""Invariants: what a device can do the language model can ask for, by voice, and the result is
spoken; nobody waits in silence; the device is left in a state in which the next turn works.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.daemon.inside import Inside, inside
from tests.xiaozhi.device import SENTENCE, START, STOP, Device, connected

VOLUME = "self.audio_speaker.set_volume"
CALL = '@call self_audio_speaker_set_volume {"volume": 30}@then 好了，{tool}。'


class ToolServer:
    """A device's tool server.

    Parameters:
        delay: calls are not answered until this is set.
    """

    def __init__(self, *, delay: asyncio.Event | None = None, error: str = "") -> None:
        self.requests: list[dict[str, Any]] = []
        self.delay = delay
        self.error = error
        self.device: Device
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, payload: dict[str, Any]) -> dict[str, Any] | None:
        self.requests.append(payload)
        assert payload["jsonrpc"] == "2.0"
        if "id" not in payload:
            return None
        assert isinstance(payload["id"], int)
        assert isinstance(payload["params"], dict)
        match payload["method"]:
            case "initialize":
                result = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}}
            case "tools/list":
                result = self._page(payload["params"]["cursor"])
            case _:
                if self.delay is not None:
                    task = asyncio.create_task(self._later(payload, self.delay))
                    self._tasks.add(task)
                    return None
                return self._called(payload)
        return {"jsonrpc": "2.0", "id": payload["id"], "result": result}

    def _page(self, cursor: str) -> dict[str, Any]:
        schema = {"type": "object", "properties": {"volume": {"type": "integer"}}}
        if not cursor:
            status = {"name": "self.get_device_status", "description": "see " + VOLUME}
            reboot = {"name": "self.reboot", "annotations": {"audience": ["user"]}}
            return {"tools": [status, reboot], "nextCursor": VOLUME}
        return {"tools": [{"name": VOLUME, "description": "volume", "inputSchema": schema}]}

    def _called(self, payload: dict[str, Any]) -> dict[str, Any]:
        if self.error:
            error = {"message": self.error}
            return {"jsonrpc": "2.0", "id": payload["id"], "error": error}
        text = json.dumps(payload["params"]["arguments"].get("volume", "true"))
        result = {"content": [{"type": "text", "text": f"音量{text}"}], "isError": False}
        return {"jsonrpc": "2.0", "id": payload["id"], "result": result}

    async def _later(self, payload: dict[str, Any], delay: asyncio.Event) -> None:
        await delay.wait()
        await self.device.send("mcp", payload=self._called(payload))

    def close(self) -> None:
        """Nothing is answered any more."""
        for task in self._tasks:
            task.cancel()

    def calls(self) -> list[dict[str, Any]]:
        """What was called, with which arguments."""
        return [each["params"] for each in self.requests if each["method"] == "tools/call"]


@asynccontextmanager
async def equipped(
    tools: ToolServer, reply: str, **sets: object
) -> AsyncIterator[tuple[Inside, Device]]:
    """A device with tools, which are known."""
    given = {"scripted.replies": json.dumps([reply], ensure_ascii=False), **sets}
    async with inside(given) as daemon, connected(daemon.address) as device:
        device.tools, tools.device = tools, device
        await device.hello(features={"mcp": True})
        await device.until(lambda: len(tools.requests) >= 4, "tools/list")
        await device.listen()
        await asyncio.sleep(0.05)
        yield daemon, device


def shown(device: Device) -> str:
    """All subtitles."""
    return "".join(str(each.body and each.body["text"]) for each in device.of(SENTENCE))


async def test_a_tool_is_called_by_voice_and_its_result_is_spoken() -> None:
    tools = ToolServer()
    async with equipped(tools, CALL) as (_, device):
        await device.speak()
        await device.wait(STOP)
        assert tools.calls() == [{"name": VOLUME, "arguments": {"volume": 30}}]
        assert shown(device) == "好了，音量30。"
        assert device.audio
        assert len(device.of(START)) == len(device.of(STOP)) == 1  # it spoke on
        methods = [each["method"] for each in tools.requests]
        assert methods[:4] == ["initialize", "notifications/initialized", *["tools/list"] * 2]
        vision = tools.requests[0]["params"]["capabilities"]["vision"]
        assert {type(each) for each in vision.values()} == {str}
        await device.listen()
        await device.speak()
        await device.wait(STOP, 2)
        assert len(tools.calls()) == 2


async def test_a_failing_tool_is_told_to_the_model() -> None:
    tools = ToolServer(error='Missing valid argument: "volume"')
    async with equipped(tools, CALL) as (_, device):
        await device.speak()
        await device.wait(STOP)
        assert "Missing valid argument" in shown(device)


async def test_a_slow_tool_is_filled_and_the_filler_is_heard_out() -> None:
    done = asyncio.Event()
    tools = ToolServer(delay=done)
    filler = {
        "tools.filler_after_s": 0.1,
        "messages.filler": '{"zh": "请稍等。", "en": "One moment."}',
    }
    async with equipped(tools, CALL, **filler) as (_, device):
        await device.speak()
        await device.playing(4)
        assert shown(device) == "请稍等。"
        done.set()
        await device.wait(STOP)
        assert shown(device) == "请稍等。好了，音量30。"
        assert len(device.of(START)) == len(device.of(STOP)) == 1


async def test_an_abort_while_a_tool_works_ends_it() -> None:
    done = asyncio.Event()
    tools = ToolServer(delay=done)
    async with equipped(tools, CALL, **{"tools.filler_after_s": 0}) as (daemon, device):
        await device.speak()
        await device.until(lambda: bool(tools.calls()), "the call")
        await device.wait(START)
        await device.abort()
        await device.wait(STOP)
        done.set()
        await asyncio.sleep(0.3)
        assert len(device.of(START)) == 1
        assert not device.audio
        [session] = daemon.daemon.sessions.values()
        assert any(each.get("role") == "tool" for each in session.context.messages)
        await device.listen()
        await device.speak()
        await device.wait(STOP, 2)


async def test_a_device_that_leaves_while_a_tool_works_leaves_nothing() -> None:
    tools = ToolServer(delay=asyncio.Event())
    async with equipped(tools, CALL) as (daemon, device):
        await device.speak()
        await device.until(lambda: bool(tools.calls()), "the call")
        device.vanish()
        await daemon.empty()
        tools.close()


async def test_tools_that_call_tools_end() -> None:
    tools = ToolServer()
    endless = "".join(
        f'@call self_audio_speaker_set_volume {{"volume": {n}}}@then ' for n in range(9)
    )
    async with equipped(tools, endless + "好。") as (_, device):
        await device.speak()
        await device.wait(STOP)
        assert 3 <= len(tools.calls()) <= 5


async def test_old_devices_have_things() -> None:
    reply = '@call Speaker_SetVolume {"volume": 7}@then 好了。'
    given = {"scripted.replies": json.dumps([reply], ensure_ascii=False)}
    thing = {
        "name": "Speaker",
        "description": "扬声器",
        "properties": {"volume": {"description": "音量", "type": "number"}},
        "methods": {
            "SetVolume": {
                "description": "设置音量",
                "parameters": {"volume": {"description": "0 to 100", "type": "number"}},
            }
        },
    }
    async with inside(given) as daemon, connected(daemon.address) as device:
        await device.hello()
        await device.send("iot", update=True, descriptors=[thing])
        await device.send("iot", states=[{"name": "Speaker", "state": {"volume": 40}}])
        await device.listen()
        await device.speak()
        told = await device.wait(("iot", ""))
        command = {"name": "Speaker", "method": "SetVolume", "parameters": {"volume": 7}}
        assert told.body is not None
        assert told.body["commands"] == [command]
        await device.wait(STOP)
