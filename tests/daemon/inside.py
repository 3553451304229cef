"""A daemon in the test's own event loop, for tests that look inside or put faulty engines in."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from pipeline.app import Daemon, create_app
from pipeline.commands.options import overrides
from pipeline.commands.serve import listen, uvicorn_config
from pipeline.config import load_config
from pipeline.session import Session
from pipeline.talk.daemon import address_of
from services.access.tls import Tls
from services.asr.base import AsrEngine
from services.models import Manifest, ModelStore
from tests.daemon.client import PATIENCE_S
from tests.daemon.process import settings
from tts_engine.engine import SpeechEngine


@dataclass
class Inside:
    """A served daemon."""

    daemon: Daemon
    address: str
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    known: weakref.WeakSet[Session] = field(default_factory=weakref.WeakSet)

    @property
    def url(self) -> str:
        return f"ws://{self.address}/v1/realtime"

    def count(self, name: str, **labels: str) -> float:
        """A sample of /metrics; 0 for what has none yet."""
        return self.daemon.metrics.registry.get_sample_value(f"duplexd_{name}", labels) or 0.0

    async def empty(self) -> None:
        """Waits until every conversation is over."""
        await settled(lambda: not self.daemon.sessions, "conversations are left")


async def settled(condition: Callable[[], bool], what: str) -> None:
    """Waits until something holds that no event tells of."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(what) from None


@asynccontextmanager
async def serving(
    config: uvicorn.Config,
    listener: socket.socket,
    ready: asyncio.Event | None,
    *,
    start_s: float = PATIENCE_S,
) -> AsyncIterator[None]:
    """Serves an application; checks that it leaves no task behind.

    Args:
        config: of the server.
        listener: whoever comes before the server is up waits.
        ready: is waited for; None: nothing is.
        start_s: for so long.
    """

    class Server(uvicorn.Server):
        """Leaves the signals to the tests' runner."""

        async def serve(self, sockets: list[socket.socket] | None = None) -> None:
            await self._serve(sockets)

    before = asyncio.all_tasks()
    server = Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        if ready is not None:
            async with asyncio.timeout(start_s):
                await ready.wait()
        yield
    finally:
        server.should_exit = True
        async with asyncio.timeout(PATIENCE_S):
            await task
    left = {each.get_name() for each in asyncio.all_tasks() - before}
    assert not left, f"tasks left behind: {left}"


@asynccontextmanager
async def inside(
    sets: Mapping[str, object] | None = None,
    *,
    asr: AsrEngine | None = None,
    voice: SpeechEngine | None = None,
    ready: bool = True,
    tls: Tls | None = None,
) -> AsyncIterator[Inside]:
    """Serves a daemon with scripted engines, on loopback if `server.host` does not differ; checks
    that it leaves no task behind.

    Args:
        sets: as for `--set`.
        asr: instead of the configured one.
        voice: instead of the configured one.
        ready: wait until it is.
        tls: serves over it.
    """
    given = overrides(settings(sets)[1::2], engines="scripted:instant")
    config = load_config(None, given, environ={})
    store = ModelStore(root=Path("none"), manifest=Manifest(models={}))
    daemon = Daemon(config=config, store=store)
    daemon.room.asr = asr or daemon.room.asr
    daemon.room.voice = voice or daemon.room.voice
    host = config.server.host
    listener = listen(host, 0)
    served = Inside(daemon, address_of(host, listener.getsockname()[1]))

    app = create_app(
        daemon,
        on_ready=served.ready.set,
        on_failure=served.failed.set,
        ca_certificate=tls and tls.authority,
    )
    opened = daemon.open

    def remember(*args: object) -> Session:
        session = opened(*args)  # type: ignore[arg-type]
        served.known.add(session)
        return session

    daemon.open = remember  # type: ignore[method-assign]
    async with serving(uvicorn_config(app, tls), listener, served.ready if ready else None):
        yield served


def alive(served: Inside) -> int:
    """Conversations that are still in memory."""
    gc.collect()
    return len(served.known)
