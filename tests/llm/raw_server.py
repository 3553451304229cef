"""A language model server that sends what a test says, byte by byte, behind the real client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from typing import Any

import httpx2  # the HTTP library that the openai client itself is built on
from openai import AsyncOpenAI

#: a body: its parts, in order
Body = Iterable[bytes] | AsyncGenerator[bytes, None]


def event(data: Any) -> bytes:
    """One server-sent event; lone surrogates are spelt as JSON escapes."""
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def delta(finish: str | None = None, **fields: Any) -> bytes:
    """A completion chunk."""
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return event({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})


def text(*pieces: Any) -> list[bytes]:
    """Chunks of text, without an end."""
    return [delta(content=piece) for piece in pieces]


def call(name: str | None = None, arguments: str | None = None, **fields: Any) -> bytes:
    """A chunk with a piece of a function call."""
    function = {"name": name, "arguments": arguments}
    return delta(tool_calls=[{"index": 0, "function": function, **fields}])


def usage(**counts: Any) -> bytes:
    """A chunk with a count of tokens and no choices."""
    return event({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": counts})


async def silent_after(*parts: bytes) -> AsyncGenerator[bytes, None]:
    """A body that never ends."""
    for part in parts:
        yield part
    await asyncio.Event().wait()


DONE = b"data: [DONE]\n\n"
STOP = [delta("stop"), DONE]


class RawServer:
    """Answers each request with the next body, the last one again and again.

    Parameters:
        requests: the bodies of all requests.
        client: a real client of this server.
    """

    def __init__(self, *bodies: Callable[[], Body | httpx2.Response]) -> None:
        self._bodies = list(bodies)
        self.requests: list[dict[str, Any]] = []
        self.client = AsyncOpenAI(
            api_key="raw",
            base_url="http://raw.invalid/v1",
            max_retries=0,
            http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer)),
        )

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(json.loads(request.content))
        body = self._bodies.pop(0) if len(self._bodies) > 1 else self._bodies[0]
        made = body()
        if isinstance(made, httpx2.Response):
            return made
        content = made if isinstance(made, AsyncGenerator) else _parts(made)
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=_Connection(content))


class _Connection(httpx2.AsyncByteStream):
    """Ends the body when the client closes it; httpx's own leaves that to the collector."""

    def __init__(self, content: AsyncGenerator[bytes, None]) -> None:
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._content

    async def aclose(self) -> None:
        await self._content.aclose()


async def _parts(parts: Iterable[bytes]) -> AsyncGenerator[bytes, None]:
    for part in parts:
        yield part
