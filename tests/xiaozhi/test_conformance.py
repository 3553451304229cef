"""Invariants: what a Xiaozhi device needs of a server's handshake, hello and messages, line by line
of the protocol's checklist, over a real socket. Turns, aborts, pacing, tools and the OTA address
have modules of their own.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import websockets

from services.scripted.tts import detect_tone, tone_of
from services.xiaozhi.settings import XiaozhiSettings
from tests.daemon.inside import Inside, inside, settled
from tests.xiaozhi.device import (
    SENTENCE,
    STOP,
    Device,
    connected,
    headers_of,
    silence,
    talking,
    voice,
)
from tests.xiaozhi.order import HELLO, STT, answers
from tests.xiaozhi.served import served
from tests.xiaozhi.turn import turn

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


# --- the hello --------------------------------------------------------------------------------
@VERSIONS
@served
async def test_the_hello_is_answered_first_and_once(daemon: Inside, version: int) -> None:
    """Checklist: order of the hellos; the transport is named as a string."""
    async with connected(daemon.address, version=version) as device:
        body = await device.hello(features={"mcp": True})
        assert body["transport"] == "websocket"
        assert body["session_id"].isalnum()
        assert body["audio_params"] == {
            "format": "opus",
            "sample_rate": 24_000,
            "channels": 1,
            "frame_duration": 60,
        }
        await device.wait(("mcp", ""))
        assert device.kinds == [HELLO, ("mcp", "")]
        await device.send("hello")
        await turn(device)
        answers(device.told)


@served
async def test_nothing_is_said_before_the_hello(daemon: Inside) -> None:
    """Checklist: order of the hellos: a device cannot take anything before."""
    async with connected(daemon.address) as device:
        await device.listen()
        await device.detect("讲个故事")
        await device.speak()
        await device.hello()
        assert device.kinds[0] == HELLO
        await turn(device)


async def test_a_device_that_says_no_hello_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checklist: the hello does not come: the connection is closed after a while."""
    monkeypatch.setattr(
        "pipeline.xiaozhi.settings_of", lambda _: XiaozhiSettings(hello_timeout_s=0.2)
    )
    async with inside() as served:
        async with connected(served.address) as device:
            await device.listen()
            await device.sound(voice(0.6))
            closed = await device.over()
            assert closed.rcvd is not None
            assert closed.rcvd.code in (1002, 1008)
            assert not device.told
        await served.empty()


@pytest.mark.parametrize(
    "members",
    [
        {"features": None, "audio_params": None, "version": None, "transport": None},
        {"features": {"mcp": False}, "audio_params": {}},
        {"audio_params": "opus", "features": [1], "version": "3"},
        {"audio_params": None, "audioParams": {"frameDuration": 60}},
        {"device_id": "x", "device_mac": "x", "token": "x", "features": {"emoji": True}},
        {"features": {"glyph_push": True}, "text_font": {"bundle": "x", "size": 14, "bpp": 1}},
    ],
)
@served
async def test_hellos_of_all_kinds_are_answered(daemon: Inside, members: dict[str, Any]) -> None:
    """Checklist: hellos of all firmwares and programs are taken."""
    async with connected(daemon.address) as device:
        await device.hello(**members)
        await turn(device)
        assert device.audio


@pytest.mark.parametrize("header", ["", "0", "4", "x"])
@served
async def test_an_unknown_framing_is_taken_for_the_first(daemon: Inside, header: str) -> None:
    """Checklist: the header names the framing; what nobody knows is version 1."""
    headers = {**headers_of("aa:bb:cc:dd:ee:01"), "Protocol-Version": header}
    async with connected(daemon.address, headers=headers) as device:
        await device.hello(version=2)
        await turn(device)
        assert device.heard().any()


@pytest.mark.parametrize("path", ["/xiaozhi/v1", "/xiaozhi/v1/"])
@served
async def test_parameters_in_place_of_headers(daemon: Inside, path: str) -> None:
    """Checklist: with and without a slash; a page that cannot set headers says it in the query."""
    query = "?device-id=aa:bb:cc:dd:ee:07&client-id=x&authorization=Bearer%20x"
    async with connected(daemon.address, path=path + query, headers={}) as device:
        await device.hello()
        await turn(device)


