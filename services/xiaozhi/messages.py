# pyright: strict
"""What a device is told, and how it is written: JSON of at most 8 KB, every text encodable."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from services.well_formed import all_well_formed

#: longest text that a message carries, characters: 8 KB hold twice as many Hanzi's bytes
MAX_TEXT = 1_200


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHello:
    """The answer to the device's hello: what the downlink will carry.

    Parameters:
        sample_rate: samples per second.
        frame_ms: of every packet; the device's decoder has room for no more.
    """

    sample_rate: int = 24_000
    frame_ms: int = 60


@dataclass(frozen=True, slots=True)
class Stt:
    """What the user said."""

    text: str


@dataclass(frozen=True, slots=True)
class Emotion:
    """The face that the device shows."""

    name: str
    emoji: str


@dataclass(frozen=True, slots=True)
class TtsStart:
    """The device gets ready to play, and an auto device stops its microphone."""


@dataclass(frozen=True, slots=True)
class SentenceStart:
    """The subtitle of what follows."""

    text: str


@dataclass(frozen=True, slots=True)
class TtsStop:
    """The answer is over: auto and realtime devices listen again."""


@dataclass(frozen=True, slots=True)
class McpRequest:
    """A JSON-RPC message for the device's tool server."""

    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class IotCommands:
    """What things of an old device are to do."""

    commands: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A text on the screen, with a sound. The device wants all three."""

    status: str
    message: str
    emotion: str = "sad"


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a ping."""


Message = (
    ServerHello
    | Stt
    | Emotion
    | TtsStart
    | SentenceStart
    | TtsStop
    | McpRequest
    | IotCommands
    | Alert
    | Pong
)


def encode(message: Message, *, session_id: str) -> str:
    """A message as text.

    Args:
        message: what to say.
        session_id: plain characters: the device pastes it into JSON as it is.
    """
    body = {"session_id": session_id, **_members(message)}
    return json.dumps(all_well_formed(body), ensure_ascii=False, separators=(",", ":"))


def _members(message: Message) -> dict[str, Any]:
    match message:
        case ServerHello(sample_rate=rate, frame_ms=frame_ms):
            audio = {"format": "opus", "sample_rate": rate, "channels": 1}
            audio["frame_duration"] = frame_ms
            return {
                "type": "hello",
                "version": 1,
                "transport": "websocket",
                "audio_params": audio,
            }
        case Stt(text):
            return {"type": "stt", "text": _bounded(text)}
        case Emotion(name, emoji):
            return {"type": "llm", "text": emoji, "emotion": name}
        case TtsStart():
            return {"type": "tts", "state": "start"}
        case SentenceStart(text):
            return {"type": "tts", "state": "sentence_start", "text": _bounded(text)}
        case TtsStop():
            return {"type": "tts", "state": "stop"}
        case McpRequest(payload):
            return {"type": "mcp", "payload": payload}
        case IotCommands(commands):
            return {"type": "iot", "commands": [*commands]}
        case Alert(status=status, message=text, emotion=emotion):
            return {
                "type": "alert",
                "status": _bounded(status),
                "message": _bounded(text),
                "emotion": emotion,
            }
        case Pong():
            return {"type": "pong"}


def _bounded(text: str) -> str:
    """As much of a text as a small screen can take."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
