"""Daemons to talk to: a real one in this process, and a scripted peer that misbehaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from websockets.asyncio.server import ServerConnection, serve

from pipeline.access import tls_of
from pipeline.app import Daemon, create_app
from pipeline.commands.options import overrides
from pipeline.commands.serve import listen, uvicorn_config
from pipeline.config import Config, load_config
from pipeline.store import open_store
from tts_engine.engine import SpeechEngine

_AUDIO = "input_audio_buffer.append"
SCRIPTED = "scripted:asr=60,llm=150@50,tts=150"


def scripted_config(*sets: str, engines: str = SCRIPTED) -> Config:
    return load_config(None, overrides(sets, engines=engines), environ={})


@asynccontextmanager
async def daemon(config: Config, *, voice: SpeechEngine | None = None) -> AsyncIterator[str]:
    """Serves a daemon on loopback; gives host:port once it is ready.

    Args:
        config: what it runs.
        voice: speaks in place of the configured engine.
    """
    served = Daemon(config=config, store=open_store(config))
    if voice is not None:
        served.room.voice = voice
    ready = asyncio.Event()
    tls = tls_of(config.server)
    server = uvicorn.Server(uvicorn_config(create_app(served, on_ready=ready.set), tls))
    listener = listen("127.0.0.1", 0)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(20):
            await ready.wait()
        host, port = listener.getsockname()
        yield f"{host}:{port}"
    finally:
        server.should_exit = True
        await serving
        listener.close()


class Peer:
    """A Realtime server that does what a test says, once it has heard something."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        #: events that came before the first audio
        self.told: list[dict[str, Any]] = []

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def audio(self) -> None:
        """Waits for the first audio."""
        while (event := json.loads(await self.socket.recv()))["type"] != _AUDIO:
            self.told.append(event)

    async def transcript(self, text: str) -> None:
        kind = "conversation.item.input_audio_transcription.completed"
        await self.send(kind, transcript=text)


@asynccontextmanager
async def peer(
    script: Callable[[Peer], Awaitable[None]], *, welcome: bool = True
) -> AsyncIterator[str]:
    """Serves a scripted peer; gives its address as ws://.

    Args:
        script: runs when the first audio has come; then the peer listens on, unless it closed.
        welcome: sends session.created first, and waits for audio.
    """

    async def handle(socket: ServerConnection) -> None:
        it = Peer(socket)
        if welcome:
            await it.send("session.created", session={})
            await it.audio()
        await script(it)
        async for _ in socket:
            pass

    async with serve(handle, "127.0.0.1", 0) as server:
        host, port = next(iter(server.sockets)).getsockname()
        yield f"ws://{host}:{port}/v1/realtime"
