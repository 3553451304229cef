"""A client on a real socket that checks every event against the original's types."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.realtime.fakes import Face, FakeConversation, check, settled


class Client:
    def __init__(self, connection: ClientConnection, conversation: FakeConversation) -> None:
        self.connection = connection
        self.conversation = conversation
        self.sink = conversation.sink

    async def send(self, kind: str, **fields: Any) -> None:
        await self.connection.send(json.dumps({"type": kind, **fields}))

    async def receive(self, kind: str | None = None) -> dict[str, Any]:
        """The next event, or the next of a kind."""
        async with asyncio.timeout(10):
            while True:
                event = check(json.loads(await self.connection.recv()))
                if kind in (None, event["type"]):
                    return event


@contextlib.asynccontextmanager
async def talking(face: Face, **options: Any) -> AsyncIterator[Client]:
    """A client that has read session.created."""
    async with connect(face.url, max_size=None, **options) as connection:
        conversation = await face.sessions.opened.get()
        client = Client(connection, conversation)
        event = await client.receive()
        assert event["type"] == "session.created"
        assert event["session"]["id"] == conversation.id
        yield client


@contextlib.asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    await settled(lambda: not asyncio.all_tasks() - before, "no task is left")
