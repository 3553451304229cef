# pyright: strict
"""What the engine and its worker process tell each other, in frames of `tts_engine.frames`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tts_engine.frames import Failed

#: how the language model's weights are kept
Quantize = Literal["none", "int8", "int4"]


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
        quantize: of the language model's weights: none, int8 or int4.
        compile: decoding and the flow's block are compiled.
        cuda_graphs: and recorded.
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
    quantize: Quantize = "none"
    compile: bool = False
    cuda_graphs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Speak:
    """Make an utterance; answered by Started, Audio..., and Done or Failed.

    Parameters:
        seed: of the sampling: the same order with the same seed gives the same audio.
        more: the text is not whole: `More` brings the rest.
        carry: tell what was said, so that another utterance can carry on from it.
        before_text, before_tokens: said just before, in this voice and style; no tokens: nothing.
    """

    id: int
    text: str
    voice: str
    speed: float = 1.0
    style: str = ""
    seed: int = 0
    more: bool = False
    carry: bool = False
    before_text: str = ""
    before_tokens: list[int] = field(default_factory=list[int])


@dataclass(frozen=True, slots=True, kw_only=True)
class More:
    """More of an utterance's text.

    Parameters:
        last: it is whole now.
    """

    id: int
    text: str
    last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Drop an utterance or a registration: nothing more comes of it, and no voice is kept."""

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
        said: the speech, where it was asked for and can be carried on from.
    """

    id: int
    tokens: int
    decode_steps: int
    decoded: int
    said: list[int] = field(default_factory=list[int])


@dataclass(frozen=True, slots=True)
class Decoding:
    """What the worker's decoder has done since it started.

    Parameters:
        steps: passes of the language model.
        tokens: speech tokens that they gave.
    """

    steps: int = 0
    tokens: int = 0


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


Order: TypeAlias = Settings | Speak | More | Cancel | Register | Remove
Report: TypeAlias = Ready | Started | Audio | Done | Failed | Registered | Removed
Message: TypeAlias = Order | Report

ORDERS = (Settings, Speak, More, Cancel, Register, Remove)
REPORTS = (Ready, Started, Audio, Done, Registered, Removed)
