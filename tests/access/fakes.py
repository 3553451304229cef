"""Fakes for the tests of the door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from pipeline.commands.serve import STALL_S, listen, uvicorn_config
from services.access.key_file import KeyFile
from services.access.keys import KeyRing, digest_of, new_key
from services.access.middleware import AccessMiddleware
from services.access.tls import Tls
from tts_engine.errors import DuplexdError


@dataclass
class Clock:
    """A clock that stands until it is moved, seconds."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class House:
    """What is behind the door: an application that shows what it is given."""

    file: KeyFile
    clock: Clock = field(default_factory=Clock)
    refusals: list[DuplexdError] = field(default_factory=list[DuplexdError])
    scopes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    address: str = ""

    def key(self) -> str:
        """A new key that is good at once."""
        key = new_key()
        self.file.add(digest_of(key))
        self.clock.now += 1
        return key

    def door(self, app: ASGIApp | None = None, **changes: Any) -> AccessMiddleware:
        """The door; changes are parameters that are not the usual ones."""
        usual: dict[str, Any] = {
            "names": frozenset({"studio"}),
            "origins": frozenset({"https://app.example.com:443"}),
            "keys": KeyRing(file=self.file, clock=self.clock),
            "requests_per_minute": 0,
            "key_page": b"<!doctype html><title>key?</title>",
            "key_page_policy": "default-src 'none'",
            "on_refused": self.refusals.append,
            "clock": self.clock,
        }
        return AccessMiddleware(app or self._rooms, **{**usual, **changes})

    async def _rooms(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(dict(scope))
        if scope["type"] == "http":
            await PlainTextResponse("welcome")(scope, receive, send)
        elif scope["type"] == "websocket":
            socket = WebSocket(scope, receive, send)
            offered = scope["subprotocols"]
            await socket.accept(offered[-1] if offered else None)
            await socket.send_text("welcome")
            await socket.close()


@asynccontextmanager
async def open_house(
    house: House,
    *,
    app: ASGIApp | None = None,
    tls: Tls | None = None,
    stall_s: float = STALL_S,
    **changes: Any,
) -> AsyncIterator[httpx.AsyncClient]:
    """Serves it on loopback; gives a client without a key.

    Args:
        house: it.
        app: behind the door instead.
        tls: serves over it.
        stall_s: see `uvicorn_config`.
        changes: of the door.
    """
    door: Any = house.door(app, **changes)
    config = uvicorn_config(door, tls, stall_s=stall_s)
    config.lifespan = "off"
    server = uvicorn.Server(config)
    with listen("127.0.0.1", 0) as listener:
        house.address = f"127.0.0.1:{listener.getsockname()[1]}"
        task = asyncio.create_task(server.serve(sockets=[listener]))
        async with httpx.AsyncClient(
            base_url=f"http://{house.address}", trust_env=False, timeout=30
        ) as client:
            yield client
        server.should_exit = True
        await task
