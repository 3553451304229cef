"""The one writer of a socket: ordered, bounded in length and in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tts_engine.errors import TimedOut

#: messages that may wait; far more than a client that reads ever sees
_LIMIT = 1024
#: of them, answers to what the client sent: its own haste must not cost the conversation its room
_REPLIES = _LIMIT // 2


#: what the socket takes: texts, bytes, or both
T = TypeVar("T")


@dataclass(slots=True)
class _Message(Generic[T]):
    """A message in the queue.

    Parameters:
        due: when it has to be with the socket, by the loop's clock.
        sent: resolved once it is.
        reply: it takes one of the places for replies.
    """

    data: T
    due: float
    sent: asyncio.Future[None] | None = None
    reply: bool = False


class SocketWriter(Generic[T]):
    """Sends messages in the order in which they came. None is dropped while the client is there:
    a client that does not take them in time is given up.

    Parameters:
        send: sends one message; raises ConnectionError when the client is gone.
        timeout_s: from the queue to the socket.
        on_failure: called once when sending has failed; None: the client is gone.
    """

    def __init__(
        self,
        *,
        send: Callable[[T], Awaitable[None]],
        timeout_s: float,
        on_failure: Callable[[TimedOut | None], None],
    ) -> None:
        self._send = send
        self._timeout_s = timeout_s
        self._on_failure = on_failure
        self._queue: asyncio.Queue[_Message[T] | None] = asyncio.Queue(_LIMIT)
        self._replies = asyncio.Semaphore(_REPLIES)
        self._loop = asyncio.get_running_loop()
        self._over = False

    def post(self, data: T) -> None:
        """Queues a message. After the end it goes nowhere."""
        if self._over:
            return
        try:
            self._queue.put_nowait(self._message(data))
        except asyncio.QueueFull:
            self._fail(TimedOut(f"The client does not read: {_LIMIT} messages wait"))

    async def put(self, data: T) -> None:
        """Queues a reply, and waits while too many wait: it slows the client's reader down."""
        await self._replies.acquire()
        if self._over:
            self._replies.release()
            return
        message = self._message(data)
        message.reply = True
        await self._queue.put(message)

    async def send(self, data: T) -> None:
        """Queues a message and waits until the socket has it.

        Raises:
            ConnectionError: the client is gone, or did not take it in time.
        """
        if self._over:
            raise ConnectionError("the client is gone")
        message = self._message(data)
        message.sent = self._loop.create_future()
        await self._queue.put(message)
        # the end may have come while this waited for room; nobody would resolve it then
        if self._over:
            raise ConnectionError("the client is gone")
        await message.sent

    async def run(self) -> None:
        """Sends until `finish` was called and all is sent, or until sending fails."""
        while (message := await self._queue.get()) is not None:
            self._taken(message)
            try:
                async with asyncio.timeout_at(message.due):
                    await self._send(message.data)
            except TimeoutError:
                self._fail(TimedOut(f"The client did not read for {self._timeout_s:g} s"), message)
                return
            except ConnectionError:
                self._fail(None, message)
                return
            if message.sent is not None and not message.sent.done():
                message.sent.set_result(None)
        if not self._over:
            self._end(None)

    async def finish(self) -> None:
        """What was queued is the last."""
        if not self._over:
            await self._queue.put(None)

    def abandon(self) -> None:
        """The client is gone: nothing more is sent. Idempotent."""
        self._fail(None)

    def _message(self, data: T) -> _Message[T]:
        return _Message(data, self._loop.time() + self._timeout_s)

    def _fail(self, error: TimedOut | None, message: _Message[T] | None = None) -> None:
        if not self._over:
            self._end(message)
            # `run` may be waiting for a message
            self._queue.put_nowait(None)
            self._on_failure(error)

    def _end(self, message: _Message[T] | None) -> None:
        """Tells everybody who waits for the socket that it takes no more."""
        self._over = True
        while True:
            if message is not None and message.sent is not None and not message.sent.done():
                message.sent.set_exception(ConnectionError("the client is gone"))
            # taking messages out wakes those that wait for room; they look at _over then
            try:
                message = self._queue.get_nowait()
            except asyncio.QueueEmpty:
                return
            self._taken(message)

    def _taken(self, message: _Message[T] | None) -> None:
        if message is not None and message.reply:
            self._replies.release()
