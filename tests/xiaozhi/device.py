"""A device for tests: written from the protocol's description, and with nothing of the server's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import opuslib_next
import websockets
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect

from services.scripted.speech import synthetic_speech

#: of the microphone, and a packet of it
RATE, FRAME = 16_000, 960
#: of the loudspeaker
DOWN_RATE, DOWN_FRAME = 24_000, 1440
FRAME_S = 0.06
#: bound of every wait, on a machine that others use as well, seconds
PATIENCE_S = 30.0

START, STOP, SENTENCE = ("tts", "start"), ("tts", "stop"), ("tts", "sentence_start")


def voice(seconds: float) -> NDArray[np.int16]:
    """Something voiced."""
    return synthetic_speech(seconds=seconds, rate=RATE)


def silence(seconds: float) -> NDArray[np.int16]:
    """Digital silence."""
    return np.zeros(round(seconds * RATE), np.int16)


class Microphone:
    """Cuts and encodes.

    Args:
        frame_ms: length of a packet.
        dtx: silence is left out, as devices do.
    """

    def __init__(self, *, frame_ms: int = 60, dtx: bool = False) -> None:
        self._encoder = opuslib_next.Encoder(RATE, 1, opuslib_next.APPLICATION_AUDIO)
        self._encoder.complexity = 0
        self._encoder.dtx = int(dtx)
        self._size = RATE * frame_ms // 1000

    def packets(self, samples: NDArray[np.int16]) -> list[bytes]:
        """The packets of a sound, filled up with silence."""
        size = self._size
        filled = np.pad(samples, (0, -len(samples) % size))
        return [self._encoder.encode(frame.tobytes(), size) for frame in filled.reshape(-1, size)]


def framed(packet: bytes, version: int, *, timestamp: int = 0) -> bytes:
    """A packet as a binary message."""
    if version == 2:
        return struct.pack(">HHIII", 2, 0, 0, timestamp, len(packet)) + packet
    if version == 3:
        return struct.pack(">BBH", 0, 0, len(packet)) + packet
    return packet


def unframed(message: bytes, version: int) -> tuple[bytes, int]:
    """Packet and timestamp of a binary message; its sizes must be right."""
    if version == 2:
        kind, sort, reserved, timestamp, size = struct.unpack_from(">HHIII", message)
        assert (kind, sort, reserved, size) == (2, 0, 0, len(message) - 16)
        return message[16:], timestamp
    if version == 3:
        sort, reserved, size = struct.unpack_from(">BBH", message)
        assert (sort, reserved, size) == (0, 0, len(message) - 4)
        return message[4:], 0
    return message, 0


@dataclass(frozen=True)
class Told:
    """A message of the server's.

    Parameters:
        at: its arrival, monotonic seconds.
        body: of a text.
        packet, timestamp: of audio.
    """

    at: float
    body: dict[str, Any] | None = None
    packet: bytes = b""
    timestamp: int = 0

    @property
    def kind(self) -> tuple[str, str]:
        """Type and state; ("audio", "") for audio."""
        if self.body is None:
            return "audio", ""
        return str(self.body.get("type")), str(self.body.get("state", ""))


class Device:
    """One connection; see `connected`."""

    def __init__(self, connection: ClientConnection, *, version: int) -> None:
        self.connection = connection
        self.version = version
        self.told: list[Told] = []
        self.closed: websockets.ConnectionClosed | None = None
        self.failure: Exception | None = None
        self.aborts = 0
        self.tools: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda _: None
        self._microphone = Microphone()
        self._queue: list[bytes] = []
        self.news = asyncio.Condition()
        self._tasks = [asyncio.create_task(self._read(), name="device reader")]

    # --- what came --------------------------------------------------------------------------
    async def _read(self) -> None:
        try:
            await self._take()
        except Exception as error:  # of `tools`, say: whoever waits is told
            self.failure = error
            async with self.news:
                self.news.notify_all()

    async def _take(self) -> None:
        while self.closed is None:
            try:
                message = await self.connection.recv()
            except websockets.ConnectionClosed as error:
                self.closed = error
            else:
                at = time.monotonic()
                if isinstance(message, bytes):
                    packet, timestamp = unframed(message, self.version)
                    self.told.append(Told(at, None, packet, timestamp))
                else:
                    body = json.loads(message)
                    self.told.append(Told(at, body))
                    if body.get("type") == "mcp":
                        answer = self.tools(body["payload"])
                        if answer is not None:
                            with contextlib.suppress(websockets.ConnectionClosed):
                                await self.send("mcp", payload=answer)
            async with self.news:
                self.news.notify_all()

    @property
    def gone(self) -> bool:
        """Nothing more will come."""
        if self.failure is not None:
            raise AssertionError("the device failed") from self.failure
        return self.closed is not None

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """What came so far; a run of audio counts once."""
        kinds = [each.kind for each in self.told]
        return [
            kind
            for at, kind in enumerate(kinds)
            if kind != ("audio", "") or at == 0 or kinds[at - 1] != kind
        ]

    def of(self, kind: tuple[str, str]) -> list[Told]:
        """The messages of a kind so far."""
        return [each for each in self.told if each.kind == kind]

    @property
    def audio(self) -> list[Told]:
        """The packets so far."""
        return self.of(("audio", ""))

    def heard(self, packets: Sequence[Told] | None = None) -> NDArray[np.int16]:
        """The samples of packets, of all that came unless they are given."""
        decoder = opuslib_next.Decoder(DOWN_RATE, 1)
        given = self.audio if packets is None else packets
        pcm = b"".join(decoder.decode(each.packet, DOWN_FRAME) for each in given)
        return np.frombuffer(pcm, np.int16)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for news after which the condition holds."""
        try:
            async with asyncio.timeout(PATIENCE_S), self.news:
                await self.news.wait_for(lambda: condition() or self.gone)
        except TimeoutError:
            raise AssertionError(f"{what} did not come; there was {self.kinds}") from None
        assert condition(), f"closed before {what}: {self.closed}; there was {self.kinds}"

    async def wait(self, kind: tuple[str, str], count: int = 1) -> Told:
        """Waits for the count-th message of a kind."""
        await self.until(lambda: len(self.of(kind)) >= count, f"{kind} no. {count}")
        return self.of(kind)[count - 1]

    async def playing(self, packets: int) -> None:
        """Waits for so many packets in all."""
        await self.until(lambda: len(self.audio) >= packets, f"{packets} packets")

    async def over(self) -> websockets.ConnectionClosed:
        """Waits for the end of the connection."""
        async with asyncio.timeout(PATIENCE_S), self.news:
            await self.news.wait_for(lambda: self.gone)
        assert self.closed is not None
        return self.closed

    # --- what goes --------------------------------------------------------------------------
    async def send(self, kind: str, **members: Any) -> None:
        """Sends a message."""
        await self.connection.send(json.dumps({"session_id": "", "type": kind, **members}))

    async def hello(self, **members: Any) -> dict[str, Any]:
        """Greets, and returns the server's hello."""
        audio = {"format": "opus", "sample_rate": RATE, "channels": 1, "frame_duration": 60}
        await self.send(
            "hello",
            **{"version": self.version, "transport": "websocket", "audio_params": audio, **members},
        )
        told = await self.wait(("hello", ""))
        assert told.body is not None
        return told.body

    async def listen(self, mode: str = "auto") -> None:
        """The microphone is open."""
        await self.send("listen", state="start", mode=mode)

    async def release(self) -> None:
        """The button is released."""
        await self.send("listen", state="stop")

    async def detect(self, text: str) -> None:
        """A wake word, or a text."""
        await self.send("listen", state="detect", text=text)

    async def abort(self, **members: Any) -> None:
        """The user interrupts."""
        self.aborts += 1
        await self.send("abort", **members)

    async def packet(self, packet: bytes, *, timestamp: int = 0) -> None:
        """Sends a packet."""
        await self.connection.send(framed(packet, self.version, timestamp=timestamp))

    async def sound(self, samples: NDArray[np.int16]) -> None:
        """Sends a sound at once: the server's clock counts samples, not seconds."""
        for packet in self._microphone.packets(samples):
            await self.packet(packet)

    async def speak(self, seconds: float = 0.6, *, pause_s: float = 0.5) -> None:
        """Says something at once."""
        await self.sound(np.concatenate((voice(seconds), silence(pause_s))))

    async def say(self, samples: NDArray[np.int16]) -> None:
        """Says something at the pace of speech."""
        due = time.monotonic()
        for packet in self._microphone.packets(samples):
            due += FRAME_S
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self.packet(packet)

    async def close(self) -> None:
        """Ends it, if it has not ended yet."""
        with contextlib.suppress(websockets.ConnectionClosed):
            await self.connection.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def vanish(self) -> None:
        """Drops the connection without a goodbye, as devices do."""
        self.connection.transport.abort()


