# pyright: strict
"""How messages go through a pipe between us and a process of ours, and how failures are told.

        frame = length of the header, length of the payload (32 bits each), header, payload

The header is JSON: the name of the message's class and its fields, without `payload`, which is
bytes. A message is a dataclass.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tts_engine.errors import DuplexdError, EngineFailed

_LENGTHS = struct.Struct(">II")
#: `id` of a failure that is of no request: the process cannot start
NOBODY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A failure, by the `code` of its class."""

    id: int
    code: str
    message: str
    mend: str = ""


def encode(message: Any) -> bytes:
    """A message as a frame."""
    fields = asdict(message)
    payload: bytes = fields.pop("payload", b"")
    header = json.dumps([type(message).__name__, fields], ensure_ascii=False).encode()
    return _LENGTHS.pack(len(header), len(payload)) + header + payload


class Frames:
    """Takes bytes as they come, gives the messages that are complete.

    Parameters:
        kinds: the messages that may come; `Failed` may, too.
    """

    def __init__(self, kinds: Iterable[type[Any]]) -> None:
        self._kinds: dict[str, type[Any]] = {kind.__name__: kind for kind in (*kinds, Failed)}
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """The messages that end within `data`; exhaust it before the next call."""
        self._rest += data
        while len(self._rest) >= _LENGTHS.size:
            header, payload = _LENGTHS.unpack_from(self._rest)
            start, end = _LENGTHS.size + header, _LENGTHS.size + header + payload
            if len(self._rest) < end:
                return
            kind, fields = json.loads(self._rest[_LENGTHS.size : start])
            if payload:
                fields["payload"] = bytes(self._rest[start:end])
            del self._rest[:end]
            yield self._kinds[kind](**fields)


def failed(id: int, error: DuplexdError) -> Failed:
    """An expected failure as a message."""
    return Failed(id=id, code=error.code, message=error.message, mend=error.mend)


def error_of(message: Failed) -> DuplexdError:
    """The failure that a message tells of."""
    # Only those that both ends know: others have the code of the class that they refine.
    kinds = {
        kind.code: kind
        for kind in _expected(DuplexdError)
        if kind.__module__ == DuplexdError.__module__
    }
    return kinds.get(message.code, EngineFailed)(message.message, mend=message.mend)


def _expected(kind: type[DuplexdError]) -> Iterator[type[DuplexdError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _expected(each)
