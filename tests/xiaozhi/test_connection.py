"""Invariants: a device comes in or is told why not; whichever way a connection ends, nothing of it
is left, and nobody else hears of it.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct

import pytest
import websockets

from services.llm.service import AnswerService
from services.xiaozhi.device_file import DeviceFile
from services.xiaozhi.roster import Roster
from services.xiaozhi.settings import XiaozhiSettings
from tests.daemon.inside import Inside, inside, settled
from tests.daemon.process import serving
from tests.xiaozhi.device import (
    SENTENCE,
    START,
    STOP,
    connected,
    headers_of,
    silence,
    talking,
    voice,
)
from tests.xiaozhi.served import STORY, served
from tts_engine.errors import EngineFailed

SETS = {"scripted.replies": json.dumps([STORY], ensure_ascii=False)}


async def turned_away(address: str, **headers: str) -> int:
    """The status of a handshake."""
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with websockets.connect(
            f"ws://{address}/xiaozhi/v1/", additional_headers=headers, open_timeout=30
        ):
            pass
    return refused.value.response.status_code


async def test_a_full_daemon_says_so_before_the_upgrade() -> None:
    async with inside({**SETS, "server.max_sessions": 1}) as daemon:
        async with talking(daemon.address) as device:
            other = headers_of("aa:bb:cc:dd:ee:02")
            assert await turned_away(daemon.address, **other) == 503
            await device.speak()
            await device.wait(STOP)
            # the device itself gets the place that it holds
            async with talking(daemon.address) as again:
                await device.over()
                await again.speak()
                await again.wait(STOP)
        await daemon.empty()


@served
async def test_a_device_without_an_id(daemon: Inside) -> None:
    assert await turned_away(daemon.address) == 400
    assert await turned_away(daemon.address, **{"Device-Id": "../../etc/passwd"}) == 400


async def test_tokens(tmp_path) -> None:
    file = tmp_path / "devices.json"
    sets = {
        **SETS,
        "xiaozhi.auth": "on",
        "xiaozhi.enrolment": "open",
        "xiaozhi.devices_file": str(file),
    }
    async with inside(sets) as daemon:
        headers = headers_of("aa:bb:cc:dd:ee:01")
        assert await turned_away(daemon.address, **headers) == 401
        wrong = headers_of("aa:bb:cc:dd:ee:01", token="x" * 43)
        assert await turned_away(daemon.address, **wrong) == 401
        reader, writer = await asyncio.open_connection(*daemon.address.split(":"))
        lines = [f"{name}: {value}" for name, value in headers.items()]
        asked = "\r\n".join(
            ["POST /xiaozhi/ota/ HTTP/1.1", f"Host: {daemon.address}", *lines, "Connection: close"]
        )
        writer.write(f"{asked}\r\nContent-Length: 0\r\n\r\n".encode())
        answer = (await reader.read()).split(b"\r\n\r\n")[1]
        writer.close()
        token = json.loads(answer)["websocket"]["token"]
        async with talking(daemon.address, token=token) as device:
            # somebody with the same id and no token does not displace it
            assert await turned_away(daemon.address, **headers) == 401
            await device.speak()
            await device.wait(STOP)
        DeviceFile(file).revoke("aa:bb:cc:dd:ee:01")
        await settled(lambda: "aa:bb:cc:dd:ee:01" not in file.read_text(), "the device is revoked")
        await asyncio.sleep(1.1)
        good = headers_of("aa:bb:cc:dd:ee:01", token=token)
        assert await turned_away(daemon.address, **good) == 401


@served
async def test_a_plain_request_is_told_of_the_upgrade(daemon: Inside) -> None:
    reader, writer = await asyncio.open_connection(*daemon.address.split(":"))
    writer.write(
        f"GET /xiaozhi/v1/ HTTP/1.1\r\nHost: {daemon.address}\r\nConnection: close\r\n\r\n".encode()
    )
    assert b" 426 " in (await reader.read()).split(b"\r\n")[0]
    writer.close()


async def test_the_end_of_the_daemon_leaves_no_device_speaking() -> None:
    async with serving(sets=SETS) as daemon, talking(daemon.http.split("//")[1]) as device:
        await device.speak()
        await device.playing(4)
        await asyncio.to_thread(daemon.close)
        closed = await device.over()
        assert device.kinds[-1] == STOP
        assert closed.rcvd is not None
        assert closed.rcvd.code == 1001


@served
async def test_a_device_that_is_cut_off(daemon: Inside) -> None:
    async with talking(daemon.address) as device:
        await device.speak()
        await device.playing(4)
        raw = device.connection.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        device.vanish()
        await daemon.empty()


async def test_a_device_that_does_not_read_is_given_up() -> None:
    sets = {**SETS, "server.send_timeout_s": 0.3}
    async with inside(sets) as daemon, talking(daemon.address) as device:
        device.connection.transport.pause_reading()
        raw = device.connection.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        flood = asyncio.create_task(_ping(device.connection))
        await daemon.empty()
        flood.cancel()
        device.vanish()
        await asyncio.gather(flood, return_exceptions=True)


async def _ping(connection: websockets.ClientConnection) -> None:
    while True:
        await connection.send('{"type":"ping"}')


async def test_a_long_silence_ends_with_words() -> None:
    sets = {**SETS, "xiaozhi.idle_s": 0.3}
    async with inside(sets) as daemon:
        async with talking(daemon.address) as device:
            closed = await device.over()
            assert closed.rcvd is not None
            assert closed.rcvd.code == 1000
            assert device.audio
            assert device.of(SENTENCE)
            assert len(device.of(START)) == len(device.of(STOP)) == 1
            assert device.kinds[-1] == STOP
        await daemon.empty()


async def test_a_greeting_that_is_spoken_and_not_heard_as_a_turn() -> None:
    sets = {**SETS, "xiaozhi.greeting": '{"zh": "我在。", "en": "Yes?"}'}
    async with inside(sets) as daemon, connected(daemon.address) as device:
        await device.hello()
        await device.sound(voice(1.0))
        await device.detect("你好小智")
        await device.listen()
        await device.wait(STOP)
        assert [each.body and each.body["text"] for each in device.of(SENTENCE)] == ["我在。"]
        await device.listen()
        await device.speak()
        await device.wait(STOP, 2)
        assert len(device.of(("stt", ""))) == 1


async def test_an_answer_that_fails_is_spoken_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object) -> None:
        raise EngineFailed("broken")

    monkeypatch.setattr(AnswerService, "_ask", fails)
    async with inside(SETS) as daemon, talking(daemon.address) as device:
        for turn in (1, 2):
            await device.listen()
            await device.speak()
            await device.wait(STOP, turn)
            assert device.audio  # the apology


async def test_a_voice_that_fails_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async with inside(SETS) as daemon, talking(daemon.address) as device:

        async def fails(*_: object, **__: object):
            raise EngineFailed("mute")
            yield  # pragma: no cover

        monkeypatch.setattr(type(daemon.daemon.room.voice), "synthesize", fails)
        await device.speak()
        await device.wait(STOP)
        alert = await device.wait(("alert", ""))
        assert alert.body is not None
        assert {"status", "message", "emotion"} <= set(alert.body)
        assert len(device.of(START)) == len(device.of(STOP)) == 1


async def test_echo_is_cancelled_for_those_who_ask() -> None:
    async with inside(SETS) as daemon, connected(daemon.address, version=2) as device:
        await device.hello(features={"aec": True})
        await device.listen("realtime")
        await device.speak()
        await device.playing(3)
        await device.packet(b"\xf8", timestamp=device.audio[0].timestamp)
        await device.wait(STOP)
        await device.sound(silence(0.3))
        assert len(device.of(("stt", ""))) == 1


def test_the_roster() -> None:
    class Connection:
        replaced = 0

        def replace(self) -> None:
            self.replaced += 1

    roster, first, second = Roster(), Connection(), Connection()
    roster.enter("a", first)
    roster.enter("a", second)
    assert (first.replaced, second.replaced, len(roster)) == (1, 0, 1)
    roster.leave("a", first)
    assert len(roster) == 1
    roster.leave("a", second)
    assert len(roster) == 0


def test_settings_have_defaults() -> None:
    assert XiaozhiSettings().is_wake_word("你好，小智")
