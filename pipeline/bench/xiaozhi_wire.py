"""The Xiaozhi device protocol, as a client of the bench speaks it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import opuslib_next

from pipeline.bench.wire import MICROPHONE_RATE, News, Wire
from pipeline.talk.stereo import RATE
from services.xiaozhi.events import Mode

#: what a packet holds. Scripted recognisers read marks in the sound, which only raw samples keep
Codec = Literal["opus", "pcm"]

#: where devices connect; each conversation needs a name of its own, or it ends the one before
PATH = "/xiaozhi/v1/?device-id={device}"
#: keys of a daemon that is measured: its clients have no tokens
SETS = {"xiaozhi.enabled": "true", "xiaozhi.auth": "off"}
#: length of every packet that a device is sent, milliseconds
DOWNLINK_MS = 60
#: lengths that Opus has, and devices use, milliseconds
FRAMES_MS = (20, 40, 60)
#: longest packet, samples at RATE
_MOST_SAMPLES = RATE * 120 // 1000


class XiaozhiWire(Wire):
    """One device's side of it, in framing 1.

    A device is not told of pauses: its answer just stops coming. It is told when an answer ends,
    not why.

    Parameters:
        mode: in which the device listens.
        codec: of both directions.
        frame_ms: length of its own packets, one of FRAMES_MS for Opus.
    """

    def __init__(
        self, *, mode: Mode = "realtime", codec: Codec = "opus", frame_ms: int = 60
    ) -> None:
        self._mode = mode
        self._codec: Codec = codec
        self._frame_ms = frame_ms
        self._encoder = opuslib_next.Encoder(MICROPHONE_RATE, 1, opuslib_next.APPLICATION_AUDIO)
        self._encoder.complexity = 0  # as the firmware
        self._decoder = opuslib_next.Decoder(RATE, 1)
        self._answers = 0

    def opening(self) -> list[str]:
        """See Wire."""
        audio = {
            "format": self._codec,
            "sample_rate": MICROPHONE_RATE,
            "channels": 1,
            "frame_duration": self._frame_ms,
        }
        messages: Sequence[dict[str, Any]] = (
            {
                "type": "hello",
                "version": 1,
                "transport": "websocket",
                "features": {"mcp": False},
                "audio_params": audio,
            },
            {"type": "listen", "state": "start", "mode": self._mode},
        )
        return [json.dumps(each) for each in messages]

    def frame(self, pcm: bytes) -> bytes:
        """See Wire."""
        if self._codec == "pcm":
            return pcm
        return self._encoder.encode(pcm, len(pcm) // 2)

    def read(self, message: str | bytes, at: float) -> News:
        """See Wire."""
        answer = f"answer {self._answers}"
        if isinstance(message, bytes):
            raw = self._codec == "pcm"
            pcm = message if raw else self._decoder.decode(message, _MOST_SAMPLES)
            samples = np.frombuffer(pcm, np.int16)
            return News(at=at, kind="audio", answer=answer, samples=samples)
        event: dict[str, Any] = json.loads(message)
        match event["type"], event.get("state"):
            case "hello", _:
                return News(at=at, kind="ready", event=event)
            case "stt", _:
                return News(at=at, kind="turn", text=event["text"], event=event)
            case "tts", "start":
                self._answers += 1
                answer = f"answer {self._answers}"
                return News(at=at, kind="answer", answer=answer, event=event)
            case "tts", "sentence_start":
                return News(at=at, kind="text", answer=answer, text=event["text"], event=event)
            case "tts", "stop":
                return News(at=at, kind="done", answer=answer, text="stopped", event=event)
            case "alert", _:
                return News(at=at, kind="error", text=event["message"], event=event)
            case _:
                return News(at=at, kind="other", event=event)
