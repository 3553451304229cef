"""The tool server inside a device: JSON-RPC in messages of type `mcp`, without the socket.

What a device's server does not like, it does not answer: an `id` must be a number, `params` an
object. It runs calls on its main loop, so they are made one after the other; what comes back late
is nobody's any more.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from loguru import logger

from services.tools import DaemonTool, Tool
from tts_engine.errors import EngineFailed

Payload = dict[str, Any]

_PROTOCOL = "2024-11-05"
#: longest wait for what a device says of itself, and for a tool; its camera takes seconds
_ANSWER_S, _CALL_S, _CAMERA_S = 10.0, 10.0, 30.0
#: pages of tools, and tools, that are asked for: a device has a dozen
_MOST_PAGES, _MOST_TOOLS = 32, 128
#: longest result that a language model is given, characters
_MOST_RESULT = 8_000
_UNSPEAKABLE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME = 64


class DeviceMcp:
    """One device's tools.

    Args:
        send: sends a message to its server.
        vision: address that it sends photos to, and the token for it.
        on_tools: is told when its tools are known, or are others.
    """

    def __init__(
        self,
        *,
        send: Callable[[Payload], None],
        vision: tuple[str, str],
        on_tools: Callable[[tuple[DaemonTool, ...]], None],
    ) -> None:
        self._send = send
        self._vision = vision
        self._on_tools = on_tools
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Payload]] = {}
        self._meeting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to ask for the tools; `on_tools` follows."""
        self._meeting = asyncio.create_task(self._meet(), name="device tools")

    def receive(self, payload: Payload) -> None:
        """A message of its server's: an answer, or a notification, of which none matters."""
        waiting = self._waiting.pop(_number(payload.get("id")), None)
        if waiting is not None and not waiting.done():
            waiting.set_result(payload)
        elif payload.get("method") == "notifications/tools/list_changed" and self._met:
            self.start()

    async def close(self) -> None:
        """Gives up what is awaited."""
        for waiting in self._waiting.values():
            waiting.cancel()
        self._waiting.clear()
        if self._meeting is not None:
            self._meeting.cancel()
            await asyncio.gather(self._meeting, return_exceptions=True)

    @property
    def _met(self) -> bool:
        return self._meeting is not None and self._meeting.done()

    async def _meet(self) -> None:
        url, token = self._vision
        client = {"name": "duplexd", "version": "1"}
        capabilities = {"vision": {"url": url, "token": token}}
        try:
            await self._ask(
                "initialize",
                {"protocolVersion": _PROTOCOL, "capabilities": capabilities, "clientInfo": client},
                _ANSWER_S,
            )
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            tools = await self._list()
        except EngineFailed as error:
            logger.warning("the device's tools are not known: {}", error)
            return
        self._on_tools(tools)

    async def _list(self) -> tuple[DaemonTool, ...]:
        described: dict[str, Payload] = {}
        cursor = ""
        for number in range(_MOST_PAGES):
            params = {"cursor": cursor, "withUserTools": False}
            try:
                page = await self._ask("tools/list", params, _ANSWER_S)
            except EngineFailed as error:
                if not number:
                    raise
                # A tool that is too large for a message, say; nobody knows where the next one is.
                logger.warning("the device's tools are not all known: {}", error)
                break
            _gather(page.get("tools"), described)
            following = page.get("nextCursor")
            if not isinstance(following, str) or following in ("", cursor):
                break
            cursor = following
        return self._named(described)

    def _named(self, described: Mapping[str, Payload]) -> tuple[DaemonTool, ...]:
        names: dict[str, str] = {}  # the device's name by ours
        for own in list(described)[:_MOST_TOOLS]:
            names[free_name(own, names)] = own
        ours = {own: name for name, own in names.items()}
        return tuple(
            self._tool(name, own, described[own], mentions=ours) for name, own in names.items()
        )

    def _tool(
        self, name: str, own: str, described: Payload, *, mentions: Mapping[str, str]
    ) -> DaemonTool:
        about = described.get("description")
        schema = described.get("inputSchema")
        description = about if isinstance(about, str) else ""
        # Descriptions tell when to use which tool, by the device's names; the longest first.
        for theirs in sorted(mentions, key=len, reverse=True):
            description = description.replace(theirs, mentions[theirs])

        async def run(arguments: dict[str, Any]) -> str:
            result = await self._ask("tools/call", {"name": own, "arguments": arguments}, limit_s)
            return _text(result)

        limit_s = _CAMERA_S if "camera" in own or "photo" in own else _CALL_S
        parameters = cast("Mapping[str, Any]", schema) if isinstance(schema, dict) else {}
        return DaemonTool(
            tool=Tool(name=name, description=description, parameters=parameters),
            run=run,
            timeout_s=limit_s,
            lane="device",
        )

    async def _ask(self, method: str, params: Payload, limit_s: float) -> Payload:
        """Asks the device's server.

        Raises:
            EngineFailed: it answers with an error, or not in time.
        """
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(limit_s):
                payload = await answer
        except TimeoutError:
            raise EngineFailed(f"The device did not answer {method} in {limit_s:g} s") from None
        finally:
            self._waiting.pop(number, None)
        result, error = payload.get("result"), payload.get("error")
        if isinstance(error, dict):
            said = cast("Payload", error).get("message")
            raise EngineFailed(f"The device refuses {method}: {said}")
        return cast("Payload", result) if isinstance(result, dict) else {}


def free_name(own: str, taken: Mapping[str, Any]) -> str:
    """A name as language models' servers take it.

    Args:
        own: the device's, `self.audio_speaker.set_volume` say.
        taken: what it must not be.
    """
    name = _UNSPEAKABLE.sub("_", own).strip("_")[:_LONGEST_NAME] or "tool"
    for number in itertools.count(2):
        if name not in taken:
            break
        name = f"{name[: _LONGEST_NAME - 4]}_{number}"
    return name


def _text(result: Payload) -> str:
    """The text of a tool's result.

    Raises:
        EngineFailed: the tool says that it failed.
    """
    parts = [each.get("text") for each in _objects(result.get("content"))]
    text = "\n".join(each for each in parts if isinstance(each, str))[:_MOST_RESULT]
    if result.get("isError") is True:
        raise EngineFailed(f"The device's tool failed: {text}")
    return text or json.dumps(result, ensure_ascii=False)[:_MOST_RESULT]


def _gather(tools: Any, described: dict[str, Payload]) -> None:
    """Adds the tools of a page by the device's names, but those that nobody could call."""
    for each in cast("list[Any]", tools) if isinstance(tools, list) else ():
        tool = cast("Payload", each) if isinstance(each, dict) else {}
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            logger.warning("the device describes a tool that is none: {}", str(each)[:200])
        elif not _is_for_users(tool):
            described.setdefault(name, tool)


def _is_for_users(described: Payload) -> bool:
    annotations = described.get("annotations")
    if not isinstance(annotations, dict):
        return False
    audience = cast("Payload", annotations).get("audience")
    return isinstance(audience, list) and "assistant" not in audience and "user" in audience


def _objects(value: Any) -> list[Payload]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("Payload", each) for each in items if isinstance(each, dict)]


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
