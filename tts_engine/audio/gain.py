# pyright: strict
"""Makes speech louder or softer."""

from __future__ import annotations

import numpy as np

#: up to here samples are only multiplied, of full scale; above it they are pressed together
_KNEE = 0.8


def with_gain(pcm: bytes, factor: float) -> bytes:
    """Samples times `factor`; what would be beyond full scale is bent below it instead of cut.

    Args:
        pcm: mono int16 samples.
        factor: more than 0; 1 leaves them as they are.
    """
    if factor == 1:
        return pcm
    wave = np.frombuffer(pcm, "<i2").astype(np.float32) * (factor / 32768)
    if factor > 1:
        size = np.abs(wave)
        bent = _KNEE + (1 - _KNEE) * np.tanh((size - _KNEE) / (1 - _KNEE))
        wave = np.where(size > _KNEE, np.copysign(bent, wave), wave)
    return np.rint(wave * 32767).astype("<i2").tobytes()
