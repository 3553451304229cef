"""Invariants: what a Xiaozhi device needs of a server, line by line of the protocol's checklist,
over a real socket and through the real pipeline.
"""

from __future__ import annotations

import asyncio
import json
import time

import numpy as np
import pytest
import websockets

from services.scripted.tts import char_times
from services.xiaozhi.settings import XiaozhiSettings
from tests.daemon.inside import Inside, inside, settled
from tests.daemon.process import serving
from tests.xiaozhi.device import (
    FRAME_S,
    SENTENCE,
    START,
    STOP,
    Device,
    connected,
    silence,
    talking,
    voice,
)
from tests.xiaozhi.served import STORY, served

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])
STT, LLM, AUDIO = ("stt", ""), ("llm", ""), ("audio", "")


async def turn(device: Device, *, mode: str = "auto") -> None:
    """A whole turn, from the question to the end of the answer."""
    starts, stops = len(device.of(START)), len(device.of(STOP))
    if mode != "realtime":
        await device.listen(mode)
    await device.speak()
    if mode == "manual":
        await device.release()
    await device.wait(START, starts + 1)
    await device.wait(STOP, stops + 1)


# --- the handshake ----------------------------------------------------------------------------
@VERSIONS
@served
async def test_the_hello_is_answered_first_and_once(daemon: Inside, version: int) -> None:
    async with connected(daemon.address, version=version) as device:
        body = await device.hello()
        assert body["transport"] == "websocket"
        assert body["session_id"].isalnum()
        assert body["audio_params"] == {
            "format": "opus",
            "sample_rate": 24_000,
            "channels": 1,
            "frame_duration": 60,
        }
        await device.send("hello")
        await turn(device)
        assert device.kinds[0] == ("hello", "")
        assert len(device.of(("hello", ""))) == 1


async def test_a_device_that_says_no_hello_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "pipeline.xiaozhi.settings_of", lambda _: XiaozhiSettings(hello_timeout_s=0.2)
    )
    async with inside() as served:
        async with connected(served.address) as device:
            await device.listen()
            await device.sound(voice(0.6))
            assert (await device.over()).rcvd.code == 1008  # type: ignore[union-attr]
            assert not device.told
        await served.empty()


@pytest.mark.parametrize(
    "members",
    [
        {"features": None, "audio_params": None, "version": None, "transport": None},
        {"features": {"mcp": False}, "audio_params": {}},
        {"audio_params": "opus", "features": [1]},
        {"audio_params": None, "audioParams": {"frameDuration": 60}},
        {"device_id": "x", "device_mac": "x", "token": "x", "features": {"emoji": True}},
    ],
)
@served
async def test_hellos_of_all_kinds_are_answered(daemon: Inside, members: dict) -> None:
    async with connected(daemon.address) as device:
        await device.hello(**members)
        await turn(device)
        assert device.audio


@served
async def test_both_paths_and_parameters_in_place_of_headers(daemon: Inside) -> None:
    async with connected(daemon.address, path="/xiaozhi/v1") as device:
        await device.hello()
    url = f"ws://{daemon.address}/xiaozhi/v1/?device-id=aa:bb:cc:dd:ee:07&client-id=x"
    async with websockets.connect(url) as connection:
        await connection.send('{"type":"hello"}')
        assert json.loads(await connection.recv())["type"] == "hello"


# --- turns ------------------------------------------------------------------------------------
@VERSIONS
@pytest.mark.parametrize("mode", ["auto", "manual", "realtime"])
@served
async def test_a_turn_in_every_mode(daemon: Inside, version: int, mode: str) -> None:
    async with talking(daemon.address, version=version, mode=mode) as device:
        await turn(device, mode=mode)
        kinds = device.kinds
        assert kinds[:4] == [("hello", ""), STT, START, LLM]
        assert kinds[4] == SENTENCE
        assert kinds[-1] == STOP
        assert kinds.count(START) == kinds.count(STOP) == 1
        seconds = sum(char_times(text)[-1] for text in (STORY[:7], STORY[7:]))
        assert len(device.heard()) / 24_000 == pytest.approx(seconds, abs=0.2)
        await turn(device, mode=mode)  # and the next one works
        if version == 2:
            stamps = [each.timestamp for each in device.audio]
            assert stamps == sorted(set(stamps))
            assert stamps[0] > 0


@served
async def test_the_server_does_not_end_a_turn_that_a_button_holds(daemon: Inside) -> None:
    async with talking(daemon.address, mode="manual") as device:
        await device.speak(0.6, pause_s=3.0)
        await device.speak(0.6, pause_s=0.1)
        assert not device.of(STT)
        await device.release()
        await device.wait(STOP)
        assert len(device.of(STT)) == 1


@VERSIONS
@served
async def test_pauses_of_tiny_and_empty_packets_are_silence(daemon: Inside, version: int) -> None:
    async with talking(daemon.address, version=version) as device:
        await device.sound(voice(0.6))
        for packet in (b"\xf8", b"", b"\xf8\xff") * 5:
            await device.packet(packet)
        await device.wait(STOP)
        assert len(device.of(STT)) == 1


@served
async def test_the_wake_word_is_no_turn(daemon: Inside) -> None:
    async with connected(daemon.address) as device:
        await device.hello()
        await device.sound(voice(1.5))  # faster than real time, before any listen start
        await device.detect("你好小智")
        await device.listen()
        await device.sound(silence(1.0))
        await turn(device)
        assert len(device.of(STT)) == 1


