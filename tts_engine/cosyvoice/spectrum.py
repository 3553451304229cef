"""The two spectrograms of a reference: what the models were trained on, in numpy.

`log_mel` is Whisper's with 128 bands: what the speech tokenizer reads. `mel` is the vocoder's: what
the flow continues. Both were compared with the originals: they differ by float32 rounding.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
Frames = NDArray[np.float32]

TOKEN_SAMPLE_RATE = 16_000
#: samples between the tokenizer's frames (10 ms), and of its window
_TOKEN_HOP, _TOKEN_FFT = 160, 400
_TOKEN_BANDS = 128

MEL_SAMPLE_RATE = 24_000
#: samples between mel frames (20 ms)
MEL_HOP = 480
_MEL_FFT = 1920
MEL_BANDS = 80

# Slaney's scale: linear up to 1 kHz (15 mel), then 27 steps for each factor of 6.4.
_HZ_PER_MEL = 200.0 / 3.0
_KNEE_HZ = 1000.0
_KNEE_MEL = _KNEE_HZ / _HZ_PER_MEL
_LOG_STEP = np.log(6.4) / 27.0


def _to_mel(hz: float) -> float:
    return hz / _HZ_PER_MEL if hz < _KNEE_HZ else _KNEE_MEL + np.log(hz / _KNEE_HZ) / _LOG_STEP


def _to_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    above = _KNEE_HZ * np.exp(_LOG_STEP * (mel - _KNEE_MEL))
    return np.where(mel < _KNEE_MEL, mel * _HZ_PER_MEL, above)


@lru_cache(maxsize=4)
def _filters(rate: int, size: int, bands: int, top_hz: float) -> NDArray[np.float64]:
    """Triangles of unit area from 0 Hz to `top_hz`: [bands, size // 2 + 1]."""
    edges = _to_hz(np.linspace(0.0, _to_mel(top_hz), bands + 2))
    bins = np.linspace(0.0, rate / 2, size // 2 + 1)
    widths = np.diff(edges)[:, None]
    rising = (bins - edges[:-2, None]) / widths[:-1]
    falling = (edges[2:, None] - bins) / widths[1:]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    return triangles * (2.0 / (edges[2:] - edges[:-2]))[:, None]


def _power(padded: Samples, size: int, hop: int, frames: int) -> NDArray[np.float64]:
    """Power spectra of the windows that begin every `hop` samples: [frames, size // 2 + 1]."""
    # Periodic; numpy's own hanning() is symmetric.
    window = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(size) / size)
    windows = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop][:frames]
    spectrum = np.fft.rfft(windows * window, axis=1)
    return spectrum.real**2 + spectrum.imag**2


def log_mel(samples: Samples) -> Frames:
    """The tokenizer's view of a recording.

    Frames of 25 ms every 10 ms, log10 of the power in each band, all that is 8 decades below the
    loudest cut off, (x + 4) / 4.

    Args:
        samples: mono at TOKEN_SAMPLE_RATE in [-1, 1], longer than half a frame.

    Returns:
        [128, len(samples) // 160].
    """
    padded = np.pad(samples, _TOKEN_FFT // 2, mode="reflect")
    power = _power(padded, _TOKEN_FFT, _TOKEN_HOP, samples.size // _TOKEN_HOP)
    filters = _filters(TOKEN_SAMPLE_RATE, _TOKEN_FFT, _TOKEN_BANDS, TOKEN_SAMPLE_RATE / 2)
    decades = np.log10(np.maximum(filters @ power.T, 1e-10))
    return ((np.maximum(decades, decades.max() - 8.0) + 4.0) / 4.0).astype(np.float32)


def mel(samples: Samples, *, top_hz: float) -> Frames:
    """The flow's view of a recording.

    Frames of 80 ms every 20 ms, natural logarithm of the magnitude in each band, at least 1e-5.

    Args:
        samples: mono at MEL_SAMPLE_RATE in [-1, 1], longer than a frame.
        top_hz: upper edge of the highest band.

    Returns:
        [len(samples) // 480, 80].
    """
    padded = np.pad(samples, (_MEL_FFT - MEL_HOP) // 2, mode="reflect")
    power = _power(padded, _MEL_FFT, MEL_HOP, samples.size // MEL_HOP)
    filters = _filters(MEL_SAMPLE_RATE, _MEL_FFT, MEL_BANDS, top_hz)
    magnitudes = np.sqrt(power + 1e-9) @ filters.T
    return np.log(np.maximum(magnitudes, 1e-5)).astype(np.float32)
