"""uvicorn's HTTP protocol, made firm with clients that stall.

As it is, whoever opens a connection and says nothing, half a request, or one byte more than its
last one keeps it for ever; so does whoever asks and does not read; and the end of the server waits
for every response, however long. A few hundred such connections take all the file descriptors that
a process has, and need no key.

Here a request's head must be there in time, an answer must be taken in time, and when the server
ends, who was told nothing yet is told so, and what is still being sent is broken off.
"""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from asyncio.transports import BaseTransport
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from services.sockets import make_honest
from tts_engine.errors import NotReady
from tts_engine.service.api_errors import ApiError

if TYPE_CHECKING:
    import h11
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

#: from the connection or the last answer to the end of the next head, seconds
HEAD_S = 15.0
#: an application with a limit of its own has so long to notice first, seconds
_LATER_S = 5.0
#: how long answers may go on when the server ends, seconds
PARTING_S = 0.5


class FirmHttpProtocol(H11Protocol):
    """For `uvicorn.Config(http=FirmHttpProtocol)`.

    How long an application waits for a request's body is its own business.

    Parameters:
        stall_s: how long a client may take nothing of an answer, seconds.
    """

    def __init__(self, *args: Any, stall_s: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stall_s = stall_s + _LATER_S
        self._application = self.app
        self.app = self._answer
        self._answering = 0
        self._due: TimerHandle | None = None
        self._stalled: TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:  # type: ignore[override]
        """See asyncio.Protocol."""
        super().connection_made(cast(Transport, transport))
        make_honest(self.transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._rest()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From here on the connection is another protocol's."""
        self._rest()
        super().handle_websocket_upgrade(event)

    async def _answer(
        self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        self._answering += 1
        self._due = _cancelled(self._due)
        cycle = self.cycle
        try:
            await self._application(scope, receive, send)  # type: ignore[arg-type]
            if cycle.response_started and not cycle.response_complete:
                self._break_off()  # on purpose, and no error of the server's
        finally:
            self._answering -= 1
            if not self._answering and self in self.connections:
                self._wait()

    def _wait(self) -> None:
        self._due = self.loop.call_later(HEAD_S, self._overdue)

    def _overdue(self) -> None:
        """Nothing came. Who still takes the last answer, as a player in its own time, may end."""
        if self.transport.get_write_buffer_size():
            self._due = self.loop.call_later(self._stall_s, self.transport.abort)
        else:
            self.transport.abort()

    def _rest(self) -> None:
        self._due, self._stalled = _cancelled(self._due), _cancelled(self._stalled)

    # --- clients that do not read -----------------------------------------------------------
    def pause_writing(self) -> None:
        """See asyncio.Protocol. What `close` does has to wait for the client, `abort` has not."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self._stall_s, self.transport.abort)

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._stalled = _cancelled(self._stalled)
        super().resume_writing()

    # --- the end ----------------------------------------------------------------------------
    def shutdown(self) -> None:
        """The server ends: what is not over soon is broken off."""
        super().shutdown()
        self.loop.call_later(PARTING_S, self._part)

    def _part(self) -> None:
        if self.transport.is_closing() or self.cycle is None or self.cycle.response_started:
            self.transport.abort()
            return
        self.transport.write(_ending())
        self._break_off()
        self.loop.call_later(PARTING_S, self.transport.abort)  # it may not take even that

    def _break_off(self) -> None:
        """Closes the connection behind what was sent; nothing more is."""
        self.cycle.disconnected = True
        self.cycle.message_event.set()  # the application need not wait for the socket to know
        self.transport.close()


def _ending() -> bytes:
    """The answer to a request that the end of the server finds without one."""
    failure = NotReady("The server is shutting down", mend="Try again when it is up again")
    answer = ApiError(failure, 503, code="shutting_down", headers={"Connection": "close"})
    response = answer.response()
    head = [b"HTTP/1.1 503 Service Unavailable", b"Cache-Control: no-store"]
    head += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*head, b"", bytes(response.body)])


def _cancelled(timer: TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
