"""Cuts the silence around speech, fades the cuts, makes 16-bit samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]

SAMPLE_RATE = 24_000
#: Speech is three frames of 10 ms in a row above -45 dBFS: the rule by which latency is measured.
_FRAME = SAMPLE_RATE // 100
_LOUD = 10 ** (-45 / 10)
_RUN = 3
#: Silence kept before speech: soft onsets are not cut, and it stays below 20 ms.
LEAD = _FRAME
#: Fades at both ends, so that a cut does not click: 5 ms.
FADE = SAMPLE_RATE // 200
#: Pause behind a clause by the mark that ends it, samples.
_PAUSES = {
    **dict.fromkeys(",;:—…", SAMPLE_RATE * 80 // 1000),
    **dict.fromkeys(".!?", SAMPLE_RATE * 250 // 1000),
}
#: Pause where nothing ends: the next clause goes on at once.
_NO_PAUSE = SAMPLE_RATE * 40 // 1000


def sounding(samples: Samples) -> tuple[int, int]:
    """The span of speech: from its first sounding frame to the end of its last one.

    Returns:
        Start and stop; equal where nothing sounds.
    """
    count = len(samples) // _FRAME
    frames = samples[: count * _FRAME].reshape(count, _FRAME)
    loud = np.einsum("ij,ij->i", frames, frames) > _LOUD * _FRAME
    if count < _RUN:
        return 0, 0
    runs = np.flatnonzero(np.convolve(loud, np.ones(_RUN, np.int8), "valid") == _RUN)
    if not len(runs):
        return 0, 0
    return int(runs[0]) * _FRAME, (int(runs[-1]) + _RUN) * _FRAME


def pause_after(symbols: str) -> int:
    """Samples of silence that the end of a clause asks for."""
    for symbol in reversed(symbols):
        if symbol in _PAUSES:
            return _PAUSES[symbol]
        if symbol not in ' )”"':
            break
    return _NO_PAUSE


def shape(samples: Samples, start: int, stop: int, pause: int) -> NDArray[np.int16]:
    """Speech with 10 ms before it and a pause behind it, faded and as 16-bit integers.

    The pause holds what the model made of it, the decay of the last sound, then silence.

    Args:
        samples: mono float in [-1, 1].
        start, stop: where speech starts and stops.
        pause: samples behind `stop`.
    """
    begin = max(0, start - LEAD)
    voiced = samples[begin : stop + pause].copy()
    fade = np.linspace(0.0, 1.0, min(FADE, len(voiced)), dtype=np.float32)
    voiced[: len(fade)] *= fade
    voiced[len(voiced) - len(fade) :] *= fade[::-1]
    result = np.zeros(stop + pause - begin, np.int16)
    result[: len(voiced)] = np.clip(voiced * 32768.0, -32768.0, 32767.0)
    return result
