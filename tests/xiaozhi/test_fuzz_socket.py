"""Invariants: nothing that comes by a device's socket crashes the daemon, closes a connection as an
error of the server's, stays in memory, or costs another device its turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets

from tests.daemon.inside import inside, settled
from tests.daemon.process import DaemonProcess
from tests.xiaozhi.device import (
    STOP,
    Device,
    Microphone,
    connected,
    headers_of,
    silence,
    talking,
    voice,
)
from tests.xiaozhi.order import answers
from tests.xiaozhi.turn import turn

#: messages in all, and sockets that they come by
MESSAGES, SOCKETS = 100_000, 12
#: what the allocator may keep of what was freed, bytes
SLACK = 48 << 20
PONG = ("pong", "")


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """One for all of them: what one test leaves behind, the next one finds."""
    with DaemonProcess(sets={"scripted.replies": "[好的。]"}) as served:
        yield served.ready()


def address(daemon: DaemonProcess) -> str:
    return daemon.http.split("//")[1]


async def works(daemon: DaemonProcess) -> None:
    """A device comes, talks and goes, and no other one is left."""
    async with talking(address(daemon)) as device:
        await turn(device)
        assert answers(device.told).played[0] > 2
    await asyncio.to_thread(daemon.metric, "sessions", 0, timeout_s=30.0)


@asynccontextmanager
async def unharmed(daemon: DaemonProcess) -> AsyncIterator[None]:
    """Whatever is done to the daemon meanwhile, it has to be as it was afterwards."""
    await works(daemon)
    process = daemon.process
    files, memory = process.num_fds(), process.memory_info().rss
    yield
    await works(daemon)
    await settled(lambda: process.num_fds() <= files, "files are left open")
    await settled(lambda: process.memory_info().rss < memory + SLACK, "memory is not freed")
    assert not [line for line in daemon.lines if " ERROR " in line or "Traceback" in line]


async def dealt_with(device: Device) -> None:
    """Waits until all that was sent has been looked at."""
    count = len(device.of(PONG))
    await device.send("ping")
    await device.wait(PONG, count + 1)


# --- messages that are none -------------------------------------------------------------------
_WHOLE: list[dict[str, Any]] = [
    {"type": "hello", "version": 1, "audio_params": {"format": "opus", "frame_duration": 60}},
    {"type": "listen", "state": "start", "mode": "auto"},
    {"type": "listen", "state": "stop"},
    {"type": "listen", "state": "detect", "text": "你好小智"},
    {"type": "abort", "reason": "wake_word_detected"},
    {"type": "mcp", "payload": {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}},
    {"type": "iot", "update": True, "descriptors": [{"name": "x", "methods": {"m": {}}}]},
    {"type": "iot", "states": [{"name": "x", "state": {"on": True}}]},
]
_ODD: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**30, "", "x", "\u0000", "好" * 1000, [], {}, [[]], {"a": [1]}),
    *("start", "auto", "opus", "x" * 5000, float("inf"), "\ud800", 2**63, [{}] * 50),
]


class Fuzz:
    """Messages by chance."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def message(self) -> str | bytes:
        """One that no device sends."""
        return self._chance.choice((self.binary, self.header, self.text, self.cut, self.odd))()

    def binary(self) -> bytes:
        return self._chance.randbytes(self._chance.choice((0, 1, 3, 4, 15, 16, 17, 60, 300)))

    def header(self) -> bytes:
        """A header of one of the framings, with wrong numbers."""
        chance = self._chance
        size = chance.choice((0, 1, 10, 65_535, 2**32 - 1))
        packet = chance.randbytes(chance.choice((0, 1, 10, 11)))
        kind = chance.choice((0, 1, 2, 255))
        if chance.random() < 0.5:
            return struct.pack(">HHIII", chance.choice((2, 3)), kind, 0, size, size) + packet
        return struct.pack(">BBH", kind, 0, size & 0xFFFF) + packet

    def text(self) -> str:
        chance = self._chance
        return "".join(chance.choice('{}[]":,\\ a0好\n\u0000\uffff') for _ in range(40))

    def cut(self) -> str:
        """What a device would send, but not all of it."""
        whole = json.dumps(self._chance.choice(_WHOLE))
        return whole[: self._chance.randrange(len(whole))]

    def odd(self) -> str:
        """What a device would send, with something else in one place."""
        chance = self._chance
        message = json.loads(json.dumps(chance.choice(_WHOLE)))
        inner = [message, *(each for each in message.values() if isinstance(each, dict))]
        place = chance.choice(inner)
        if place:
            place[chance.choice(sorted(place))] = chance.choice(_ODD)
        return json.dumps(message)


