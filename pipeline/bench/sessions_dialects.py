"""The protocols that `bench sessions` speaks: what is sent, and how much audio a message holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pipeline.bench.sessions_wire import BINARY, message, realtime_audio_ms
from pipeline.bench.wire import RealtimeWire
from pipeline.bench.xiaozhi_wire import DOWNLINK_MS, XiaozhiWire

Name = Literal["realtime", "xiaozhi", "peer"]

#: bytes of a millisecond of the peer's answers: 24 kHz, two bytes a sample
_PEER_BYTES_PER_MS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a server wants its audio, and gives it.

    Parameters:
        opening: what is sent first, ready for the socket.
        frame: makes the message that carries a frame of the microphone, ready for the socket.
        audio_ms: length of the audio that a message (opcode, payload) holds; 0 for others.
    """

    opening: bytes
    frame: Callable[[bytes], bytes]
    audio_ms: Callable[[int, bytes], float]


def dialect_of(name: Name) -> Dialect:
    """The dialect of a server."""
    if name == "peer":
        return Dialect(opening=b"", frame=message, audio_ms=_peer_audio_ms)
    if name == "xiaozhi":
        device = XiaozhiWire()
        return Dialect(
            opening=b"".join(map(message, device.opening())),
            frame=lambda pcm: message(device.frame(pcm)),
            audio_ms=lambda opcode, _: DOWNLINK_MS if opcode == BINARY else 0.0,
        )
    wire = RealtimeWire()
    return Dialect(
        opening=b"".join(map(message, wire.opening())),
        frame=lambda pcm: message(wire.frame(pcm)),
        audio_ms=lambda _, payload: realtime_audio_ms(payload),
    )


def _peer_audio_ms(opcode: int, payload: bytes) -> float:
    return len(payload) / _PEER_BYTES_PER_MS if opcode == BINARY else 0.0
