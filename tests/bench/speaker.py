"""A server that answers as soon as somebody has spoken, and knows nothing else."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from websockets.asyncio.server import ServerConnection, serve


@dataclass(kw_only=True)
class Speaker:
    """Answers in Realtime events.

    Parameters:
        after: messages of the microphone, after which an answer comes.
        cycle: messages of a cycle.
        frames: of an answer, 20 ms each.
        delay_s: before the last of them.
        refuse: hang up at the first message.
    """

    after: int
    cycle: int
    frames: int = 5
    delay_s: float = 0.0
    refuse: bool = False
    openings: list[str] = field(default_factory=list[str])

    async def talk(self, socket: ServerConnection) -> None:
        self.openings.append(str(await socket.recv()))
        await socket.ping()
        heard = 0
        async for _ in socket:
            heard += 1
            if self.refuse:
                await socket.close(1011, "no more")
                return
            if heard % self.cycle == self.after:
                await self._answer(socket)

    async def _answer(self, socket: ServerConnection) -> None:
        await socket.send('{"type":"response.created"}')
        delta = base64.b64encode(bytes(960)).decode()
        event = {"type": "response.output_audio.delta", "delta": delta}
        message = json.dumps(event, separators=(",", ":"))
        for at in range(self.frames):
            if at == self.frames - 1:
                await asyncio.sleep(self.delay_s)
            await socket.send(message)


@asynccontextmanager
async def speaking(speaker: Speaker) -> AsyncIterator[int]:
    """Serves on loopback; gives the port."""
    async with serve(speaker.talk, "127.0.0.1", 0) as server:
        yield next(iter(server.sockets)).getsockname()[1]


@contextmanager
def speaking_beside(speaker: Speaker) -> Iterator[int]:
    """The same in a thread of its own."""
    ports: list[int] = []
    ready, loop = threading.Event(), asyncio.new_event_loop()
    over = asyncio.Event()

    async def run() -> None:
        async with speaking(speaker) as port:
            ports.append(port)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    try:
        assert ready.wait(20)
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(20)
        loop.close()
