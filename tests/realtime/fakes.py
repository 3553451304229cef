"""A conversation and its factory that record what a face asks for, and can be played by a test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, get_args

import uvicorn
from fastapi import FastAPI
from openai import BaseModel
from openai.types.realtime.realtime_server_event import RealtimeServerEvent

from services.face import AnswerOptions, FaceContext, SessionOptions, Sink
from services.items import ContextItem
from services.realtime.router import make_router
from services.voices import resolve_voice
from services.websocket_protocol import FaceWebSocketProtocol
from tts_engine.errors import AtCapacity, DuplexdError

VOICES = ("xiaobei", "nicole")


class FakeConversation:
    def __init__(self, sink: Sink, options: SessionOptions, number: int) -> None:
        self.id = f"conversation-{number}"
        self.sink = sink
        self.options = options
        self.calls: list[tuple[Any, ...]] = []
        self.heard = bytearray()
        self.arrivals: list[float] = []
        self.closed = asyncio.Event()
        self.over = asyncio.Event()
        #: what run() raises at once
        self.breaks: Exception | None = None
        #: raised by audio()
        self.chokes: Exception | None = None
        #: raised by respond()
        self.declines: DuplexdError | None = None
        self._called = asyncio.Event()

    async def run(self) -> None:
        try:
            if self.breaks:
                raise self.breaks
            await self.closed.wait()
        finally:
            self.over.set()

    def audio(self, pcm: bytes, *, arrived: float) -> None:
        if self.chokes:
            raise self.chokes
        self.heard += pcm
        self.arrivals.append(arrived)
        self._called.set()

    def commit(self) -> None:
        self._record("commit")

    def clear(self) -> None:
        self._record("clear")

    def mute(self, on: bool) -> None:
        self._record("mute", on)

    def say(self, text: str, language: str = "") -> None:
        self._record("say", text, language)

    def add(self, ref: str, item: ContextItem, *, after: str | None = None) -> None:
        self._record("add", ref, item, after)

    def remove(self, ref: str) -> None:
        self._record("remove", ref)

    def respond(self, options: AnswerOptions | None = None) -> None:
        assert options is not None
        if self.declines:
            raise self.declines
        if options.voice is not None:
            resolve_voice(options.voice, VOICES)
        self._record("respond", options)

    def cancel(self) -> None:
        self._record("cancel")

    def heard_until(self, revision: int, audio_ms: int) -> None:
        self._record("heard_until", revision, audio_ms)

    def update(self, options: SessionOptions) -> None:
        if options.voice is not None:
            resolve_voice(options.voice, VOICES)
        self.options = options
        self._record("update", options)

    def close(self) -> None:
        self.closed.set()

    def _record(self, *call: Any) -> None:
        self.calls.append(call)
        self._called.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for a call after which the condition holds."""
        async with asyncio.timeout(10):
            while not condition():
                self._called.clear()
                await self._called.wait()

    async def called(self, *call: Any) -> None:
        await self.until(lambda: call in self.calls)


class FakeSessions:
    def __init__(self) -> None:
        self.ready = True
        self.voices = VOICES
        self.refusal: DuplexdError | None = None
        self.breaks: Exception | None = None
        self.opened: asyncio.Queue[FakeConversation] = asyncio.Queue()
        self._count = 0

    def open(self, sink: Sink, options: SessionOptions) -> FakeConversation:
        if self.refusal:
            raise self.refusal
        self._count += 1
        conversation = FakeConversation(sink, options, self._count)
        conversation.breaks = self.breaks
        self.opened.put_nowait(conversation)
        return conversation

    def full(self) -> None:
        self.refusal = AtCapacity("Every place is taken")


class Face:
    """A served face: where it listens, its sessions, and the failures that it counted."""

    def __init__(self, *, send_timeout_s: float = 5.0) -> None:
        self.sessions = FakeSessions()
        self.failures: list[DuplexdError] = []
        self.context = FaceContext(
            sessions=self.sessions,
            send_timeout_s=send_timeout_s,
            on_error=self.failures.append,
        )
        self.address = ""

    @property
    def url(self) -> str:
        return f"ws://{self.address}/v1/realtime"


@asynccontextmanager
async def serving(
    face: Face, *, sockets: list[socket.socket] | None = None, **config: Any
) -> AsyncIterator[Face]:
    """Serves a face on loopback with a real uvicorn.

    Args:
        face: gets its address.
        sockets: where it listens; None: a port of its own, or what the configuration says.
        config: of uvicorn.
    """
    app = FastAPI()
    app.include_router(make_router(face.context))
    settings: dict[str, Any] = {"ws": FaceWebSocketProtocol, **config}
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            port=0,
            lifespan="off",
            log_config=None,
            ws_ping_interval=None,
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=5,
            **settings,
        )
    )
    task = asyncio.create_task(server.serve(sockets=sockets))
    while not server.started:  # noqa: ASYNC110 - uvicorn tells nobody
        await asyncio.sleep(0.005)
    if "uds" not in config:
        host, port = server.servers[0].sockets[0].getsockname()
        face.address = f"{host}:{port}"
    try:
        yield face
    finally:
        server.should_exit = True
        await task


async def settled(condition: Callable[[], bool], what: str) -> None:
    """Waits until something holds that no event tells of."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert condition(), what


SERVER_EVENTS: dict[str, type[BaseModel]] = {
    get_args(model.model_fields["type"].annotation)[0]: model
    for model in get_args(get_args(RealtimeServerEvent)[0])
}
#: what we add to the original's objects
_EXTRA = {
    "session": {"id", "object", "temperature", "duplexd"},
}


def check(event: dict[str, Any]) -> dict[str, Any]:
    """Validates an event that we sent against the original's types; returns it."""
    assert isinstance(event["event_id"], str)
    if event["type"].startswith("duplexd."):
        return event
    model = SERVER_EVENTS[event["type"]].model_validate(_without_extensions(event), strict=True)
    _no_extras(model, "")
    return event


def _without_extensions(value: Any) -> Any:
    """16 kHz is ours."""
    if isinstance(value, list):
        return [_without_extensions(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "audio/pcm" and value.get("rate") == 16_000:
        return {**value, "rate": 24_000}
    return {key: _without_extensions(each) for key, each in value.items()}


def _no_extras(model: Any, name: str) -> None:
    if isinstance(model, list):
        for one in model:
            _no_extras(one, name)
    elif isinstance(model, BaseModel):
        extra = set(model.model_extra or ()) - _EXTRA.get(name, set())
        assert not extra, f"{type(model).__name__} has no {extra}"
        for key in type(model).model_fields:
            _no_extras(getattr(model, key), key)
