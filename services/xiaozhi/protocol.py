# pyright: strict
"""The device protocol without its socket: what was received, as events.

Everything is taken, and nothing raises: a device builds its JSON by pasting strings together, and
what cannot be read or is not known is an `Ignored`, for a counter and a line in the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from services.well_formed import all_well_formed
from services.xiaozhi.events import (
    Abort,
    AudioFormat,
    Detect,
    DeviceEvent,
    Goodbye,
    Hello,
    Ignored,
    IotDescriptors,
    IotStates,
    ListenStart,
    ListenStop,
    Mcp,
    Mode,
    Ping,
)
from services.xiaozhi.framing import pack, unpack

#: longest text message that is taken, characters: a device sends 8 KB at most, a page of its tools
MAX_TEXT = 65_536
#: longest text of a user's that is answered, and longest detail of an `Ignored`, characters
MAX_SAID = 4_000
_DETAIL = 80
_MODES: dict[str, Mode] = {"auto": "auto", "manual": "manual", "realtime": "realtime"}
#: rates that Opus decodes to; PCM may have others
_RATES = range(8_000, 48_001)
_FRAMES_MS = range(5, 121)


class DeviceProtocol:
    """One connection's messages.

    Args:
        version: framing of its audio, as the handshake's `Protocol-Version` has it; an unknown one
            is taken for 1.
    """

    def __init__(self, *, version: int) -> None:
        self.version = version if version in (1, 2, 3) else 1
        self._greeted = False

    def receive_text(self, text: str) -> DeviceEvent:
        """Reads a text message."""
        if len(text) > MAX_TEXT:
            return Ignored("too_large", f"{len(text)} characters")
        try:
            message: Any = all_well_formed(json.loads(text))
        except (ValueError, RecursionError):
            return Ignored("not_json", text[:_DETAIL])
        if not isinstance(message, dict):
            return Ignored("not_json", text[:_DETAIL])
        return self._read(cast("dict[str, Any]", message))

    def receive_bytes(self, message: bytes) -> DeviceEvent:
        """Reads a binary message."""
        if not self._greeted:
            return Ignored("audio_before_hello")
        return unpack(message, self.version)

    def audio(self, packet: bytes, *, timestamp_ms: int) -> bytes:
        """Frames a packet for the device."""
        return pack(packet, self.version, timestamp_ms=timestamp_ms)

    def _read(self, message: dict[str, Any]) -> DeviceEvent:
        match message.get("type"):
            case "hello":
                if self._greeted:
                    return Ignored("second_hello")
                self._greeted = True
                return _hello(message)
            case "listen":
                return _listen(message)
            case "abort":
                return Abort(_text(message, "reason"))
            case "mcp":
                payload = message.get("payload")
                if not isinstance(payload, dict):
                    return Ignored("bad_message", "mcp without a payload")
                return Mcp(cast("dict[str, Any]", payload))
            case "iot":
                return _iot(message)
            case "ping":
                return Ping()
            case "goodbye":
                return Goodbye()
            case str(other):
                return Ignored("unknown_type", other[:_DETAIL])
            case _:
                return Ignored("no_type")


def _hello(message: Mapping[str, Any]) -> Hello:
    features = _object(message, "features")
    audio = _object(message, "audio_params") or _object(message, "audioParams")
    default = AudioFormat()
    return Hello(
        version=_number(message, "version", range(1, 4), 1),
        mcp=features.get("mcp") is True,
        aec=features.get("aec") is True,
        audio=AudioFormat(
            format="pcm" if audio.get("format") == "pcm" else "opus",
            sample_rate=_number(audio, "sample_rate", _RATES, default.sample_rate),
            channels=_number(audio, "channels", range(1, 3), default.channels),
            frame_ms=_number(audio, "frame_duration", _FRAMES_MS, default.frame_ms),
        ),
    )


def _listen(message: Mapping[str, Any]) -> DeviceEvent:
    match message.get("state"):
        case "start":
            mode = message.get("mode")
            return ListenStart(_MODES.get(mode, "auto") if isinstance(mode, str) else "auto")
        case "stop":
            return ListenStop()
        case "detect":
            return Detect(_text(message, "text").strip()[:MAX_SAID])
        case other:
            return Ignored("bad_message", f"listen {other!r}"[:_DETAIL])


def _iot(message: Mapping[str, Any]) -> DeviceEvent:
    if descriptors := _objects(message, "descriptors"):
        return IotDescriptors(descriptors, update=message.get("update") is True)
    if states := _objects(message, "states"):
        return IotStates(states)
    return Ignored("bad_message", "iot without descriptors or states")


def _text(message: Mapping[str, Any], name: str) -> str:
    value = message.get(name)
    return value if isinstance(value, str) else ""


def _object(message: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = message.get(name)
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _objects(message: Mapping[str, Any], name: str) -> tuple[dict[str, Any], ...]:
    value = message.get(name)
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return tuple(cast("dict[str, Any]", each) for each in items if isinstance(each, dict))


def _number(message: Mapping[str, Any], name: str, allowed: range, default: int) -> int:
    """A whole number, which programs may write as 16000.0."""
    value = message.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value not in allowed:
        return default
    return value
