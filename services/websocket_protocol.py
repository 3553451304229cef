"""uvicorn's WebSocket protocol, made honest about clients that do not read, or have vanished.

As it is, a server application cannot drop such a client: `close` waits behind the data that the
client does not take, and megabytes fit into the kernel's buffers before a send waits at all. Here
the buffers are small, so that a send that returned is nearly with the client, and the application
finds an `abort` in the scope.

A peer that vanished without a goodbye while nothing is sent to it would keep its place for ever:
TCP asks it whether it is there. The protocol's own pings are not answered by every device.

And it is made fair to the others. As it is, 256 KB of tiny frames are read in one go, which takes
half a second; here they are read in short stretches, and the event loop goes round in between.
"""

from __future__ import annotations

import asyncio
from asyncio import Transport
from asyncio.transports import BaseTransport
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from services.backlog import Backlog
from services.sockets import make_honest

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveEvent, ASGISendEvent

#: name of the scope's extension; its value is {"call": a function that drops the connection}
ABORT = "duplexd.abort"
#: name of another; its value is {"set": a function that takes what is to be called when the server
#: ends, in place of a close of uvicorn's own: the application says goodbye itself}
PARTING = "duplexd.parting"
#: how long a goodbye may take when the server ends, seconds
PARTING_S = 0.5
#: to what starts as a handshake and is no request that a WebSocket can begin with
_MALFORMED = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nCache-Control: no-store\r\n"
    b"Connection: close\r\n\r\n"
)


class FaceWebSocketProtocol(WebSocketsSansIOProtocol):
    """For `uvicorn.Config(ws=FaceWebSocketProtocol)`."""

    def connection_made(self, transport: BaseTransport) -> None:
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self._backlog = Backlog(self._take)
        self._reading: asyncio.Handle | None = None
        self._parting: Callable[[], None] | None = None
        make_honest(cast(Transport, transport))

    def handle_connect(self, event: Request) -> None:
        """Called with the handshake; the application's task starts after this returns."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            extensions = self.scope.get("extensions") or {}
            self.scope["extensions"] = {
                **extensions,
                ABORT: {"call": self.transport.abort},
                PARTING: {"set": self._set_parting},
            }

    async def send(self, message: ASGISendEvent) -> None:
        """See ASGI. A handshake that was answered by HTTP is over: uvicorn forgets to note it, and
        logs an error for every client that is refused.
        """
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True
        elif message["type"] == "websocket.close":
            self._go_on()  # the peer's goodbye may stand behind what nobody reads any more

    def shutdown(self) -> None:
        """The server ends. A client that does not take its goodbye is not waited for."""
        if self._parting is None:
            super().shutdown()
        else:
            self._parting()
        self.loop.call_later(PARTING_S, self.transport.abort)

    def _set_parting(self, parting: Callable[[], None]) -> None:
        self._parting = parting

    # --- fair reading -----------------------------------------------------------------------
    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._backlog.add(data)
        if self._reading is None:
            self._read_on()

    async def receive(self) -> ASGIReceiveEvent:
        """See ASGI."""
        message = await self.queue.get()
        self._go_on()
        return message

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._backlog.clear()
        super().connection_lost(exc)

    def handle_ping(self) -> None:
        """Answers, unless the peer does not even take what it was sent before: its pings would fill
        the memory with answers. RFC 6455 lets one answer the last of many.
        """
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def _take(self, data: bytes) -> bool:
        """Reads a piece; one message at a time is enough for the application."""
        super().data_received(data)
        if not self.handshake_initiated and self.conn.handshake_exc is not None:
            self._malformed()
        return self._wanted and not self.transport.is_closing()

    def _malformed(self) -> None:
        """Answers what websockets has refused: uvicorn forgets to, and keeps the connection."""
        answer = b"".join(self.conn.data_to_send())
        self.transport.write(answer or _MALFORMED)
        self.transport.close()

    @property
    def _wanted(self) -> bool:
        """The application has what was read, or wants nothing any more."""
        return self.queue.empty() or self.close_sent

    def _read_on(self) -> None:
        self._reading = None
        if self.transport.is_closing():
            self._backlog.clear()
        self._backlog.go_on()
        self._go_on()

    def _go_on(self) -> None:
        """Goes on with what was received when the loop has gone round, then with the socket."""
        if self._backlog:
            if not self.read_paused:
                self.read_paused = True
                self.transport.pause_reading()
            if self._reading is None and self._wanted:
                self._reading = self.loop.call_soon(self._read_on)
        elif self.read_paused and self._wanted and not self.transport.is_closing():
            self.read_paused = False
            self.transport.resume_reading()
