"""A client that sends in real time, and records on one clock what was said, heard and told.

Its microphone never stops: a frame leaves when its last sample would have been recorded, by
absolute deadlines, and silence (or the room's noise) where nothing is said. Its loudspeaker plays
what arrives, gapless, and obeys the server. All times are monotonic seconds.

        async with conversation(server) as client:
            said = client.say(client.sound(samples))
            await client.until(lambda: client.sent >= said.end, timeout_s=10)
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from pipeline.bench.wire import MICROPHONE_RATE, News, RealtimeWire, Wire
from pipeline.talk.endpoint import Endpoint
from pipeline.talk.refusals import ANOTHER, explain, not_a_daemon
from pipeline.talk.stereo import RATE, StereoRecording
from tts_engine.errors import EngineFailed, TimedOut

#: longest wait for a server that accepted the connection to be ready, seconds
_READY_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sound:
    """Something to say, cut into messages beforehand: pacing costs nothing but the send.

    Parameters:
        samples: mono int16 at MICROPHONE_RATE, as given.
        messages: of whole frames; the last one is filled up with silence.
    """

    samples: NDArray[np.int16]
    messages: tuple[str | bytes, ...]

    @classmethod
    def of(cls, samples: NDArray[np.int16], wire: Wire, *, frame_ms: int) -> Sound:
        """Cuts `samples` into frames."""
        size = MICROPHONE_RATE * frame_ms // 1000
        filled = np.pad(samples, (0, -len(samples) % size))
        frames = filled.reshape(-1, size)
        return cls(samples=samples, messages=tuple(wire.frame(each.tobytes()) for each in frames))

    @property
    def seconds(self) -> float:
        """Its length, without what fills the last frame."""
        return len(self.samples) / MICROPHONE_RATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Where a sound lies in time: its first sample, and just past its last one."""

    start: float
    end: float


