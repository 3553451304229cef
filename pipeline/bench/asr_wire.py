# pyright: strict
"""What passes between `bench asr` and the process of its peer: see `tts_engine.frames`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Said first.

    Parameters:
        model_dir: of the FunASR model.
        device: as torch names it, or auto.
        threads: of computation on the CPU.
    """

    model_dir: str
    device: str
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Audio of what is being said in a conversation: 16-bit mono at 16 kHz."""

    session: int
    payload: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The speech is over; its text is wanted."""

    id: int
    session: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The process takes orders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """What was said, in answer to `Stop`."""

    id: int
    text: str


ORDERS = (Settings, Feed, Stop)
REPORTS = (Ready, Text)
