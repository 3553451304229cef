"""uvicorn's WebSocket protocol, made honest about clients that do not read.

As it is, a server application cannot drop such a client: `close` waits behind the data that the
client does not take, and megabytes fit into the kernel's buffers before a send waits at all. Here
the buffers are small, so that a send that returned is nearly with the client, and the application
finds an `abort` in the scope.
"""

from __future__ import annotations

import socket
from asyncio import Transport
from asyncio.transports import BaseTransport
from typing import cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

#: name of the scope's extension; its value is {"call": a function that drops the connection}
ABORT = "duplexd.abort"
#: bytes that may wait in the kernel: one second of audio as the Realtime protocol sends it
_KERNEL_BUFFER = 64 * 1024
#: bytes that may wait in the process before a send waits
_PROCESS_BUFFER = 16 * 1024


class FaceWebSocketProtocol(WebSocketsSansIOProtocol):
    """For `uvicorn.Config(ws=FaceWebSocketProtocol)`."""

    def connection_made(self, transport: BaseTransport) -> None:
        """See asyncio.Protocol."""
        super().connection_made(transport)
        connection = cast("socket.socket | None", transport.get_extra_info("socket"))
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER)
        cast(Transport, transport).set_write_buffer_limits(high=_PROCESS_BUFFER)

    def handle_connect(self, event: Request) -> None:
        """Called with the handshake; the application's task starts after this returns."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            extensions = self.scope.get("extensions") or {}
            self.scope["extensions"] = {**extensions, ABORT: {"call": self.transport.abort}}