@served
async def test_a_text_is_answered(daemon: Inside) -> None:
    async with connected(daemon.address) as device:
        await device.hello()
        await device.detect("讲个故事")
        await device.wait(STOP)
        assert device.of(STT)[0].body["text"] == "讲个故事"  # type: ignore[index]
        assert device.audio


# --- interruptions ----------------------------------------------------------------------------
async def after_abort(device: Device, *, mode: str = "auto") -> None:
    """Aborts: one stop comes at once, nothing of the old turn after it, and the next turn works."""
    stops = len(device.of(STOP))
    began = time.monotonic()
    await device.abort(reason="wake_word_detected")
    stop = await device.wait(STOP, stops + 1)
    assert stop.at - began < 1.0
    count = len(device.told)
    await asyncio.sleep(0.4)
    assert device.told[count:] == []
    await turn(device, mode=mode)


@pytest.mark.parametrize("mode", ["auto", "realtime"])
@served
async def test_abort_while_the_user_speaks(daemon: Inside, mode: str) -> None:
    async with talking(daemon.address, mode=mode) as device:
        await device.sound(voice(0.6))
        await after_abort(device, mode=mode)


@pytest.mark.parametrize("mode", ["auto", "manual", "realtime"])
@served
async def test_abort_in_the_middle_of_the_answer(daemon: Inside, mode: str) -> None:
    async with talking(daemon.address, mode=mode) as device:
        await device.speak()
        if mode == "manual":
            await device.release()
        await device.playing(8)
        await after_abort(device, mode=mode)


@served
async def test_abort_after_the_last_frame(daemon: Inside) -> None:
    async with talking(daemon.address) as device:
        await device.speak()
        await device.wait(STOP)
        await after_abort(device)


@served
async def test_every_abort_gets_a_stop(daemon: Inside) -> None:
    async with talking(daemon.address) as device:
        await device.speak()
        await device.playing(4)
        for _ in range(2):
            await device.abort()
        await device.wait(STOP, 2)
        await after_abort(device)


@served
async def test_abort_while_nothing_happens(daemon: Inside) -> None:
    async with talking(daemon.address) as device:
        await after_abort(device)


# --- pacing -----------------------------------------------------------------------------------
async def test_frames_leave_in_time_and_the_stop_after_the_last_was_played() -> None:
    sets = {"scripted.replies": json.dumps([STORY], ensure_ascii=False)}
    async with serving(sets=sets) as daemon, talking(daemon.http.split("//")[1]) as device:
        await turn(device)
        frames = [each.at for each in device.audio]
        start, stop = device.of(START)[0].at, device.of(STOP)[0].at
        assert frames[0] - start >= 0.095
        for at, arrived in enumerate(frames):  # never more than the lead ahead
            assert arrived - frames[0] >= (at - 2) * FRAME_S - 0.03
        assert stop - frames[0] >= len(frames) * FRAME_S - 0.03
        heard = device.heard()
        assert np.abs(heard[:2400]).max() > 1000  # the first and the last tenth of a second
        assert np.abs(heard[-2400 - 1440 :]).max() > 1000


# --- connections ------------------------------------------------------------------------------
@served
async def test_the_newest_connection_of_a_device_replaces_the_older(daemon: Inside) -> None:
    async with talking(daemon.address) as first:
        await first.speak()
        await first.playing(3)
        async with talking(daemon.address) as second:
            await first.over()
            await turn(second)
            assert len(daemon.daemon.sessions) == 1


@served
async def test_a_device_that_vanishes_leaves_nothing(daemon: Inside) -> None:
    async with talking(daemon.address) as device:
        await device.speak()
        await device.playing(3)
        device.vanish()
        await settled(lambda: not daemon.daemon.sessions, "a conversation is left")


@served
async def test_no_pings_and_a_quiet_device_stays(daemon: Inside) -> None:
    async with talking(daemon.address) as device:
        await device.sound(silence(120.0))
        await turn(device)


@served
async def test_what_is_no_message_is_ignored(daemon: Inside) -> None:
    async with talking(daemon.address) as device:
        for text in (
            "",
            "{",
            "null",
            "[]",
            '{"type":7}',
            '{"type":"x"}',
            '{"a":' * 5000,
            "a" * 65536,
        ):
            await device.connection.send(text)
        for binary in (b"", b"\0", b"\xff" * 5000, bytes(3)):
            await device.connection.send(binary)
        await turn(device)


@served
async def test_three_devices_at_once_do_not_hear_each_other(daemon: Inside) -> None:
    async def one(number: int) -> None:
        async with talking(daemon.address, device_id=f"aa:bb:cc:dd:ee:1{number}") as device:
            await turn(device)
            await turn(device)
            assert len(device.of(STT)) == 2
            assert len(device.of(START)) == len(device.of(STOP)) == 2

    await asyncio.gather(*(one(number) for number in range(3)))


@served
async def test_a_ping_gets_a_pong_and_a_goodbye_the_end(daemon: Inside) -> None:
    async with connected(daemon.address) as device:
        await device.hello()
        await device.send("ping")
        await device.wait(("pong", ""))
        await device.send("goodbye")
        assert (await device.over()).rcvd.code == 1000  # type: ignore[union-attr]