@pytest.mark.timeout(240)
async def test_a_hundred_thousand_messages_that_are_none(daemon: DaemonProcess) -> None:
    async def one(number: int) -> None:
        fuzz = Fuzz(number)
        version = number % 3 + 1
        device_id = f"aa:bb:cc:dd:f0:{number:02x}"
        async with connected(address(daemon), version=version, device_id=device_id) as device:
            await device.hello(features={"mcp": number % 2 == 0})
            if number % 4:
                await device.listen(("auto", "manual", "realtime")[number % 4 - 1])
            for count in range(MESSAGES // SOCKETS + 1):
                await device.connection.send(fuzz.message())
                if count % 500 == 499:
                    await dealt_with(device)
            await dealt_with(device)
            assert device.closed is None
            await device.abort()
            await dealt_with(device)
            await turn(device)
            assert not answers(device.told, aborts=10**6).speaking

    async with unharmed(daemon):
        await asyncio.gather(*(one(number) for number in range(SOCKETS)))


async def test_messages_before_the_hello(daemon: DaemonProcess) -> None:
    fuzz = Fuzz(99)
    async with unharmed(daemon), connected(address(daemon)) as device:
        sent = 0
        while sent < 3000:
            message = fuzz.message()
            if not (isinstance(message, str) and "hello" in message):
                await device.connection.send(message)
                sent += 1
        await device.hello()
        await device.abort()
        await dealt_with(device)
        await turn(device)


# --- too much ---------------------------------------------------------------------------------
async def test_messages_of_ten_megabytes(daemon: DaemonProcess) -> None:
    async with unharmed(daemon), talking(address(daemon)) as device:
        size = 10 << 20
        for message in ("a" * size, bytes(size), '{"type":"x","a":"' + "b" * size + '"}'):
            await device.connection.send(message)
        await device.connection.send("[" + "[]," * 3_300_000 + "[]]")
        await device.connection.send([b"x" * 1000] * 10_000)  # in fragments
        await dealt_with(device)
        await turn(device)


async def test_a_message_without_end_is_refused(daemon: DaemonProcess) -> None:
    async with unharmed(daemon), talking(address(daemon)) as device:
        with contextlib.suppress(websockets.ConnectionClosed):  # it may not even be taken
            await device.connection.send(bytes(20 << 20))
        closed = await device.over()
        assert closed.rcvd is None or closed.rcvd.code == 1009


async def test_ten_minutes_of_silence_and_of_noise_are_not_kept(daemon: DaemonProcess) -> None:
    """As fast as it is taken; nobody who speaks meanwhile waits for it."""
    async with (
        unharmed(daemon),
        talking(address(daemon), device_id="aa:bb:cc:dd:f1:01", mode="realtime") as quiet,
        talking(address(daemon), device_id="aa:bb:cc:dd:f1:02", mode="manual") as loud,
        talking(address(daemon), device_id="aa:bb:cc:dd:f1:03") as other,
    ):
        still, noise = Microphone().packets(silence(0.6)), Microphone().packets(voice(0.6))

        async def pour(device: Device, packets: list[bytes]) -> None:
            for count in range(10_000):
                await device.packet(packets[count % 10])

        pouring = [asyncio.create_task(pour(quiet, still)), asyncio.create_task(pour(loud, noise))]
        await turn(other)
        await asyncio.gather(*pouring)
        await dealt_with(quiet)
        await dealt_with(loud)
        await loud.abort()
        await loud.wait(STOP)


async def test_a_device_that_does_not_read_is_given_up(tmp_path: Path) -> None:
    sets = {
        "scripted.replies": "[很久很久以前，有一个很小很小的村子。]",
        "server.send_timeout_s": 1,
    }
    async with inside(sets) as daemon:
        async with talking(daemon.address) as deaf:
            deaf.connection.transport.pause_reading()
            for _ in range(1500):
                await deaf.send("ping")
            for _ in range(40):
                await deaf.detect("讲个故事" * 300)
            async with talking(daemon.address, device_id="aa:bb:cc:dd:f2:01") as other:
                await turn(other)
            deaf.vanish()
        await daemon.empty()


# --- at the door ------------------------------------------------------------------------------
UPGRADE = (
    b"GET /xiaozhi/v1/ HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Version: 13\r\nDevice-Id: aa:bb:cc:dd:f3:01\r\n"
)


async def test_handshakes_that_come_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow loris: its connections end, and nobody waits for them meanwhile."""
    monkeypatch.setattr("services.http_protocol.HEAD_S", 2.0)

    async def one(host: str, port: str) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        reading = asyncio.create_task(reader.read())
        try:
            for byte in UPGRADE:
                writer.write(bytes([byte]))
                done, _ = await asyncio.wait([reading], timeout=0.1)
                if done:
                    return
            raise AssertionError("the connection did not end")
        except ConnectionError:
            pass
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            writer.close()

    async with inside({"scripted.replies": "[好的。]"}) as daemon:
        slow = [asyncio.create_task(one(*daemon.address.split(":"))) for _ in range(100)]
        async with talking(daemon.address) as device:
            await turn(device)
            assert not all(each.done() for each in slow)
            await asyncio.gather(*slow)
            await turn(device)
            assert len(daemon.daemon.sessions) == 1
        await daemon.empty()


async def test_a_flood_of_strangers(tmp_path: Path) -> None:
    """They are all refused, take no place, and do not interrupt who talks."""
    sets = {
        "xiaozhi.devices_file": tmp_path / "devices.json",
        "xiaozhi.auth": "on",
        "xiaozhi.enrolment": "open",
        "scripted.replies": "[很久很久以前，有一个很小很小的村子。]",
    }
    statuses: list[int] = []

    async def stranger(host: str, number: int) -> None:
        headers = headers_of(f"aa:bb:cc:dd:f4:{number % 100:02x}", token="x" * (number % 300))
        try:
            async with connected(host, headers=headers):
                statuses.append(101)
        except websockets.InvalidStatus as error:
            statuses.append(error.response.status_code)

    with DaemonProcess(sets=sets) as served:
        served.ready()
        host = address(served)
        token = await owner(host)
        async with talking(host, token=token) as device:
            await turn(device)
            memory = served.process.memory_info().rss
            flood = [asyncio.create_task(strangers(stranger, host, first)) for first in range(20)]
            await turn(device)
            await asyncio.gather(*flood)
            assert len(statuses) == 1000
            assert set(statuses) <= {401, 403, 429, 503}
            assert served.metrics()["sessions"] == 1
            await turn(device)
            assert served.process.memory_info().rss < memory + SLACK
        assert not [line for line in served.lines if "Traceback" in line]


async def strangers(stranger: Any, host: str, first: int) -> None:
    for number in range(first, 1000, 20):
        await stranger(host, number)


async def owner(host: str) -> str:
    """A device that boots: its token."""
    async with httpx.AsyncClient() as client:
        response = await client.post(
            f"http://{host}/xiaozhi/ota/", headers=headers_of("aa:bb:cc:dd:ee:01")
        )
        return response.json()["websocket"]["token"]
