"""Invariants: asked to end while it speaks texts, the daemon ends within seconds and without a
complaint, whether they are read, or not, or have not been sent yet.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack

from tests.daemon.process import END_S, serving

HEAD = (
    "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Content-Length: {}\r\n\r\n"
)
BODY = json.dumps(
    {
        "model": "duplexd",
        "voice": "alloy",
        "response_format": "pcm",
        "input": "It goes on and on, and nobody knows the end of it. " * 80,
    }
)


async def test_it_ends_while_it_speaks():
    async with AsyncExitStack() as stack:
        daemon = await stack.enter_async_context(serving(engines="scripted:asr=0,llm=0,tts=10"))

        async def ask(text: str) -> asyncio.StreamReader:
            reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port, limit=1024)
            stack.callback(lambda: writer.transport.abort())  # keeps it, or it would be closed
            writer.write(text.encode())
            return reader

        whole = HEAD.format(len(BODY)) + BODY
        read, unread = [await ask(whole) for _ in range(2)]
        await ask(HEAD.format(500) + "half")
        for each in (read, unread):
            assert (await asyncio.wait_for(each.readline(), 30)).startswith(b"HTTP/1.1 200 ")
        taking = asyncio.create_task(take(read))
        code, seconds = await asyncio.to_thread(daemon.end)
        assert (code, seconds < END_S) == (0, True), daemon.log
        await asyncio.wait_for(taking, 30)
        assert daemon.lines[-1].endswith(" stopped")
        for bad in ("Traceback", "ERROR", "Cancel", "Task was destroyed"):
            assert bad not in daemon.log, daemon.log


async def take(reader: asyncio.StreamReader) -> None:
    """Reads until the daemon is gone."""
    try:
        while await reader.read(65536):
            pass
    except ConnectionResetError:
        pass
