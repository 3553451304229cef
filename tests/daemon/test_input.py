"""Invariants: whatever a client sends, or does not read, the daemon says what is wrong, stays up
and serves this client's next turn or the next client.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import socket
import time

import numpy as np
import pytest
import websockets
from numpy.typing import NDArray

from tests.daemon.abuse import HANDSHAKE, event, frame
from tests.daemon.client import (
    HEARD,
    RATE,
    STARTED,
    Client,
    silence,
    talking,
    turned_away,
    voice,
)
from tests.daemon.inside import inside
from tests.daemon.process import serving

LONG = "从前有一座山，山里有一座庙。庙里有一个老和尚，在给小和尚讲故事。"


def noise(seconds: float, dbfs: float = -30.0) -> NDArray[np.int16]:
    """White noise, loud enough for a detector that only listens for loudness."""
    wave = np.random.default_rng(1).standard_normal(round(seconds * RATE))
    return np.rint(wave * 10 ** (dbfs / 20) * 32767).astype(np.int16)


async def answered(client: Client, turn: int = 1) -> None:
    await client.speak()
    assert (await client.done(turn))["status"] == "completed"


# --- audio in which nobody speaks ----------------------------------------------------------------


async def test_noise_is_a_turn_without_words_and_no_answer():
    sets = {"scripted.transcripts": '["", "你好"]', "scripted.replies": "[好。]"}
    async with inside(sets) as served, talking(served.url) as client:
        for _ in range(30):
            await client.append(noise(1.0))
        await client.append(silence(0.4))
        assert await client.transcript() == ""
        assert len(client.of(STARTED)) == 1
        assert not client.of("response.created")
        await answered(client)
        assert await client.transcript(2) == "你好"
        assert served.count("turns_total", outcome="answered") == 1
        assert not client.of("error")


async def test_noise_without_an_end_is_cut_into_turns():
    sets = {"turns.max_turn_s": 5.0, "scripted.transcripts": '["", "", "", "你好"]'}
    async with inside(sets) as served, talking(served.url) as client:
        for second in range(17):
            await client.append(noise(1.0))
            if second % 5 == 4:
                await client.transcript(1 + second // 5)
        await client.append(silence(0.4))
        assert await client.transcript(4) == "你好"  # the script's, for the last two seconds
        assert len(client.of(HEARD)) == 4
        assert not [event for event in client.of(HEARD)[:3] if event["transcript"]]


async def test_silence_is_no_turn():
    async with inside({"scripted.replies": "[好。]"}) as served, talking(served.url) as client:
        for _ in range(30):
            await client.append(silence(1.0))
        await answered(client)
        assert client.kinds[:2] == ["session.created", STARTED]
        started = client.of(STARTED)[0]["audio_start_ms"]
        assert started == pytest.approx(30_000, abs=64)


async def test_a_microphone_that_stops_in_the_middle_of_a_word():
    async with inside({"scripted.replies": "[好。]"}) as served, talking(served.url) as client:
        await client.append(voice(0.6))
        assert (await client.done())["status"] == "completed"
        await answered(client, 2)


# --- messages that are none ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("", "invalid_json"),
        ("{", "invalid_json"),
        ("[]", "invalid_json"),
        (b"\x00" * 100, "invalid_json"),
        ('{"type": "nonsense"}', "invalid_value"),
        ('{"type": "input_audio_buffer.append", "audio": "***"}', "bad_audio"),
        ('{"type": "input_audio_buffer.append", "audio": "AAAA"}', "bad_audio"),
        ('{"type": "input_audio_buffer.commit"}', "input_audio_buffer_commit_empty"),
        ('{"type": "response.cancel"}', "response_cancel_not_active"),
        ('{"type": "session.update", "session": {"type": "realtime", "audio": 7}}', None),
        ("[" * 100_000, "invalid_json"),
    ],
    ids=range(11),
)
async def test_a_bad_message_gets_an_error_and_the_conversation_goes_on(message, code):
    async with inside({"scripted.replies": "[好。]"}) as served, talking(served.url) as client:
        await client.connection.send(message)
        error = (await client.wait("error"))["error"]
        assert error["type"] == "invalid_request_error"
        assert error["message"]
        assert code is None or error["code"] == code
        await answered(client)


async def test_an_unknown_voice_is_refused_and_the_old_one_stays():
    async with inside({"scripted.replies": "[好。]"}) as served, talking(served.url) as client:
        await client.send(
            "session.update",
            event_id="mine",
            session={"type": "realtime", "audio": {"output": {"voice": "nobody"}}},
        )
        error = (await client.wait("error"))["error"]
        assert (error["code"], error["event_id"]) == ("unknown_voice", "mine")
        assert "one, two" in error["message"]
        await answered(client)


async def test_a_message_that_is_too_large_ends_only_its_connection():
    async with serving(sets={"scripted.replies": "[好。]"}) as daemon:
        async with talking(daemon.url) as client, talking(daemon.url) as other:
            big = base64.b64encode(bytes(17 << 20)).decode()
            with contextlib.suppress(websockets.ConnectionClosed):  # it does not read to the end
                await client.send("input_audio_buffer.append", audio=big)
            closed = await client.over()
            assert closed.rcvd is not None
            assert closed.rcvd.code == 1009
            await answered(other)
        daemon.metric("sessions", 0)


@pytest.mark.parametrize(
    "request_",
    [b"\x16\x03\x01" + os.urandom(200), b"GET /nothing HTTP/1.1\r\n\r\n", b"\r\n" * 1000, b""],
    ids=["tls", "no host", "newlines", "nothing"],
)
async def test_what_is_no_websocket_is_turned_down(request_: bytes):
    async with inside({"scripted.replies": "[好。]"}) as served:
        host, port = served.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request_)
        writer.write_eof()
        async with asyncio.timeout(10):
            await reader.read()
        writer.close()
        async with talking(served.url) as client:
            await answered(client)


# --- clients that do not read, and too many of them ----------------------------------------------


async def deaf(address: str) -> socket.socket:
    """A client that asks for a long answer and reads nothing of it."""
    host, port = address.split(":")
    loop = asyncio.get_running_loop()
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    await loop.sock_connect(raw, (host, int(port)))
    await loop.sock_sendall(raw, HANDSHAKE)
    assert (await loop.sock_recv(raw, 4096)).startswith(b"HTTP/1.1 101 ")
    samples = np.concatenate((voice(0.6), silence(0.4)))
    audio = base64.b64encode(samples.tobytes()).decode()
    await loop.sock_sendall(raw, frame(event("input_audio_buffer.append", audio=audio)))
    return raw


@pytest.mark.alone
async def test_a_client_that_does_not_read_is_dropped_and_costs_nobody_else():
    sets = {"server.send_timeout_s": 0.5, "scripted.replies": f"[{LONG * 3}]"}
    async with inside(sets) as served:
        raw = await deaf(served.address)
        try:
            async with talking(served.url) as client:
                started = time.monotonic()
                await client.speak()
                while served.count("errors_total", code="timed_out") == 0:
                    assert time.monotonic() < started + 30
                    await asyncio.sleep(0.02)
                assert len(served.daemon.sessions) == 1
                listened_ms = (time.monotonic() - started) * 1000
                await client.playing(listened_ms)
                [audio] = client.audio.values()
                assert audio.gap_ms() <= 100
        finally:
            raw.close()
        await served.empty()


async def test_more_clients_than_places():
    sets = {"server.max_sessions": 2, "scripted.replies": "[好。]"}
    async with inside(sets) as served:
        async with talking(served.url) as first:
            async with talking(served.url) as second:
                status, error = await turned_away(served.url)
                assert (error["code"], status) == ("at_capacity", 503)
                assert "2 places" in error["message"]
                assert served.count("errors_total", code="at_capacity") == 1
                await asyncio.gather(answered(first), answered(second))
            async with asyncio.timeout(10):
                while len(served.daemon.sessions) == 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            async with talking(served.url) as third:
                await answered(third)
        await served.empty()
