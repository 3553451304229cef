"""Things of devices with firmware up to 1.7, which had no tool server: each method is a tool."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from services.tools import DaemonTool, Tool
from services.xiaozhi.events import IotDescriptors, IotStates
from services.xiaozhi.mcp import free_name
from services.xiaozhi.messages import IotCommands

#: things that are remembered; a device has a handful
_MOST_THINGS = 32
_KINDS = {"number": "integer", "boolean": "boolean", "string": "string"}


class DeviceIot:
    """One device's things.

    Args:
        send: sends a command.
        on_tools: is told when their methods are known, or are others.
    """

    def __init__(
        self,
        *,
        send: Callable[[IotCommands], None],
        on_tools: Callable[[tuple[DaemonTool, ...]], None],
    ) -> None:
        self._send = send
        self._on_tools = on_tools
        self._things: dict[str, Mapping[str, Any]] = {}
        self._states: dict[str, Any] = {}

    def describe(self, event: IotDescriptors) -> None:
        """The device tells what it has: all of it, or one thing more."""
        if not event.update:
            self._things.clear()
        for each in event.descriptors:
            name = each.get("name")
            if isinstance(name, str) and len(self._things) < _MOST_THINGS:
                self._things[name] = each
        self._on_tools(self._tools())

    def states(self, event: IotStates) -> None:
        """The device tells how they stand."""
        for each in event.states:
            name = each.get("name")
            if isinstance(name, str) and name in self._things:
                self._states[name] = each.get("state")

    def _tools(self) -> tuple[DaemonTool, ...]:
        tools: dict[str, DaemonTool] = {}
        for thing, described in self._things.items():
            about = described.get("description", "")
            for method, detail in _object(described.get("methods")).items():
                name = free_name(f"{thing}.{method}", tools)
                tools[name] = self._tool(name, thing, method, f"{about}: ", _object(detail))
        if tools:
            name = free_name("get_states", tools)
            tools[name] = DaemonTool(
                tool=Tool(name=name, description="How the device's things stand now"),
                run=self._tell_states,
                lane="device",
            )
        return tuple(tools.values())

    def _tool(
        self, name: str, thing: str, method: str, about: str, detail: Mapping[str, Any]
    ) -> DaemonTool:
        async def run(arguments: dict[str, Any]) -> str:
            command = {"name": thing, "method": method, "parameters": arguments}
            self._send(IotCommands((command,)))
            return "done"  # the device does not say more

        parameters = _object(detail.get("parameters"))
        properties = {
            each: {
                "type": _KINDS.get(str(_object(told).get("type")), "string"),
                "description": str(_object(told).get("description", "")),
            }
            for each, told in parameters.items()
        }
        schema = {"type": "object", "properties": properties, "required": [*properties]}
        description = f"{about}{detail.get('description', method)}"
        return DaemonTool(
            tool=Tool(name=name, description=description, parameters=schema),
            run=run,
            lane="device",
        )

    async def _tell_states(self, _: dict[str, Any]) -> str:
        return json.dumps(self._states, ensure_ascii=False)


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
