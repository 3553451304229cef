"""The scripted LLM behind a real socket on loopback, for what only a socket can do: break."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from types import TracebackType
from typing import Self, cast

from services.scripted.llm_script import ConnectionDropped, LlmScript

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 429: "Too Many Requests"}


def _parse_head(head: str) -> tuple[str, str, int]:
    """Method, path and body length of a request; ValueError if it is none."""
    request, *lines = head.split("\r\n")
    method, path, _ = request.split(" ")
    length = 0
    for line in lines:
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            length = int(value)
    return method, path, length


class _Connection(asyncio.Protocol):
    """One client connection: HTTP/1.1, keep-alive, one request at a time, chunked responses."""

    def __init__(self, server: ScriptedLlmServer) -> None:
        self._server = server
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next()

    def _next(self) -> None:
        """Starts on the next request if it has arrived whole and none is being answered."""
        head, found, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        if not found or self._task is not None:
            return
        try:
            method, path, length = _parse_head(head.decode("latin-1"))
        except ValueError:
            self._transport.abort()
            return
        if len(rest) < length:
            return
        self._buffer = bytearray(rest[length:])
        self._task = asyncio.get_running_loop().create_task(
            self._answer(method, path, rest[:length])
        )
        self._server.tasks.add(self._task)
        self._task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._server.tasks.discard(task)
        self._task = None
        if not self._transport.is_closing():
            self._next()

    async def _answer(self, method: str, path: str, body: bytes) -> None:
        write = self._transport.write
        try:
            reply = self._server.script.answer(method, path, body)
        except ConnectionDropped:
            self._transport.abort()
            return
        async with contextlib.aclosing(reply):
            reason = _REASONS.get(reply.status, "Internal Server Error")
            write(
                f"HTTP/1.1 {reply.status} {reason}\r\ncontent-type: {reply.content_type}\r\n"
                "transfer-encoding: chunked\r\n\r\n".encode()
            )
            try:
                async for part in reply:
                    write(b"%x\r\n%b\r\n" % (len(part), part))
            except ConnectionDropped:
                # not abort: what was sent before shall arrive
                self._transport.close()
                return
            write(b"0\r\n\r\n")

    def abort(self) -> None:
        """Breaks the connection at once."""
        self._transport.abort()


class ScriptedLlmServer:
    """An OpenAI-compatible server on a free port of 127.0.0.1, answered by a script.

        async with ScriptedLlmServer(script=LlmScript(fault=LlmFault(kind="dies"))) as server:
            client = AsyncOpenAI(base_url=server.base_url, api_key="any")

    Args:
        script: what is answered, how fast, what goes wrong, and what was seen.
        reachable: False: the port is reserved and refuses connections.
    """

    def __init__(self, *, script: LlmScript | None = None, reachable: bool = True) -> None:
        self.script = script or LlmScript()
        self.connections: set[_Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self._reachable = reachable
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None

    @property
    def base_url(self) -> str:
        """What an OpenAI client wants as `base_url`; valid once started.

        Raises:
            RuntimeError: the server is not running.
        """
        if self._socket is None:
            raise RuntimeError("the scripted LLM server is not running")
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    async def start(self) -> None:
        """Binds the port and serves. Idempotent."""
        if self._socket is not None:
            return
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind(("127.0.0.1", 0))
        if self._reachable:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(lambda: _Connection(self), sock=self._socket)

    async def close(self) -> None:
        """Breaks every connection and frees the port. Idempotent."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self.connections):
            connection.abort()
        tasks = tuple(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
