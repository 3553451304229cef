"""The peer's protocol, both ends: bytes are audio, texts are JSON objects with a `type`.

ready          the pipeline runs
turn, text     the user's turn was ended, with what was understood
flush          the user interrupts: what is buffered is void
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from pipecat.frames.frames import (
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    OutputAudioRawFrame,
    OutputTransportMessageUrgentFrame,
)
from pipecat.serializers.base_serializer import FrameSerializer

from pipeline.bench.wire import MICROPHONE_RATE, Kind, News, Wire

READY, TURN, FLUSH = "ready", "turn", "flush"
_KINDS: dict[str, Kind] = {READY: "ready", TURN: "turn", FLUSH: "flush"}


class PeerSerializer(FrameSerializer):
    """The server's end."""

    async def serialize(self, frame: Frame) -> str | bytes | None:
        """Audio as it is; an interruption as an event."""
        match frame:
            case OutputAudioRawFrame():
                return frame.audio
            case InterruptionFrame():
                return json.dumps({"type": FLUSH})
            case OutputTransportMessageUrgentFrame() if not self.should_ignore_frame(frame):
                return json.dumps(frame.message, ensure_ascii=False)
            case _:
                return None

    async def deserialize(self, data: str | bytes) -> Frame | None:
        """A frame of the microphone."""
        if isinstance(data, str):
            return None
        return InputAudioRawFrame(audio=data, sample_rate=MICROPHONE_RATE, num_channels=1)


class PeerWire(Wire):
    """The client's end. Answers have no names there: each is the turn's that was before it."""

    def __init__(self) -> None:
        self._turns = 0

    def opening(self) -> list[str]:
        """See Wire: the server speaks first."""
        return []

    def frame(self, pcm: bytes) -> bytes:
        """See Wire."""
        return pcm

    def read(self, message: str | bytes, at: float) -> News:
        """See Wire."""
        if isinstance(message, bytes):
            samples = np.frombuffer(message, np.int16)
            return News(at=at, kind="audio", answer=str(self._turns), samples=samples)
        event: dict[str, Any] = json.loads(message)
        kind = _KINDS[event["type"]]
        text: str = event.get("text", "")
        if kind == "turn" and text:
            self._turns += 1
        return News(at=at, kind=kind, answer=str(self._turns), text=text, event=event)
