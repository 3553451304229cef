"""What a device can do, whichever way it tells it: functions for the language model."""

from __future__ import annotations

from collections.abc import Callable

from services.tools import DaemonTool
from services.xiaozhi.events import IotDescriptors, IotStates, Mcp
from services.xiaozhi.iot import DeviceIot
from services.xiaozhi.mcp import DeviceMcp
from services.xiaozhi.messages import McpRequest, Message


class DeviceTools:
    """One device's.

    Args:
        send: sends a message to it.
        vision: see DeviceMcp.
        on_change: `tools` are others now.
    """

    def __init__(
        self,
        *,
        send: Callable[[Message], None],
        vision: tuple[str, str],
        on_change: Callable[[], None],
    ) -> None:
        self._on_change = on_change
        self._mcp = DeviceMcp(
            send=lambda payload: send(McpRequest(payload)), vision=vision, on_tools=self._found
        )
        self._iot = DeviceIot(send=send, on_tools=self._found)
        self.tools: tuple[DaemonTool, ...] = ()

    def start(self) -> None:
        """The device has a tool server: it is asked."""
        self._mcp.start()

    def receive(self, event: Mcp | IotDescriptors | IotStates) -> None:
        """The device tells something of them."""
        match event:
            case Mcp(payload):
                self._mcp.receive(payload)
            case IotDescriptors():
                self._iot.describe(event)
            case IotStates():
                self._iot.states(event)

    async def close(self) -> None:
        """Gives up what is awaited of the device."""
        await self._mcp.close()

    def _found(self, tools: tuple[DaemonTool, ...]) -> None:
        self.tools = tools
        self._on_change()
