"""Invariants: messages leave in order and none is dropped while the client is there; whoever waits
for the socket is told when the client is gone.
"""

from __future__ import annotations

import asyncio

import pytest

from services.socket_writer import _LIMIT, _REPLIES, SocketWriter
from tts_engine.errors import TimedOut


class Socket:
    """Takes messages while it is open; `gate` holds them up."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.gone = False
        self.waiting = asyncio.Event()
        self.failures: list[TimedOut | None] = []

    async def send(self, text: str) -> None:
        self.waiting.set()
        await self.gate.wait()
        if self.gone:
            raise ConnectionError
        self.taken.append(text)

    def writer(self, timeout_s: float = 10.0) -> SocketWriter:
        return SocketWriter(send=self.send, timeout_s=timeout_s, on_failure=self.failures.append)


async def test_order_holds_whoever_sends():
    socket = Socket()
    writer = socket.writer()
    task = asyncio.create_task(writer.run())
    writer.post("1")
    await writer.put("2")
    await writer.send("3")
    assert socket.taken == ["1", "2", "3"]
    writer.post("4")
    await writer.finish()
    await task
    assert socket.taken == ["1", "2", "3", "4"]
    assert socket.failures == []


async def test_send_returns_when_the_socket_has_it():
    socket = Socket()
    socket.gate.clear()
    writer = socket.writer()
    task = asyncio.create_task(writer.run())
    sending = asyncio.create_task(writer.send("1"))
    await socket.waiting.wait()
    assert not sending.done()
    socket.gate.set()
    await sending
    await writer.finish()
    await task


async def test_a_sender_that_gives_up_harms_nobody():
    socket = Socket()
    socket.gate.clear()
    writer = socket.writer()
    task = asyncio.create_task(writer.run())
    sending = asyncio.create_task(writer.send("1"))
    await socket.waiting.wait()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    socket.gate.set()
    await writer.send("2")
    assert socket.taken == ["1", "2"]
    await writer.finish()
    await task


async def test_a_client_that_does_not_read_is_given_up():
    socket = Socket()
    socket.gate.clear()
    writer = socket.writer(timeout_s=0.05)
    task = asyncio.create_task(writer.run())
    with pytest.raises(ConnectionError):
        await writer.send("1")
    await task
    assert [type(failure) for failure in socket.failures] == [TimedOut]
    with pytest.raises(ConnectionError):
        await writer.send("2")
    writer.post("3")
    await writer.put("4")
    await writer.finish()
    assert socket.taken == []


async def test_a_client_that_is_gone_is_told_to_every_sender():
    socket = Socket()
    socket.gate.clear()
    writer = socket.writer()
    task = asyncio.create_task(writer.run())
    senders = [asyncio.create_task(writer.send(str(i))) for i in range(3)]
    await socket.waiting.wait()
    socket.gone = True
    socket.gate.set()
    results = await asyncio.gather(*senders, return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionError] * 3
    await task
    assert socket.failures == [None]


async def test_after_the_end_nobody_waits():
    socket = Socket()
    writer = socket.writer()
    writer.post("1")
    await writer.finish()
    late = asyncio.create_task(writer.send("2"))
    await asyncio.sleep(0)
    await writer.run()
    with pytest.raises(ConnectionError):
        await late
    with pytest.raises(ConnectionError):
        await writer.send("3")
    writer.abandon()
    assert socket.taken == ["1"]
    assert socket.failures == []


async def test_abandon_ends_the_writer_once():
    socket = Socket()
    writer = socket.writer()
    task = asyncio.create_task(writer.run())
    writer.abandon()
    writer.abandon()
    await task
    assert socket.failures == [None]


async def test_a_full_queue_slows_the_reader_and_fails_the_conversation():
    socket = Socket()
    writer = socket.writer()
    for number in range(_LIMIT):
        writer.post(str(number))
    putting = asyncio.create_task(writer.put("reader"))
    sending = asyncio.create_task(writer.send("audio"))
    await asyncio.sleep(0)
    assert not putting.done()
    writer.post("one too many")
    assert [type(failure) for failure in socket.failures] == [TimedOut]
    with pytest.raises(ConnectionError):
        await sending
    await putting
    await writer.run()
    assert socket.taken == []


async def test_replies_leave_room_for_the_conversation():
    socket = Socket()
    socket.gate.clear()
    writer = socket.writer()
    task = asyncio.create_task(writer.run())
    hasty = asyncio.create_task(reply(writer, 2 * _LIMIT))
    await socket.waiting.wait()
    for number in range(_LIMIT - _REPLIES - 1):
        writer.post(f"post {number}")
    assert not hasty.done()
    assert socket.failures == []
    socket.gate.set()
    await hasty
    await writer.finish()
    await task
    assert [text for text in socket.taken if "reply" in text] == [
        f"reply {number}" for number in range(2 * _LIMIT)
    ]
    assert len(socket.taken) == 3 * _LIMIT - _REPLIES - 1


async def test_a_reply_that_waits_is_freed_by_the_end():
    socket = Socket()
    writer = socket.writer()
    hasty = [asyncio.create_task(reply(writer, _LIMIT)) for _ in range(3)]
    await asyncio.sleep(0)
    writer.abandon()
    async with asyncio.timeout(10):
        await asyncio.gather(*hasty)
    assert socket.failures == [None]


async def reply(writer: SocketWriter, count: int) -> None:
    for number in range(count):
        await writer.put(f"reply {number}")
