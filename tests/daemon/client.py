"""A Realtime client that speaks at the pace of a microphone, or at once, and remembers all."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import websockets
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect

from services.scripted.speech import synthetic_speech

RATE = 24_000
#: samples of a microphone frame: 20 ms
FRAME = RATE // 50
#: bound of every wait, on a machine that others use as well, seconds
PATIENCE_S = 30.0

#: event types
HEARD = "conversation.item.input_audio_transcription.completed"
DONE = "response.done"
STARTED = "input_audio_buffer.speech_started"
DELTA = "response.output_audio.delta"
TRUNCATED = "conversation.item.truncated"
REPORT = "duplexd.turn"


def voice(seconds: float) -> NDArray[np.int16]:
    """Something voiced."""
    return synthetic_speech(seconds=seconds, rate=RATE)


def silence(seconds: float) -> NDArray[np.int16]:
    """Digital silence."""
    return np.zeros(round(seconds * RATE), np.int16)


@dataclass
class Audio:
    """The audio of one response as it came: (arrival, milliseconds) of every frame."""

    pcm: bytearray = field(default_factory=bytearray)
    frames: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def add(self, delta: str) -> None:
        pcm = base64.b64decode(delta)
        self.pcm += pcm
        self.frames.append((time.monotonic(), len(pcm) * 500 / RATE))

    @property
    def ms(self) -> float:
        return len(self.pcm) * 500 / RATE

    def gap_ms(self) -> float:
        """Longest stretch in which a player that started with the first frame had nothing."""
        end, worst = self.frames[0][0], 0.0
        for arrived, ms in self.frames:
            worst = max(worst, (arrived - end) * 1000)
            end = max(end, arrived) + ms / 1000
        return worst


class Client:
    """One connection; see `talking`."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.events: list[dict[str, Any]] = []
        self.audio: dict[str, Audio] = {}
        self.closed: websockets.ConnectionClosed | None = None
        self._news = asyncio.Condition()
        self._left: NDArray[np.int16] = silence(0)
        self._said = asyncio.Event()
        self._tasks = [asyncio.create_task(self._read(), name="client reader")]

    # --- what came --------------------------------------------------------------------------
    async def _read(self) -> None:
        while True:
            try:
                text = await self.connection.recv()
            except websockets.ConnectionClosed as error:
                self.closed = error
            else:
                event = json.loads(text)
                if event["type"] == DELTA:
                    audio = self.audio.setdefault(event["response_id"], Audio())
                    audio.add(event["delta"])
                else:
                    self.events.append(event)
            async with self._news:
                self._news.notify_all()
            if self.closed is not None:
                return

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The events of a type so far."""
        return [event for event in self.events if event["type"] == kind]

    @property
    def kinds(self) -> list[str]:
        """The types of all events so far, without audio."""
        return [event["type"] for event in self.events]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for news after which the condition holds."""
        try:
            async with asyncio.timeout(PATIENCE_S), self._news:
                await self._news.wait_for(lambda: condition() or self.closed is not None)
        except TimeoutError:
            raise AssertionError(f"{what} did not come; there was {self.kinds}") from None
        assert condition(), f"closed before {what}: {self.closed}; there was {self.kinds}"

    async def wait(self, kind: str, count: int = 1) -> dict[str, Any]:
        """Waits for the count-th event of a type, and returns it."""
        await self.until(lambda: len(self.of(kind)) >= count, f"{kind} no. {count}")
        return self.of(kind)[count - 1]

    async def transcript(self, count: int = 1) -> str:
        """The text of the count-th turn that was heard."""
        return (await self.wait(HEARD, count))["transcript"]

    async def done(self, count: int = 1) -> dict[str, Any]:
        """The count-th response that ended."""
        return (await self.wait(DONE, count))["response"]

    async def playing(self, ms: float, count: int = 1) -> str:
        """Waits for so much audio of the count-th response that has any; returns its id."""
        await self.until(
            lambda: len(self.audio) >= count and [*self.audio.values()][count - 1].ms >= ms,
            f"{ms} ms of audio of response no. {count}",
        )
        return [*self.audio][count - 1]

    async def over(self) -> websockets.ConnectionClosed:
        """Waits for the end of the connection."""
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(lambda: self.closed is not None)
        assert self.closed is not None
        return self.closed

    # --- what goes --------------------------------------------------------------------------
    async def send(self, kind: str, **fields: Any) -> None:
        """Sends an event."""
        await self.connection.send(json.dumps({"type": kind, **fields}))

    async def append(self, samples: NDArray[np.int16]) -> None:
        """Sends audio in one message."""
        audio = base64.b64encode(samples.tobytes()).decode()
        await self.send("input_audio_buffer.append", audio=audio)

    async def speak(self, seconds: float = 0.6, *, pause_s: float = 0.4) -> None:
        """Says something at once: the daemon's clock counts samples, not seconds."""
        await self.append(np.concatenate((voice(seconds), silence(pause_s))))

    async def say(self, what: float | NDArray[np.int16]) -> None:
        """Says so many seconds of something, or these samples, into the microphone; returns when
        the last one has gone.
        """
        self._left = what if isinstance(what, np.ndarray) else voice(what)
        self._said.clear()
        async with asyncio.timeout(PATIENCE_S):
            await self._said.wait()

    def open_microphone(self) -> None:
        """From now on sends a frame every 20 ms: silence, until there is something to say."""
        self._tasks.append(asyncio.create_task(self._stream(), name="client microphone"))

    async def _stream(self) -> None:
        due = time.monotonic()
        while True:
            due += FRAME / RATE
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            frame, self._left = self._left[:FRAME], self._left[FRAME:]
            if not len(frame):
                self._said.set()
                frame = silence(FRAME / RATE)
            try:
                await self.append(frame)
            except websockets.ConnectionClosed:
                return

    def vanish(self) -> None:
        """Drops the connection without a goodbye."""
        transport = self.connection.transport
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()

    async def close(self) -> None:
        """Ends it politely, if it has not ended yet."""
        with contextlib.suppress(websockets.ConnectionClosed):  # it was faster
            await self.connection.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def talking(
    url: str,
    *,
    microphone: bool = False,
    tls: ssl.SSLContext | None = None,
    key: str | None = None,
) -> AsyncIterator[Client]:
    """A client that was greeted."""
    connection = await connect(
        url,
        compression=None,
        max_size=None,
        open_timeout=PATIENCE_S,
        ssl=tls,
        additional_headers={"Authorization": f"Bearer {key}"} if key else None,
    )
    client = Client(connection)
    try:
        await client.wait("session.created")
        if microphone:
            client.open_microphone()
        yield client
    finally:
        await client.close()


async def turned_away(url: str) -> tuple[int, dict[str, Any]]:
    """A client that gets no conversation: status and error of the handshake."""
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with connect(url, compression=None, open_timeout=PATIENCE_S):
            pass
    response = refused.value.response
    assert int(response.headers["Retry-After"]) > 0
    return response.status_code, json.loads(response.body)["error"]
