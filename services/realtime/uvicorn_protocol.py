"""uvicorn's WebSocket protocol, made honest about clients that do not read, or have vanished.

As it is, a server application cannot drop such a client: `close` waits behind the data that the
client does not take, and megabytes fit into the kernel's buffers before a send waits at all. Here
the buffers are small, so that a send that returned is nearly with the client, and the application
finds an `abort` in the scope.

A peer that vanished without a goodbye while nothing is sent to it would keep its place for ever:
TCP asks it whether it is there. The protocol's own pings are not answered by every device.
"""

from __future__ import annotations

import socket
from asyncio import Transport
from asyncio.transports import BaseTransport
from typing import TYPE_CHECKING, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

#: name of the scope's extension; its value is {"call": a function that drops the connection}
ABORT = "duplexd.abort"
#: bytes that may wait in the kernel: one second of audio as the Realtime protocol sends it
_KERNEL_BUFFER = 64 * 1024
#: bytes that may wait in the process before a send waits
_PROCESS_BUFFER = 16 * 1024
#: a silent peer is asked after 60 s, then every 15 s, and given up when 4 questions got no answer
_KEEPALIVE = (
    (("TCP_KEEPIDLE", "TCP_KEEPALIVE"), 60),  # the second is macOS's name
    (("TCP_KEEPINTVL",), 15),
    (("TCP_KEEPCNT",), 4),
)


class FaceWebSocketProtocol(WebSocketsSansIOProtocol):
    """For `uvicorn.Config(ws=FaceWebSocketProtocol)`."""

    def connection_made(self, transport: BaseTransport) -> None:
        """See asyncio.Protocol."""
        super().connection_made(transport)
        connection = cast("socket.socket | None", transport.get_extra_info("socket"))
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER)
            if connection.family != socket.AF_UNIX:
                _keep_alive(connection)
        cast(Transport, transport).set_write_buffer_limits(high=_PROCESS_BUFFER)

    def handle_connect(self, event: Request) -> None:
        """Called with the handshake; the application's task starts after this returns."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            extensions = self.scope.get("extensions") or {}
            self.scope["extensions"] = {**extensions, ABORT: {"call": self.transport.abort}}

    async def send(self, message: ASGISendEvent) -> None:
        """See ASGI. A handshake that was answered by HTTP is over: uvicorn forgets to note it, and
        logs an error for every client that is refused.
        """
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for names, value in _KEEPALIVE:
        option = next((getattr(socket, name) for name in names if hasattr(socket, name)), None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
