"""Invariant: a frame leaves when its last sample was spoken; what is heard is what was played."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import soundfile
from websockets.asyncio.server import ServerConnection, serve

from pipeline.bench.client import PacedClient, Said, Sound, conversation
from pipeline.bench.wire import RealtimeWire
from pipeline.talk.stereo import RATE
from services.scripted.speech import synthetic_speech
from tts_engine.errors import DuplexdError, EngineFailed

Handler = Callable[[ServerConnection], Awaitable[None]]
TONE = np.full(RATE // 5, 5000, np.int16)  # 200 ms


async def greet(socket: ServerConnection) -> None:
    await socket.recv()
    await socket.send(json.dumps({"type": "session.created"}))
    await socket.send(json.dumps({"type": "session.updated"}))


@asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[str]:
    async with serve(handler, "127.0.0.1", 0) as serving:
        [socket] = serving.sockets
        yield f"127.0.0.1:{socket.getsockname()[1]}"


class Microphone:
    """Keeps what a client sends, and sends what a test says."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.other: list[str] = []
        self.socket: ServerConnection

    async def __call__(self, socket: ServerConnection) -> None:
        await greet(socket)
        self.socket = socket
        async for message in socket:
            event = json.loads(message)
            if event["type"] == "input_audio_buffer.append":
                self.frames.append(base64.b64decode(event["audio"]))
            else:
                self.other.append(event["type"])

    async def play(self, samples: np.ndarray, answer: str = "r1") -> None:
        delta = base64.b64encode(samples.tobytes()).decode()
        await self.tell("response.output_audio.delta", response_id=answer, delta=delta)

    async def tell(self, kind: str, **fields: object) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))


async def heard(client: PacedClient, count: int) -> None:
    """Waits for so many news since the greeting."""
    assert await client.until(lambda: len(client.news) >= count + 2, timeout_s=20)


async def test_what_is_said_arrives_sample_by_sample_and_on_time() -> None:
    microphone = Microphone()
    said = synthetic_speech(seconds=0.33)
    async with server(microphone) as address, conversation(address) as client:
        assert await client.until(lambda: client.sent > client.began + 0.1, timeout_s=20)
        span = client.say(client.sound(said))
        assert span.start >= client.sent
        assert span.end - span.start == pytest.approx(0.33)
        assert client.said_until == span.end
        assert await client.until(lambda: client.sent >= span.end, timeout_s=20)
        assert time.monotonic() >= span.end
        assert await client.until(lambda: len(microphone.frames) >= 22, timeout_s=20)
    sent = np.frombuffer(b"".join(microphone.frames), np.int16)
    first = round((span.start - client.began) * 16_000)
    assert np.array_equal(sent[first : first + len(said)], said)
    assert not sent[:first].any()
    assert np.array_equal(client.microphone()[first : first + len(said)], said)
    assert min(client.late_ms) > -5


async def test_sounds_follow_each_other_and_wait_for_their_time() -> None:
    async with server(Microphone()) as address, conversation(address, frame_ms=60) as client:
        one = client.say(client.sound(np.ones(160, np.int16)))
        two = client.say(client.sound(np.ones(960, np.int16)))
        assert two.start == pytest.approx(one.start + 0.06)
        late = client.say(client.sound(np.ones(10, np.int16)), at=two.end + 0.1)
        assert 0.1 <= late.start - two.end < 0.16
        assert isinstance(late, Said)


async def test_a_room_is_never_quite_silent() -> None:
    microphone = Microphone()
    noise = np.arange(1, 641, dtype=np.int16)
    async with server(microphone) as address, conversation(address, room=noise) as client:
        assert await client.until(lambda: len(microphone.frames) >= 4, timeout_s=20)
        # It is no part of what was said.
        assert not client.microphone().any()
    sent = np.frombuffer(b"".join(microphone.frames[:2]), np.int16)
    assert sorted(sent) == sorted(noise)


