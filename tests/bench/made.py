"""Test speech without a voice: tones whose every border is known."""

from __future__ import annotations

import numpy as np

from pipeline.bench.speech import Clip
from services.scripted.speech import synthetic_speech


def clip(text: str, *, seconds: float = 0.8, pause: tuple[float, float] | None = None) -> Clip:
    """A clip in which the characters of `text` are spoken evenly.

    Args:
        text: what is said.
        seconds: from the first voiced sample to the last.
        pause: (at, length) inside it, seconds.
    """
    samples = synthetic_speech(
        seconds=seconds, pauses=[pause] if pause else (), lead_s=0.05, tail_s=0.1
    )
    ends = 0.05 + np.linspace(0, seconds, len(text) + 1)[1:]
    return Clip(
        name=text,
        text=text,
        samples=samples,
        start=0.05,
        end=0.05 + seconds,
        kind="paused" if pause else "command",
        ends=tuple(int(each * 16_000) for each in ends),
    )