@served
async def test_who_does_not_say_who_it_is_gets_no_conversation(daemon: Inside) -> None:
    """Checklist: missing headers."""
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with connected(daemon.address, headers={}):
            pass
    assert refused.value.response.status_code in (400, 401, 403)
    assert not daemon.daemon.sessions


# --- messages ---------------------------------------------------------------------------------
BAD_TEXTS = (
    *("", "{", "null", "[]", "7", '"hello"', "\ud7ff\uffff", '{"type":7}', '{"type":"x"}', "{}"),
    *('{"type":"listen"}', '{"type":"listen","state":"detect","text":7}', '{"type":"mcp"}'),
    '{"type":"listen","state":"detect","text":"my "word""}',
    '{"type":"iot","descriptors":7}',
    '{"a":' * 5000,
    "[" * 65_536,
    "a" * 65_536,
    json.dumps({"type": "listen", "state": "x" * 65_000}),
)


@VERSIONS
@served
async def test_what_is_no_message_is_ignored(daemon: Inside, version: int) -> None:
    """Checklist: malformed JSON; a text of 64 KB; binary messages that are too short, too long, or
    have a wrong size or type.
    """
    async with talking(daemon.address, version=version) as device:
        for text in BAD_TEXTS:
            await device.connection.send(text)
        for binary in (b"", b"\0", b"\xff" * 5000, bytes(3), bytes(16), b"\0\2" + bytes(14) + b"x"):
            await device.connection.send(binary)
        await turn(device)
        answers(device.told)


@pytest.mark.parametrize("session", [None, "", "another", 7, {"a": 1}])
@served
async def test_any_session_id_is_taken(daemon: Inside, session: object) -> None:
    """Checklist: devices may echo no session id, or that of another connection."""
    async with talking(daemon.address) as device:
        await device.send("listen", state="detect", text="讲个故事", session_id=session)
        await device.wait(STOP)
        assert device.audio


@served
async def test_a_ping_gets_a_pong_and_a_goodbye_the_end(daemon: Inside) -> None:
    """Checklist: messages that only some clients send."""
    async with connected(daemon.address) as device:
        await device.hello()
        await device.send("ping")
        await device.wait(("pong", ""))
        await device.send("goodbye")
        closed = await device.over()
        assert closed.rcvd is not None
        assert closed.rcvd.code == 1000


# --- connections ------------------------------------------------------------------------------
@served
async def test_the_newest_connection_of_a_device_replaces_the_older(daemon: Inside) -> None:
    """Checklist: the same id connects again, in the middle of an answer, and again."""
    async with talking(daemon.address) as first:
        await first.speak()
        await first.playing(3)
        async with talking(daemon.address) as second:
            await first.over()
            assert first.kinds[-1] == STOP
            async with talking(daemon.address) as third:
                await second.over()
                await turn(third)
                assert len(daemon.daemon.sessions) == 1
    await daemon.empty()


async def test_the_same_device_comes_in_again_where_all_places_are_taken() -> None:
    """Checklist: the same id connects again; its old connection's place is its own."""
    async with inside({"server.max_sessions": 1}) as daemon, talking(daemon.address) as first:
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with connected(daemon.address, device_id="aa:bb:cc:dd:ee:02"):
                pass
        assert refused.value.response.status_code == 503
        assert first.closed is None
        async with talking(daemon.address) as second:
            await first.over()
            await turn(second)


@pytest.mark.parametrize("moment", ["listening", "speaking"])
@served
async def test_a_device_that_vanishes_leaves_nothing(daemon: Inside, moment: str) -> None:
    """Checklist: a connection that ends without a close frame, as devices end it."""
    async with talking(daemon.address) as device:
        await device.sound(voice(0.6))
        if moment == "speaking":
            await device.sound(silence(0.5))
            await device.playing(3)
        device.vanish()
        await daemon.empty()
    async with talking(daemon.address) as device:
        await turn(device)


