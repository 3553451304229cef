"""Invariants: frames reach a device when it needs them, neither too early nor too late, and nothing
of the first and last words is lost; by the clock of the audio, with bounds for a busy machine.
"""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

import httpx
import numpy as np
import pytest

from services.scripted.tts import char_times
from tests.daemon.abuse import TEXT, frame
from tests.daemon.process import DaemonProcess, serving
from tests.xiaozhi.device import FRAME_S, START, STOP, Device, headers_of, talking
from tests.xiaozhi.order import answers
from tests.xiaozhi.served import STORY
from tests.xiaozhi.turn import turn
from tts_engine.text.stream import segment

#: frames that a device gets ahead of what it plays
LEAD = 2
#: what a frame may be late, seconds
LATE_S = 0.020
#: a bit more than a minute
LONG = STORY * 29


def seconds(text: str) -> float:
    """How long a text is spoken, clause by clause."""
    return sum(char_times(clause.text)[-1] for clause in segment(text))


def address(daemon: DaemonProcess) -> str:
    return daemon.http.split("//")[1]


def lateness(at: Sequence[float]) -> list[float]:
    """Seconds from where each frame is due, if the first one was in time, to where it came."""
    return [each - at[0] - max(0, k - LEAD) * FRAME_S for k, each in enumerate(at)]


def check(device: Device, text: str) -> None:
    """What holds of the one answer that was played."""
    at = [each.at for each in device.audio]
    [count] = answers(device.told).played
    assert count == pytest.approx(seconds(text) / FRAME_S, abs=3)
    start, stop = device.of(START)[0].at, device.of(STOP)[0].at
    # The device gets ready in the first, and plays out in the second.
    assert at[0] - start >= 0.095
    assert stop - at[0] >= count * FRAME_S
    late = lateness(at)
    usual = statistics.median(late)
    assert abs(usual) < FRAME_S  # by which it also has no more and no less than its lead
    assert min(late) > usual - FRAME_S
    drift = statistics.median(late[-50:]) - statistics.median(late[:50])
    assert abs(drift) < FRAME_S
    # None on a machine that has nothing else to do; this one may.
    assert sum(each - usual > LATE_S for each in late) <= 0.05 * len(late)
    heard = device.heard()
    assert np.abs(heard[:2400]).max() > 1000  # the first and the last tenth of a second
    assert np.abs(heard[-2400 - 1440 :]).max() > 1000


@pytest.mark.alone
@pytest.mark.timeout(240)
async def test_a_minute_of_speech_for_all_framings_and_for_one_who_is_silent() -> None:
    """Checklist: lead of at most L and drift under a frame in 60 s; first audio at least 100 ms
    after the start; the stop not before the end of playback; no pings of the library, and a device
    that is silent for a minute stays.
    """
    sets = {"scripted.replies": json.dumps([LONG])}
    assert seconds(LONG) > 60

    async def one(version: int, daemon: DaemonProcess) -> None:
        device_id = f"aa:bb:cc:dd:ee:0{version}"
        async with talking(address(daemon), version=version, device_id=device_id) as device:
            await device.speak()
            await device.wait(START)
            async with asyncio.timeout(seconds(LONG) + 30):
                while not device.of(STOP):
                    async with device.news:
                        await device.news.wait()
            check(device, LONG)

    async with serving(sets=sets) as daemon:
        quiet = asyncio.create_task(one_who_is_silent(daemon.port))
        await asyncio.gather(*(one(version, daemon) for version in (1, 2, 3)))
        assert not quiet.done(), "the silent device was dropped"
        quiet.cancel()
        await asyncio.gather(quiet, return_exceptions=True)
        assert daemon.metrics()["sessions"] <= 4


async def one_who_is_silent(port: int) -> None:
    """A device of old firmware: it cannot answer a ping. Returns when the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(
            b"GET /xiaozhi/v1/ HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            b"Sec-WebSocket-Version: 13\r\nDevice-Id: aa:bb:cc:dd:ee:09\r\n\r\n"
        )
        await reader.readuntil(b"\r\n\r\n")
        writer.write(frame('{"type":"hello"}', TEXT))
        writer.write(frame('{"type":"listen","state":"start","mode":"auto"}', TEXT))
        kind, size = await reader.readexactly(2)
        assert kind == 0x81  # the hello, whole
        size = int.from_bytes(await reader.readexactly(2), "big") if size == 126 else size
        assert json.loads(await reader.readexactly(size))["type"] == "hello"
        more = await reader.read(1)
        assert not more, f"a frame {more!r} that nobody asked for"
    finally:
        writer.close()


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_short_answer_is_whole(version: int) -> None:
    """Checklist: pacing in every framing; gap before the first frame, and stop after the last."""
    sets = {"scripted.replies": json.dumps([STORY])}
    async with (
        serving(sets=sets) as daemon,
        talking(address(daemon), version=version) as device,
    ):
        await turn(device)
        check(device, STORY)


async def test_what_was_late_does_not_come_in_a_burst() -> None:
    """Checklist: a voice slower than speech: the queue of the device is not overrun afterwards."""
    sets = {"scripted.replies": json.dumps([STORY])}
    async with (
        serving(engines="scripted:asr=0,llm=0,tts=300@0.5", sets=sets) as daemon,
        talking(address(daemon)) as device,
    ):
        await turn(device)
        at = [each.at for each in device.audio]
        assert at[-1] - at[0] > seconds(STORY) * 1.2  # it was slower than speech
        played_until = at[0]
        for each in at:  # what waits in the device, by the clock of what it plays
            played_until = max(played_until, each) + FRAME_S
            assert played_until - each < (LEAD + 2) * FRAME_S
        assert device.of(STOP)[0].at >= played_until
        heard = device.heard()
        assert np.abs(heard[:2400]).max() > 1000
        assert np.abs(heard[-2400 - 1440 :]).max() > 1000


async def test_a_board_gets_the_lead_that_its_name_asks_for(tmp_path: Path) -> None:
    """From what it told the OTA address to its frames: no frame comes before it is due."""
    sets = {
        "scripted.replies": json.dumps([STORY]),
        "xiaozhi.boards": json.dumps({"*c3*": 6}),
        "xiaozhi.devices_file": tmp_path / "devices.json",
    }
    async with serving(sets=sets) as daemon, httpx.AsyncClient(base_url=daemon.http) as client:
        at_once: dict[str, int] = {}
        for number, board in enumerate(("my-C3-mini", "bread-compact")):
            device_id = f"aa:bb:cc:dd:ee:0{number}"
            headers = {"User-Agent": f"{board}/2.2.2", **headers_of(device_id)}
            told = (await client.post("/xiaozhi/ota/", headers=headers, json={})).json()
            token = told["websocket"]["token"]
            async with talking(address(daemon), device_id=device_id, token=token) as device:
                await turn(device)
                times = [each.at for each in device.audio]
                at_once[board] = sum(at - times[0] < FRAME_S * 0.9 for at in times)
        assert at_once["bread-compact"] <= LEAD + 1
        assert LEAD + 1 < at_once["my-C3-mini"] <= 7
