# pyright: strict
"""What the engine and its worker process tell each other, and how it goes through a pipe.

        frame = length of the header, length of the payload (32 bits each), header, payload

The header is JSON: the name of the message and its fields, without `payload`, which is bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from tts_engine.errors import DuplexdError, EngineFailed

_LENGTHS = struct.Struct(">II")
#: `id` of a failure that is of no request: the worker cannot start
NOBODY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the worker is to run; the first message that it gets.

    Parameters:
        model_dir, home, voices_dir: folders; home is empty for the installed modules.
        device, dtype: as for `loader.load`; auto is a GPU where there is one, and what suits it.
        threads: of computation on the CPU.
        steps, cache: of the flow.
        requests: utterances made at a time.
        flow_rows: blocks of mel computed in one step; 0 chooses by the device.
        live_s: seconds of speech over all utterances being made; 0 chooses by the device's memory.
        longest_s: where an utterance is cut off, seconds.
        voices: voices that are kept ready.
        tensorrt: what computes the flow's estimator: off, estimator or block.
        engines_dir: folder of TensorRT's engines.
    """

    model_dir: str
    voices_dir: str
    home: str = ""
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 1
    steps: int = 10
    cache: str = "kv"
    requests: int = 8
    flow_rows: int = 0
    live_s: float = 0.0
    longest_s: float = 40.0
    voices: int = 4
    tensorrt: str = "off"
    engines_dir: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speak:
    """Make an utterance; answered by Started, Audio..., and Done or Failed.

    Parameters:
        seed: of the sampling: the same order with the same seed gives the same audio.
    """

    id: int
    text: str
    voice: str
    speed: float = 1.0
    style: str = ""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Drop an utterance; nothing more comes of it."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """Make a voice of a recording, an audio file in `payload`; answered by Registered or Failed."""

    id: int
    name: str
    text: str
    language: str = ""
    consent: str = ""
    payload: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Forget a voice; answered by Removed or Failed."""

    id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Loaded and warm.

    Parameters:
        kind: of the model; voices of another kind cannot be spoken with.
    """

    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """An utterance has a place, after so many seconds."""

    id: int
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """A piece of an utterance: 16-bit samples, and marks as (sample, chars)."""

    id: int
    marks: list[tuple[int, int]]
    payload: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The end of an utterance.

    Parameters:
        tokens: speech tokens that were decoded for it.
        decode_steps: steps of the decoder since the worker's start, of all utterances together.
        decoded: tokens since then.
    """

    id: int
    tokens: int
    decode_steps: int
    decoded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A failure, by the `code` of its class."""

    id: int
    code: str
    message: str
    mend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A voice is there and ready."""

    id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A voice is gone."""

    id: int
    name: str


Order: TypeAlias = Settings | Speak | Cancel | Register | Remove
Report: TypeAlias = Ready | Started | Audio | Done | Failed | Registered | Removed
Message: TypeAlias = Order | Report

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(Settings, Speak, Cancel, Register, Remove),
        *(Ready, Started, Audio, Done, Failed, Registered, Removed),
    )
}


def encode(message: Message) -> bytes:
    """A message as a frame."""
    fields = asdict(message)
    payload: bytes = fields.pop("payload", b"")
    header = json.dumps([type(message).__name__, fields], ensure_ascii=False).encode()
    return _LENGTHS.pack(len(header), len(payload)) + header + payload


class Frames:
    """Takes bytes as they come, gives the messages that are complete."""

    def __init__(self) -> None:
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
            yield _KINDS[kind](**fields)


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
