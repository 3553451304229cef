"""The official `openai` client as a person with a microphone."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection

from tests.daemon.client import PATIENCE_S, RATE, Audio, silence, voice

#: samples of a microphone frame: 60 ms
FRAME = RATE * 60 // 1000


class SdkClient:
    """One conversation; see `sdk_client`."""

    def __init__(self, connection: AsyncRealtimeConnection, session: str) -> None:
        self.session = session
        self.heard: list[str] = []
        self.responses: list[Any] = []
        self.audio: dict[str, Audio] = {}
        self._connection = connection
        self._news = asyncio.Condition()
        self._left: NDArray[np.int16] = silence(0)

    async def read(self) -> None:
        """Takes what comes until it is cancelled."""
        async for event in self._connection:
            if event.type == "response.output_audio.delta":
                audio = self.audio.setdefault(event.response_id, Audio())
                audio.add(event.delta)
                continue
            if event.type == "conversation.item.input_audio_transcription.completed":
                self.heard.append(event.transcript)
            elif event.type == "response.done":
                self.responses.append(event.response)
            elif event.type == "error":
                raise AssertionError(event.error)
            async with self._news:
                self._news.notify_all()

    async def stream(self) -> None:
        """Sends frame after frame until it is cancelled: silence, or what `say` left."""
        due = time.monotonic()
        while True:
            due += FRAME / RATE
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            frame, self._left = self._left[:FRAME], self._left[FRAME:]
            frame = frame if len(frame) else silence(FRAME / RATE)
            audio = base64.b64encode(frame.tobytes()).decode()
            await self._connection.input_audio_buffer.append(audio=audio)

    def say(self, seconds: float) -> None:
        """Says something into the microphone."""
        self._left = voice(seconds)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for news after which the condition holds."""
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(condition)


@asynccontextmanager
async def sdk_client(http: str) -> AsyncIterator[SdkClient]:
    """A client that was greeted, with an open microphone.

    Args:
        http: base address of the daemon.
    """
    openai = AsyncOpenAI(base_url=f"{http}/v1", api_key="none", max_retries=0)
    async with openai, openai.realtime.connect(model="duplexd") as connection:
        created = await connection.recv()
        assert created.type == "session.created", created
        client = SdkClient(connection, str(getattr(created.session, "id")))  # noqa: B009
        tasks = [asyncio.create_task(client.read()), asyncio.create_task(client.stream())]
        try:
            yield client
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in results), results
