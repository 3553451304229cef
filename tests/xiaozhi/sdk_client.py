"""The `xiaozhi-sdk` client, in a process of its own: it takes over `ctypes.util.find_library`, so
that nothing else in its process finds the system's libopus. Run by `test_sdk`:

    python -m tests.xiaozhi.sdk_client OTA_URL MODE

Prints a line of JSON for each step, and ends with 0 when all went well.

What one must know about version 0.5.1: it treats an OTA answer with an `activation` as that of an
unknown device, needs `websocket.token` there and `audio_params.channels` in the hello, and never
answers `initialize` without `vision.url` and `vision.token`, nor `tools/list` when a tool has no
function or one that `copy.deepcopy` cannot copy, as a method. It swallows what goes wrong in its
message handler and logs it, so what it logs as an error is one here. It is in realtime mode unless
told otherwise.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from xiaozhi_sdk import XiaoZhiWebsocket

from services.scripted.speech import synthetic_speech

#: what the SDK takes and gives: its defaults
RATE, FRAME_S = 24_000, 0.06
PATIENCE_S = 60.0
MAC = "AA:BB:CC:DD:EE:50"


class Errors(logging.Handler):
    """Remembers what the SDK has swallowed."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        self.messages.append(record.getMessage())


class Talk:
    """One conversation by the SDK."""

    def __init__(self, ota_url: str, mode: str) -> None:
        self.messages: list[dict[str, Any]] = []
        self.volume = 70
        self._news = asyncio.Condition()
        self.client = XiaoZhiWebsocket(self._told, ota_url=ota_url)
        self.client.mode = mode
        self._microphone: asyncio.Task[None] | None = None
        self._left = np.zeros(0, np.int16)

    async def _told(self, message: dict[str, Any]) -> None:
        async with self._news:
            self.messages.append(message)
            self._news.notify_all()

    async def start(self) -> None:
        """OTA, hello and tools; then the microphone is open, as a realtime device has it."""

        def set_volume(arguments: dict[str, Any]) -> tuple[str, bool]:
            self.volume = arguments["volume"]
            return "ok", False

        tool = {
            "name": "set_volume",
            "description": "Set the volume of the speaker.",
            "inputSchema": {
                "type": "object",
                "properties": {"volume": {"type": "integer", "minimum": 0, "maximum": 100}},
                "required": ["volume"],
            },
            "tool_func": set_volume,
        }
        await self.client.set_mcp_tool([tool])
        assert await self.client.init_connection(MAC)
        assert self.client.session_id
        async with asyncio.timeout(PATIENCE_S):
            while not self.client.mcp_tools_payload["result"]["tools"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert self.client.explain_url.startswith("http")
        self._microphone = asyncio.create_task(self._stream())

    async def _stream(self) -> None:
        size = round(RATE * FRAME_S)
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += FRAME_S
            await asyncio.sleep(max(0.0, due - loop.time()))
            frame, self._left = self._left[:size], self._left[size:]
            frame = np.pad(frame, (0, size - len(frame)))
            assert await self.client.send_audio(frame.tobytes())

    def say(self, seconds: float) -> None:
        """Speaks into the microphone."""
        self._left = synthetic_speech(seconds=seconds, rate=RATE)

    def of(self, kind: str, state: str | None = None) -> list[dict[str, Any]]:
        """The messages of a type, and a state, so far."""
        return [
            each
            for each in self.messages
            if (each["type"], each.get("state", state)) == (kind, state)
        ]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for a message after which something holds."""
        try:
            async with asyncio.timeout(PATIENCE_S), self._news:
                await self._news.wait_for(condition)
        except TimeoutError:
            raise AssertionError(f"{what} did not come; there was {self.messages}") from None

    async def stopped(self, count: int) -> None:
        """Waits for the end of the count-th answer."""
        await self.until(lambda: len(self.of("tts", "stop")) >= count, f"stop {count}")

    def heard(self) -> float:
        """Seconds of sound that came since the last call."""
        samples = np.array(self.client.output_audio_queue, np.int16)
        self.client.output_audio_queue.clear()
        return float(np.count_nonzero(np.abs(samples) > 100)) / RATE

    async def close(self) -> None:
        """Hangs up."""
        if self._microphone is not None:
            self._microphone.cancel()
            await asyncio.gather(self._microphone, return_exceptions=True)
        await self.client.close()


def tell(step: str, **more: Any) -> None:
    print(json.dumps({"step": step, **more}, ensure_ascii=False), flush=True)


async def main(ota_url: str, mode: str) -> None:
    """The whole way."""
    errors = Errors()
    logging.getLogger("xiaozhi_sdk").addHandler(errors)
    talk = Talk(ota_url, mode)
    try:
        await talk.start()
        tell("connected", url=talk.client.url, session=talk.client.session_id)

        talk.say(0.8)
        await talk.stopped(1)
        tell("voice", stt=talk.of("stt")[-1]["text"], heard_s=talk.heard(), volume=talk.volume)

        assert await talk.client.send_text("讲个故事")
        await talk.stopped(2)
        tell("text", stt=talk.of("stt")[-1]["text"], heard_s=talk.heard())

        assert await talk.client.send_text("再讲一个")
        await talk.until(lambda: len(talk.of("tts", "sentence_start")) > 2, "the third answer")
        await talk.client.send_abort()
        await talk.stopped(3)
        talk.heard()
        count = len(talk.messages)
        await asyncio.sleep(0.5)
        tell("abort", after=talk.messages[count:], heard_s=talk.heard())

        talk.say(0.8)
        await talk.stopped(4)
        tell("next", stt=talk.of("stt")[-1]["text"], heard_s=talk.heard())
        tell("over", starts=len(talk.of("tts", "start")), stops=len(talk.of("tts", "stop")))
    finally:
        await talk.close()
    tell("errors", messages=errors.messages)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
