# pyright: strict
"""What the cheap client of `bench sessions` puts on the wire, and reads off it. Pure.

Messages are made once, before anything is measured, as bytes that are ready for the socket. The
masking key is 0, which masks nothing and is as good as any to a server. What comes is cut into
messages, of which nothing is looked at but how much audio they hold.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Sequence

#: bytes of a millisecond of an answer: 24 kHz, two bytes a sample
_BYTES_PER_MS = 48

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
_FINAL, _MASKED = 0x80, 0x80
_SHORT, _MEDIUM = 126, 127
_NO_MASK = bytes(4)
#: longest answer to the handshake that is waited for, bytes
_LONGEST_HEAD = 65_536


class WireError(Exception):
    """The peer does not speak as it should."""


def message(content: str | bytes) -> bytes:
    """A whole message of a client's, text or binary."""
    if isinstance(content, str):
        return client_frame(TEXT, content.encode())
    return client_frame(BINARY, content)


def realtime_audio_ms(payload: bytes) -> float:
    """Length of the audio in a message of the Realtime protocol; 0 for every other message."""
    if not payload.startswith(b'{"type":"response.output_audio.delta"'):
        return 0.0
    start = payload.index(b'"delta":"') + len(b'"delta":"')
    # four characters stand for three bytes
    return (payload.index(b'"', start) - start) * 3 / 4 / _BYTES_PER_MS


def handshake(*, host: str, path: str, headers: Sequence[tuple[str, str]] = ()) -> bytes:
    """The request that opens a WebSocket."""
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return "\r\n".join((*lines, "", "")).encode("ascii")


def client_frame(opcode: int, payload: bytes) -> bytes:
    """A whole message as a client sends it."""
    size = len(payload)
    if size < _SHORT:
        head = struct.pack("!BB", _FINAL | opcode, _MASKED | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", _FINAL | opcode, _MASKED | _SHORT, size)
    else:
        head = struct.pack("!BBQ", _FINAL | opcode, _MASKED | _MEDIUM, size)
    return head + _NO_MASK + payload


class ServerStream:
    """Cuts what a server sends into messages, the answer to the handshake taken off.

    Messages in several frames are refused: no server that is measured here sends any.
    """

    def __init__(self) -> None:
        self._rest = b""
        #: the handshake was accepted
        self.open = False

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Takes bytes off the socket.

        Yields:
            Opcode and payload of each message that is whole.

        Raises:
            WireError: the handshake was refused, or a message comes in pieces.
        """
        data = self._rest + data if self._rest else data
        at = 0
        if not self.open:
            at = self._take_head(data)
        while self.open and (found := _message(data, at)) is not None:
            opcode, start, at = found
            yield opcode, data[start:at]
        self._rest = data[at:]

    def _take_head(self, data: bytes) -> int:
        """Where the first message starts, once the answer to the handshake is whole."""
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if len(data) > _LONGEST_HEAD:
                raise WireError("no answer to the handshake")
            return 0
        status = data[: data.index(b"\r\n")]
        if b" 101 " not in status + b" ":
            raise WireError(f"refused: {status.decode('latin-1')}")
        self.open = True
        return end + 4


def _message(data: bytes, at: int) -> tuple[int, int, int] | None:
    """Opcode of the message at `at`, where its payload starts and where it ends, if it is whole."""
    if len(data) - at < 2:
        return None
    first, size = data[at], data[at + 1]
    if not first & _FINAL:
        raise WireError("a message in several frames")
    start = at + 2
    if size >= _SHORT:
        width = 2 if size == _SHORT else 8
        if len(data) - start < width:
            return None
        size = int.from_bytes(data[start : start + width], "big")
        start += width
    return (first & 0x0F, start, start + size) if len(data) - start >= size else None