class PacedClient:
    """One conversation; made by `conversation`.

    Attributes:
        began: when the microphone's first sample was recorded.
        news: all that the server told, in the order of arrival.
        recording: of the loudspeaker; positions are samples at `RATE` since `began`. The sources
            of its pieces are the answers' names, as `source` gives them.
        late_ms: how late each frame of the microphone was sent, milliseconds.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        frame_ms: int = 20,
        honours_pauses: bool = True,
        keeps_audio: bool = True,
        room: NDArray[np.int16] | None = None,
    ) -> None:
        self.began = 0.0
        self.news: list[News] = []
        self.recording = StereoRecording()
        self.late_ms: list[float] = []
        self._wire = wire
        self._frame_ms = frame_ms
        self._frame_s = frame_ms / 1000
        self._honours_pauses = honours_pauses
        self._keeps_audio = keeps_audio
        size = MICROPHONE_RATE * frame_ms // 1000
        quiet = room[: len(room) // size * size] if room is not None else np.zeros(size, np.int16)
        self._room = self.sound(quiet)
        self._room_frame = 0
        self._queue: deque[str | bytes] = deque()
        self._sounds: list[tuple[int, Sound]] = []  # frame that a sound begins with
        self._taken = self._sent = 0  # frames
        self._said_until = 0.0
        self._sources: dict[str, str] = {}
        self._moved = asyncio.Event()
        self._socket: ClientConnection

    # --- the user ----------------------------------------------------------------------------
    def sound(self, samples: NDArray[np.int16]) -> Sound:
        """Prepares something to be said."""
        return Sound.of(samples, self._wire, frame_ms=self._frame_ms)

    def say(self, sound: Sound, *, at: float = 0.0) -> Said:
        """Says a sound after what is being said, from the next frame on.

        Args:
            sound: of this client's wire and frame length.
            at: not before this; it begins less than a frame later.
        """
        first = self._taken + len(self._queue)
        wait = max(0, math.ceil((at - self.began) / self._frame_s - first - 1e-6))
        self._queue.extend(self._quiet() for _ in range(wait))
        self._queue.extend(sound.messages)
        if self._keeps_audio:
            self._sounds.append((first + wait, sound))
        start = self.began + (first + wait) * self._frame_s
        self._said_until = start + sound.seconds
        return Said(start=start, end=self._said_until)

    async def send(self, event: Mapping[str, Any]) -> None:
        """Sends a message of another kind."""
        await self._socket.send(json.dumps(event))

    @property
    def sent(self) -> float:
        """The microphone was sent up to this time."""
        return self.began + self._sent * self._frame_s

    @property
    def said_until(self) -> float:
        """When the last of what is said ends."""
        return self._said_until

    # --- what came ---------------------------------------------------------------------------
    async def until(self, condition: Callable[[], bool], *, timeout_s: float) -> bool:
        """Waits; the condition is looked at after every message, and every frame that was sent.

        Returns:
            Whether it came true in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    def source(self, answer: str) -> object:
        """The source of an answer's pieces on the recording."""
        return self._sources.setdefault(answer, answer)

    def position(self, at: float) -> int:
        """A time as a position on the recording."""
        return round((at - self.began) * RATE)

    def time(self, position: int) -> float:
        """A position on the recording as a time."""
        return self.began + position / RATE

    @property
    def playing_until(self) -> float:
        """When the loudspeaker falls silent, if nothing more comes."""
        return self.time(self.recording.heard.end)

    def microphone(self) -> NDArray[np.int16]:
        """What was said until now, at MICROPHONE_RATE, without the room's noise between."""
        size = MICROPHONE_RATE * self._frame_ms // 1000
        channel = np.zeros(self._sent * size, np.int16)
        for first, sound in self._sounds:
            part = sound.samples[: max(0, len(channel) - first * size)]
            channel[first * size : first * size + len(part)] = part
        return channel

    def write(self, path: Path) -> None:
        """Writes the stereo file: left what was said, right what was heard."""
        self.recording.sent = [soxr.resample(self.microphone(), MICROPHONE_RATE, RATE)]
        self.recording.write(path)

    # --- the socket --------------------------------------------------------------------------
    async def open(self, socket: ClientConnection, server: Endpoint) -> None:
        """Waits until the server is ready.

        Raises:
            EngineFailed: it refuses, hangs up, or is of another protocol.
            TimedOut: it never is.
        """
        self._socket = socket
        for message in self._wire.opening():
            await socket.send(message)
        try:
            async with asyncio.timeout(_READY_S):
                while (news := await self._receive(server)).kind != "ready":
                    if news.kind == "error":
                        raise EngineFailed(f"{server.url} refused: {news.text}")
        except TimeoutError:
            raise TimedOut(f"{server.url} was not ready after {_READY_S:g} s") from None
        self.began = time.monotonic()

    async def speak(self) -> None:
        """The microphone: runs until cancelled."""
        while True:
            message = self._queue.popleft() if self._queue else self._quiet()
            self._taken += 1
            due = self.began + self._taken * self._frame_s
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self.late_ms.append((time.monotonic() - due) * 1000)
            try:
                await self._socket.send(message)
            except ConnectionClosed:
                return  # the ears hear why
            self._sent += 1
            self._moved.set()

    async def listen(self, server: Endpoint) -> None:
        """The ears: run until cancelled.

        Raises:
            EngineFailed: the server hung up.
        """
        while True:
            await self._receive(server)
            self._moved.set()

    def _quiet(self) -> str | bytes:
        self._room_frame = (self._room_frame + 1) % len(self._room.messages)
        return self._room.messages[self._room_frame]

    async def _receive(self, server: Endpoint) -> News:
        try:
            message = await self._socket.recv()
        except ConnectionClosed as error:
            reason = f": {error.rcvd.reason}" if error.rcvd and error.rcvd.reason else ""
            raise EngineFailed(
                f"{server.url} ended the conversation{reason}", mend="Look into its log"
            ) from error
        try:
            news = self._wire.read(message, time.monotonic())
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise EngineFailed(
                f"{not_a_daemon(server)}: it sent {message[:80]!r}", mend=ANOTHER
            ) from error
        self.news.append(news)
        if self._keeps_audio:
            self._play(news)
        return news

    def _play(self, news: News) -> None:
        """The loudspeaker."""
        heard, position = self.recording.heard, self.position(news.at)
        match news.kind:
            case "audio":
                assert news.samples is not None
                heard.arrive(position, news.samples, self.source(news.answer))
            case "opened" | "flush":
                heard.flush(position)
            case "paused" if self._honours_pauses:
                heard.pause(position)
            case "resumed":
                heard.resume(position)
            case "done" if news.text == "cancelled":
                heard.flush(position)
            case "done":
                heard.resume(position)  # nobody else would, any more
            case _:
                pass


@asynccontextmanager
async def conversation(
    server: Endpoint | str,
    wire: Wire | None = None,
    *,
    frame_ms: int = 20,
    honours_pauses: bool = True,
    keeps_audio: bool = True,
    room: NDArray[np.int16] | None = None,
) -> AsyncIterator[PacedClient]:
    """Holds a conversation for the length of the block; the microphone is open from its start.

    Args:
        server: whom to talk to; text is read by `Endpoint.of`.
        wire: its protocol; None: Realtime, with what `honours_pauses` says.
        frame_ms: length of the microphone's frames.
        honours_pauses: falls silent when the server says "paused".
        keeps_audio: False: neither records nor keeps what was said; news of audio keep it.
        room: noise of the room where nothing is said, int16 at MICROPHONE_RATE, round and round;
            None: digital silence.

    Raises:
        AtCapacity, EngineFailed, TimedOut: there is no conversation to be had, or the server ends
            it within the block.
    """
    endpoint = Endpoint.of(server) if isinstance(server, str) else server
    client = PacedClient(
        wire or RealtimeWire(pauses=honours_pauses),
        frame_ms=frame_ms,
        honours_pauses=honours_pauses,
        keeps_audio=keeps_audio,
        room=room,
    )
    try:
        # No proxy: what is measured is the way to the server. No pings: nor anything else.
        socket = await connect(
            endpoint.url,
            additional_headers=endpoint.headers,
            compression=None,
            max_size=None,
            ping_interval=None,
            proxy=None,
        )
    except (OSError, WebSocketException) as error:
        raise explain(endpoint, error) from error
    async with socket:
        try:
            async with asyncio.TaskGroup() as group:
                await client.open(socket, endpoint)
                tasks = [
                    group.create_task(client.listen(endpoint)),
                    group.create_task(client.speak()),
                ]
                yield client
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
