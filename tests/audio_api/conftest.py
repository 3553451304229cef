"""A daemon with a scripted voice, and the original's own client."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
from openai import AsyncOpenAI

from services.scripted.tts import SAMPLE_RATE, VOICES, ScriptedVoice, char_ends
from tests.daemon.client import PATIENCE_S
from tests.daemon.inside import Inside, inside
from tts_engine.engine import EngineStats, Mark, SpeechChunk, SpeechEngine
from tts_engine.text.stream import segment

#: short first clause, several more
TEXT = "好的，今天天气很好。我们去公园走走，然后一起吃饭吧！价格是12元。"


def seconds_of(text: str, *, speed: float = 1.0) -> float:
    """How long the scripted voice speaks a text that is cut as a conversation's answer is."""
    return sum(char_ends(c.text, speed=speed)[-1] for c in segment(text)) / SAMPLE_RATE


class ValveVoice(SpeechEngine):
    """Gives one chunk of 100 ms whenever a test says so, and tells what became of its jobs."""

    sample_rate = SAMPLE_RATE

    def __init__(self, *, rate: int = SAMPLE_RATE) -> None:
        self.sample_rate = rate
        self.stats = EngineStats()
        self.asked: list[str] = []
        self.closed: list[str] = []
        self._valve: asyncio.Queue[Exception | str] = asyncio.Queue()

    @property
    def voices(self) -> tuple[str, ...]:
        return VOICES

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def give(self, *parts: Exception | str) -> None:
        """What the jobs do next.

        "part" gives a chunk, "last" the last one of a clause, "mute" a last one without audio.
        """
        for part in parts:
            self._valve.put_nowait(part)

    async def synthesize(
        self, text: str, *, voice: str | None = None, speed: float = 1.0, style: str = ""
    ) -> AsyncGenerator[SpeechChunk, None]:
        self.asked.append(text)
        samples = self.sample_rate // 10
        part: Exception | str = ""
        try:
            while part not in ("last", "mute"):
                part = await self._valve.get()
                if isinstance(part, Exception):
                    raise part
                marks = () if part == "part" else (Mark(samples, len(text)),)
                yield SpeechChunk(pcm=b"" if part == "mute" else bytes(2 * samples), marks=marks)
        finally:
            self.closed.append(text)


def scripted() -> AbstractAsyncContextManager[Inside]:
    """A daemon whose voice takes no time."""
    return inside(voice=ScriptedVoice())


@asynccontextmanager
async def openai_client(served: Inside) -> AsyncIterator[AsyncOpenAI]:
    """A client that does not try again."""
    async with AsyncOpenAI(
        base_url=f"http://{served.address}/v1", api_key="none", max_retries=0, timeout=PATIENCE_S
    ) as client:
        yield client


@asynccontextmanager
async def http(served: Inside) -> AsyncIterator[httpx.AsyncClient]:
    """A plain client."""
    url = f"http://{served.address}"
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
        yield client


def ask(**fields: Any) -> dict[str, Any]:
    """The body of a request."""
    return {"model": "tts-1", "voice": "one", "input": TEXT, **fields}


async def refused(served: Inside, body: Any) -> tuple[int, dict[str, Any], httpx.Headers]:
    """Status, error and headers of a request that is not spoken."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with http(served) as client:
        reply = await client.post(
            "/v1/audio/speech", content=content, headers={"Content-Type": "application/json"}
        )
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return reply.status_code, error, reply.headers


async def post(
    served: Inside, body: dict[str, Any], *, length: int | None = None, buffer: int | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request on a socket of its own, which reads no further than it must.

    Args:
        length: what the head says, if it is not true.
        buffer: bytes that the kernel may keep for the reader.
    """
    host, port = served.address.split(":")
    connection = socket.socket()
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(PATIENCE_S):
        await loop.sock_connect(connection, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=connection, limit=4096)
    data = json.dumps(body).encode()
    writer.write(
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % (length or len(data)) + data
    )
    await writer.drain()
    return reader, writer
