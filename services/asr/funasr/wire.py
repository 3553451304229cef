# pyright: strict
"""What the engine and its worker process tell each other, in frames of `tts_engine.frames`.

A turn has a number of its own, so has a text that is asked for; both are counted by the engine, and
no number is used twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tts_engine.frames import Failed

#: what makes partials and what makes finals: a streaming model and an offline one, or one of them
Mode = Literal["streaming+offline", "offline", "streaming"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the worker is to run; the first message that it gets.

    Parameters:
        mode: which of the models are used.
        streaming_dir, offline_dir, punctuation_dir: folders of the models; the last may be empty.
        streaming_device, offline_device: auto, cpu, cuda, cuda:1; the punctuation's is that of the
            model whose text it is for.
        streaming_dtype, offline_dtype: auto, fp32, fp16, bf16.
        threads: of computation on the CPU.
        chunk_ms, look_back: of the streaming model.
        chunks: streams in a step of it; 0 chooses by the device.
        pieces: pieces of audio in a step of the offline model; 0 chooses by the device.
        segment_s: longest piece of audio that the offline model is given.
        min_log_prob: a piece's text of a lower mean log probability is noise; None keeps all.
        max_turn_s: a longer turn keeps at least its last `max_turn_s`.
    """

    mode: Mode
    streaming_dir: str = ""
    offline_dir: str = ""
    punctuation_dir: str = ""
    streaming_device: str = "auto"
    offline_device: str = "auto"
    streaming_dtype: str = "auto"
    offline_dtype: str = "auto"
    threads: int = 1
    chunk_ms: int = 600
    look_back: int = 4
    chunks: int = 0
    pieces: int = 0
    segment_s: float = 15.0
    min_log_prob: float | None = None
    max_turn_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Audio of a turn, which begins with it if it is new.

    Parameters:
        at: position of the first sample in the turn; follows on what was fed before.
        came: when it was there, monotonic seconds, which all processes of a machine share.
        partials: the turn's text is wanted while it is spoken.
        payload: mono float32 at 16 kHz.
    """

    turn: int
    at: int
    came: float
    partials: bool
    payload: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Final:
    """Recognise a turn as far as it was fed; answered by Finished or Failed.

    Parameters:
        came: when it was asked for, monotonic seconds.
        languages: that it may be in; None means all.
        hotwords: names and terms that are likely in it.
    """

    id: int
    turn: int
    came: float
    languages: Sequence[str] | None = None
    hotwords: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Nobody waits for a final any more: nothing comes of it."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """A turn is over: nothing comes of it, nor of what is asked of it."""

    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Loaded and warm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """The text of a turn so far, and where its audio ends: samples from the start of the turn."""

    turn: int
    text: str
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A final.

    Parameters:
        words: text, and seconds from the start of the turn where it begins and ends.
        waited_s: from when it was asked for to the first step for it.
        compute_s: of the steps that it had a part in.
    """

    id: int
    text: str
    language: str = ""
    emotion: str = ""
    events: Sequence[str] = ()
    words: Sequence[tuple[str, float, float]] = ()
    log_prob: float | None = None
    waited_s: float = 0.0
    compute_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """A model has made a step.

    Parameters:
        waits: of each stream of it that had gathered its stride: how long it waited then, seconds.
        stride_s: audio that a stream gathers before it goes on.
        due: streams that could go on and were not among the step's.
    """

    waits: Sequence[float]
    stride_s: float
    due: int


Order: TypeAlias = Settings | Feed | Final | Cancel | Forget
Report: TypeAlias = Ready | Partial | Finished | Stepped | Failed

ORDERS = (Settings, Feed, Final, Cancel, Forget)
REPORTS = (Ready, Partial, Finished, Stepped)