@served
async def test_two_minutes_of_silence_are_no_turn(daemon: Inside) -> None:
    """Checklist: 120 s of silence."""
    async with talking(daemon.address) as device:
        await device.sound(silence(120.0))
        await turn(device)
        assert len(device.of(STT)) == 1


async def test_a_silent_conversation_ends_with_a_farewell() -> None:
    """Checklist: silence: a device never ends a conversation by itself, so the server does."""
    sets = {"xiaozhi.idle_s": 0.3, "xiaozhi.farewell": '{"zh": "再见。", "en": "Bye."}'}
    async with inside(sets) as daemon, talking(daemon.address) as device:
        closed = await device.over()
        assert closed.rcvd is not None
        assert closed.rcvd.code == 1000
        assert device.kinds[-1] == STOP
        assert [each.body and each.body["text"] for each in device.of(SENTENCE)] == ["再见。"]
        assert answers(device.told).played[0] > 2
        await daemon.empty()


async def test_three_devices_at_once_do_not_hear_each_other() -> None:
    """Checklist: three devices at the same time, without cross-talk."""
    sets = {
        "scripted.transcripts": '["我是{session}号"]',
        "scripted.replies": '["{user}。"]',
    }

    async def one(number: int, daemon: Inside) -> str:
        version = number + 1
        device_id = f"aa:bb:cc:dd:ee:1{number}"
        async with connected(daemon.address, device_id=device_id, version=version) as device:
            session = (await device.hello())["session_id"]
            for count in (1, 2):
                await turn(device)
                check(device, session, count)
            return session

    def check(device: Device, session: str, count: int) -> None:
        assert {each.body and each.body["session_id"] for each in device.of(STT)} == {session}
        assert [each.body and each.body["text"] for each in device.of(STT)] == [
            f"我是{session}号"
        ] * count
        assert [each.body and each.body["text"] for each in device.of(SENTENCE)] == [
            f"我是{session}号。"
        ] * count
        first, heard = answers(device.told).played[0], device.heard()
        assert len(heard) == first * count * 1440
        assert detect_tone(heard[1440 : first * 720]) == pytest.approx(
            tone_of(f"我是{session}号。"), abs=10
        )

    async with inside(sets) as daemon:
        names = await asyncio.gather(*(one(number, daemon) for number in range(3)))
        assert len(set(names)) == 3


# --- the end ----------------------------------------------------------------------------------
async def test_a_server_that_ends_does_not_leave_a_device_speaking() -> None:
    """Checklist: shutdown: a stop, then the close."""
    async with inside({"scripted.replies": "[从前有一座山，山里有一座庙。]"}) as daemon:
        device_of = connected(daemon.address)
        device = await device_of.__aenter__()
        await device.hello()
        await device.listen()
        await device.speak()
        await device.playing(3)
    try:
        closed = await device.over()
        assert closed.rcvd is not None
        assert closed.rcvd.code == 1001
        assert device.kinds[-1] == STOP
        assert not answers(device.told).speaking
    finally:
        await device_of.__aexit__(None, None, None)


async def test_who_comes_when_all_places_are_taken_is_told_so() -> None:
    """Checklist: overload: an upgrade is refused, and nobody who talks is disturbed."""
    async with inside({"server.max_sessions": 2}) as daemon:
        async with (
            talking(daemon.address, device_id="aa:bb:cc:dd:ee:01") as one,
            talking(daemon.address, device_id="aa:bb:cc:dd:ee:02") as two,
        ):
            for _ in range(3):
                with pytest.raises(websockets.InvalidStatus) as refused:
                    async with connected(daemon.address, device_id="aa:bb:cc:dd:ee:03"):
                        pass
                assert refused.value.response.status_code == 503
            await asyncio.gather(turn(one), turn(two))
        await settled(lambda: not daemon.daemon.sessions, "conversations are left")
        async with talking(daemon.address, device_id="aa:bb:cc:dd:ee:03") as three:
            await turn(three)
