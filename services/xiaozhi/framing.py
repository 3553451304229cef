# pyright: strict
"""Audio in binary WebSocket messages, in the three framings of the firmware.

    version 1   the packet alone
    version 2   u16 version = 2 | u16 type | u32 reserved | u32 timestamp, ms | u32 size | packet
    version 3   u8 type | u8 reserved | u16 size | packet

Numbers are big-endian; type 0 is audio. A device believes every size it is told, so whatever is
sent must be right; what it sends is checked, and a wrong message is dropped, never answered.
"""

from __future__ import annotations

import struct

from services.xiaozhi.events import Audio, Ignored

#: longest message that is taken, bytes: an Opus packet has 1275 at most, 60 ms of PCM 1920
MAX_MESSAGE = 4096

_V2 = struct.Struct(">HHIII")
_V3 = struct.Struct(">BBH")
_AUDIO = 0


def unpack(message: bytes, version: int) -> Audio | Ignored:
    """Reads a message of the device's.

    Args:
        message: anything.
        version: 1, 2 or 3.
    """
    if len(message) > MAX_MESSAGE:
        return Ignored("too_large", f"{len(message)} bytes")
    match version:
        case 2:
            return _unpack_v2(message)
        case 3:
            return _unpack_v3(message)
        case _:
            return Audio(message)


def pack(packet: bytes, version: int, *, timestamp_ms: int = 0) -> bytes:
    """Writes a message for the device.

    Args:
        packet: at most 65 535 bytes.
        version: 1, 2 or 3.
        timestamp_ms: names the frame; framing 2 only, which has room for its lower 32 bits.
    """
    match version:
        case 2:
            return _V2.pack(2, _AUDIO, 0, timestamp_ms & 0xFFFFFFFF, len(packet)) + packet
        case 3:
            return _V3.pack(_AUDIO, 0, len(packet)) + packet
        case _:
            return packet


def _unpack_v2(message: bytes) -> Audio | Ignored:
    if len(message) < _V2.size:
        return Ignored("short_frame", f"{len(message)} bytes")
    version, kind, _, timestamp_ms, size = _V2.unpack_from(message)
    if version != 2:
        return Ignored("bad_version", str(version))
    return _checked(message[_V2.size :], kind=kind, size=size, timestamp_ms=timestamp_ms)


def _unpack_v3(message: bytes) -> Audio | Ignored:
    if len(message) < _V3.size:
        return Ignored("short_frame", f"{len(message)} bytes")
    kind, _, size = _V3.unpack_from(message)
    return _checked(message[_V3.size :], kind=kind, size=size)


def _checked(packet: bytes, *, kind: int, size: int, timestamp_ms: int = 0) -> Audio | Ignored:
    if kind != _AUDIO:
        return Ignored("bad_type", str(kind))
    if size != len(packet):
        return Ignored("bad_size", f"{size} for {len(packet)} bytes")
    return Audio(packet, timestamp_ms)