async def test_a_pause_keeps_what_was_not_played_and_a_flush_drops_it(tmp_path: Path) -> None:
    microphone = Microphone()
    async with server(microphone) as address, conversation(address) as client:
        await microphone.play(TONE)
        await microphone.tell("duplexd.playback.paused", response_id="r1")
        await heard(client, 2)
        played = sum(len(piece.samples) for piece in client.recording.heard.pieces)
        assert played < len(TONE)
        await microphone.tell("duplexd.playback.resumed", response_id="r1")
        await heard(client, 3)
        pieces = client.recording.heard.of(client.source("r1"))
        assert sum(len(piece.samples) for piece in pieces) == len(TONE)
        assert client.playing_until == pytest.approx(client.time(pieces[-1].end))
        assert client.position(client.time(pieces[-1].end)) == pieces[-1].end
        await microphone.play(TONE)
        await microphone.tell("input_audio_buffer.speech_started")
        await heard(client, 5)
        assert sum(len(piece.samples) for piece in client.recording.heard.pieces) < 2 * len(TONE)
        client.write(tmp_path / "talk.wav")
    assert soundfile.info(str(tmp_path / "talk.wav")).channels == 2


async def test_a_client_that_knows_no_pauses_plays_on() -> None:
    microphone = Microphone()
    async with (
        server(microphone) as address,
        conversation(address, honours_pauses=False) as client,
    ):
        await microphone.play(TONE)
        await microphone.tell("duplexd.playback.paused", response_id="r1")
        await microphone.tell("response.done", response={"id": "r1", "status": "completed"})
        await heard(client, 3)
        assert len(client.recording.heard.pieces[0].samples) == len(TONE)
        await microphone.play(TONE, "r2")
        await microphone.tell("response.done", response={"id": "r2", "status": "cancelled"})
        await heard(client, 5)
        played = client.recording.heard.of(client.source("r2"))
        assert sum(len(piece.samples) for piece in played) < len(TONE)


async def test_a_client_that_keeps_nothing_still_gets_the_news() -> None:
    microphone = Microphone()
    async with server(microphone) as address, conversation(address, keeps_audio=False) as client:
        await client.send({"type": "response.cancel"})
        client.say(client.sound(np.ones(320, np.int16)))
        await microphone.play(TONE)
        await heard(client, 1)
        assert client.news[-1].kind == "audio"
        assert not client.recording.heard.pieces
        assert await client.until(lambda: microphone.other == ["response.cancel"], timeout_s=20)
        assert not await client.until(lambda: False, timeout_s=0.05)


async def hang_up(socket: ServerConnection) -> None:
    await greet(socket)
    await socket.close(1011, "engines are gone")


async def refuse(socket: ServerConnection) -> None:
    await socket.recv()
    await socket.send(json.dumps({"type": "error", "error": {"message": "no such format"}}))
    await socket.wait_closed()


async def babble(socket: ServerConnection) -> None:
    await socket.send("[1]")
    await socket.wait_closed()


@pytest.mark.parametrize(
    ("handler", "why"),
    [(hang_up, "engines are gone"), (refuse, "no such format"), (babble, "not a duplexd")],
)
async def test_a_server_that_fails_ends_the_block(handler: Handler, why: str) -> None:
    async with server(handler) as address:
        with pytest.raises(EngineFailed, match=why):
            async with conversation(address) as client:
                await client.until(lambda: False, timeout_s=20)


async def test_a_failure_inside_the_block_is_that_failure() -> None:
    async with server(Microphone()) as address:
        with pytest.raises(DuplexdError, match="mine"):
            async with conversation(address):
                raise DuplexdError("mine")


async def test_nobody_there() -> None:
    async with server(Microphone()) as address:
        pass
    with pytest.raises(EngineFailed, match="No daemon"):
        async with conversation(address):
            pass


def test_the_last_frame_is_filled_up() -> None:
    sound = Sound.of(np.ones(500, np.int16), RealtimeWire(), frame_ms=20)
    assert len(sound.messages) == 2
    assert sound.seconds == pytest.approx(500 / 16_000)
    last = json.loads(sound.messages[1])["audio"]
    assert np.frombuffer(base64.b64decode(last), np.int16).sum() == 500 - 320


async def test_a_server_that_is_never_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.bench import client as module
    from tts_engine.errors import TimedOut

    async def silent(socket: ServerConnection) -> None:
        await socket.wait_closed()

    monkeypatch.setattr(module, "_READY_S", 0.05)
    async with server(silent) as address:
        with pytest.raises(TimedOut, match="not ready"):
            async with conversation(address):
                await asyncio.sleep(0)
