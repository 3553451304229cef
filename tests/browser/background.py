"""A daemon in a thread of the test's process, for engines that no configuration names."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.daemon.inside import inside
from tts_engine.engine import SpeechEngine

#: for a daemon to be ready, or gone, on a machine that others use as well, seconds
PATIENCE_S = 60.0


@contextmanager
def in_background(voice: SpeechEngine, sets: Mapping[str, object]) -> Iterator[str]:
    """A daemon that is ready, with this voice; gives its base address.

    Args:
        voice: not started.
        sets: as for `--set`.
    """
    loop = asyncio.new_event_loop()
    ready, over = threading.Event(), asyncio.Event()
    addresses: list[str] = []
    failures: list[BaseException] = []

    async def serve() -> None:
        async with inside(sets, voice=voice) as served:
            addresses.append(f"http://{served.address}")
            ready.set()
            await over.wait()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        except BaseException as error:
            failures.append(error)
        finally:
            loop.close()
            ready.set()

    thread = threading.Thread(target=run, name="daemon")
    thread.start()
    try:
        assert ready.wait(PATIENCE_S), "the daemon is not ready"
        if addresses:
            yield addresses[0]
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(over.set)
        thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the daemon does not end"
    for failure in failures:
        raise failure
