# pyright: strict
"""What a device tells: one class a message, as `services.xiaozhi.protocol` reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Mode = Literal["auto", "manual", "realtime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioFormat:
    """Audio of one direction.

    Parameters:
        format: "opus", or "pcm" of some programs that pass for devices.
        sample_rate: samples per second.
        channels: the only number that anybody sends is 1.
        frame_ms: length of a packet; the decoder believes the packet itself.
    """

    format: Literal["opus", "pcm"] = "opus"
    sample_rate: int = 16_000
    channels: int = 1
    frame_ms: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first message; whatever of it is missing or malformed has its default.

    Parameters:
        version: of the binary framing, as the message has it; the header's counts.
        mcp: the device serves tools.
        aec: the server cancels the echo.
        audio: of the microphone.
    """

    version: int = 1
    mcp: bool = False
    aec: bool = False
    audio: AudioFormat = field(default_factory=AudioFormat)


@dataclass(frozen=True, slots=True)
class ListenStart:
    """The device streams its microphone."""

    mode: Mode


@dataclass(frozen=True, slots=True)
class ListenStop:
    """It has stopped; in manual mode the user's turn is over."""


@dataclass(frozen=True, slots=True)
class Detect:
    """A wake word was heard; from apps: the user's text, which is to be answered."""

    text: str


@dataclass(frozen=True, slots=True)
class Abort:
    """The user interrupts. `reason` may be empty."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Mcp:
    """A JSON-RPC message of the device's tool server."""

    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class IotDescriptors:
    """What a device of firmware up to 1.7 can do, thing by thing."""

    descriptors: tuple[dict[str, Any], ...]
    update: bool = False


@dataclass(frozen=True, slots=True)
class IotStates:
    """How its things stand."""

    states: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Ping:
    """Some clients want a pong."""


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The client ends the conversation."""


@dataclass(frozen=True, slots=True)
class Audio:
    """A packet of the microphone.

    Parameters:
        packet: one of the codec's; may be empty: a pause of as long as a packet.
        timestamp_ms: of the downlink frame that was played meanwhile, 0 for none; framing 2 only.
    """

    packet: bytes
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class Ignored:
    """A message that means nothing.

    Parameters:
        kind: why, from a short list: names a counter.
        detail: for the log; bounded.
    """

    kind: str
    detail: str = ""


DeviceEvent = (
    Hello
    | ListenStart
    | ListenStop
    | Detect
    | Abort
    | Mcp
    | IotDescriptors
    | IotStates
    | Ping
    | Goodbye
    | Audio
    | Ignored
)
