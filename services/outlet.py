"""A WebSocket's way out: opened, written to in order, and closed or cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fastapi import WebSocket
from loguru import logger
from starlette.websockets import WebSocketDisconnect

from services.socket_writer import SocketWriter
from services.websocket_protocol import ABORT
from tts_engine.errors import TimedOut


class Outlet(SocketWriter[str | bytes]):
    """The one writer of a WebSocket, which also ends it.

    Parameters:
        socket: not yet accepted.
        name: of the client, for logs.
        timeout_s: from the queue to the socket, and for a goodbye.
        on_failure: called once when sending has failed; None: the client is gone. The socket is cut
            by then.
    """

    def __init__(
        self,
        socket: WebSocket,
        *,
        name: str,
        timeout_s: float,
        on_failure: Callable[[TimedOut | None], None],
    ) -> None:
        super().__init__(send=self._hand_over, timeout_s=timeout_s, on_failure=self._failed)
        self._socket = socket
        self._name = name
        self._patience_s = timeout_s
        self._tell = on_failure
        self._gone = False

    async def accept(self, subprotocol: str | None = None) -> bool:
        """Completes the handshake.

        Returns:
            Whether the client is still there.
        """
        try:
            await self._socket.accept(subprotocol)
        except (OSError, RuntimeError, WebSocketDisconnect):
            logger.debug("{}: the client left at the door", self._name)
            return False
        return True

    async def close(self, code: int, *, patience_s: float | None = None) -> None:
        """Says goodbye to a client that is still there; one that does not answer is cut.

        Args:
            code: why.
            patience_s: waits no longer; None: as for any message.
        """
        if self._gone:
            return
        try:
            async with asyncio.timeout(self._patience_s if patience_s is None else patience_s):
                await self._socket.close(code)
        except TimeoutError:
            self._cut()
        except (WebSocketDisconnect, RuntimeError):
            pass  # the client was faster

    async def _hand_over(self, data: str | bytes) -> None:
        """Hands a message to the socket.

        Raises:
            ConnectionError: the client is gone.
        """
        kind = "text" if isinstance(data, str) else "bytes"
        try:
            await self._socket.send({"type": "websocket.send", kind: data})
        except (WebSocketDisconnect, RuntimeError) as error:
            # RuntimeError: the socket was closed, by either side, and nobody told us yet
            raise ConnectionError("the client is gone") from error

    def _failed(self, error: TimedOut | None) -> None:
        self._gone = True
        if error is not None:
            logger.warning("{}: connection dropped: {}", self._name, error)
            self._cut()
        self._tell(error)

    def _cut(self) -> None:
        """Drops the socket with all that waits in it, where the server lets us."""
        extension = self._socket.scope.get("extensions", {}).get(ABORT)
        if extension is not None:
            extension["call"]()