def headers_of(device_id: str, *, version: int = 1, token: str = "") -> dict[str, str]:
    """Those of a device's handshake."""
    headers = {
        "Protocol-Version": str(version),
        "Device-Id": device_id,
        "Client-Id": "6fa7a1d4-5f1b-4a0e-9c1b-000000000000",
    }
    return {**headers, "Authorization": f"Bearer {token}"} if token else headers


@asynccontextmanager
async def connected(
    address: str,
    *,
    version: int = 1,
    device_id: str = "aa:bb:cc:dd:ee:01",
    token: str = "",
    path: str = "/xiaozhi/v1/",
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[Device]:
    """A device that has yet to greet.

    Args:
        address: host and port.
        version: of the framing.
        device_id, token: of the device, for the headers.
        path: of the address, and its query.
        headers: other ones.
    """
    connection = await connect(
        f"ws://{address}{path}",
        compression=None,
        max_size=None,
        open_timeout=PATIENCE_S,
        ping_interval=None,
        close_timeout=1,
        additional_headers=(
            headers_of(device_id, version=version, token=token) if headers is None else headers
        ),
    )
    device = Device(connection, version=version)
    try:
        yield device
    finally:
        await device.close()


@asynccontextmanager
async def talking(
    address: str,
    *,
    mode: str = "auto",
    version: int = 1,
    device_id: str = "aa:bb:cc:dd:ee:01",
    token: str = "",
) -> AsyncIterator[Device]:
    """A device that has greeted, and listens."""
    async with connected(address, version=version, device_id=device_id, token=token) as device:
        await device.hello()
        await device.listen(mode)
        yield device
