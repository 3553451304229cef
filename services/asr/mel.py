"""Log-mel spectrogram, as Whisper was trained on it.

Frames of 25 ms every 10 ms, Hann window, power spectrum, 80 triangular filters on Slaney's mel
scale with unit area, log10, the lowest 8 decades below the loudest bin cut off, scaled to about
[-1, 1].
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 16_000
N_FFT = 400
#: samples between frames: 10 ms
HOP = 160
N_MELS = 80
FRAMES_PER_S = SAMPLE_RATE // HOP

Mel = NDArray[np.float32]

# Slaney's scale: linear up to 1 kHz (15 mel), then 27 steps for each factor of 6.4.
_HZ_PER_MEL = 200.0 / 3.0
_KNEE_HZ = 1000.0
_KNEE_MEL = _KNEE_HZ / _HZ_PER_MEL
_LOG_STEP = np.log(6.4) / 27.0


def _mel_to_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    above = _KNEE_HZ * np.exp(_LOG_STEP * (mel - _KNEE_MEL))
    return np.where(mel < _KNEE_MEL, mel * _HZ_PER_MEL, above)


@lru_cache(maxsize=1)
def mel_filters() -> Mel:
    """The filter bank: (N_MELS, N_FFT // 2 + 1), 0 Hz to 8 kHz."""
    nyquist = SAMPLE_RATE / 2
    top = _KNEE_MEL + np.log(nyquist / _KNEE_HZ) / _LOG_STEP
    edges = _mel_to_hz(np.linspace(0.0, top, N_MELS + 2))
    bins = np.linspace(0.0, nyquist, N_FFT // 2 + 1)
    widths = np.diff(edges)[:, None]
    rising = (bins - edges[:-2, None]) / widths[:-1]
    falling = (edges[2:, None] - bins) / widths[1:]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    area = 2.0 / (edges[2:] - edges[:-2])
    return (triangles * area[:, None]).astype(np.float32)


@lru_cache(maxsize=1)
def _window() -> NDArray[np.float32]:
    # Periodic, not symmetric: numpy's own hanning() is symmetric.
    return (0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(N_FFT) / N_FFT)).astype(np.float32)


def log_mel(samples: NDArray[np.float32], *, frames: int) -> Mel:
    """The spectrogram of `samples` followed by silence up to `frames`.

    Args:
        samples: mono float32 in [-1, 1] at 16 kHz.
        frames: length of the result; samples beyond it are not used.

    Returns:
        (N_MELS, frames) float32, contiguous.
    """
    used = samples[: frames * HOP]
    # Only frames that touch a sample are computed: the rest are digital silence.
    voiced = min(frames, -(-(used.size + N_FFT // 2) // HOP))
    padded = np.zeros(max(voiced - 1, 0) * HOP + N_FFT, dtype=np.float32)
    half = N_FFT // 2
    padded[half : half + used.size] = used[: padded.size - half]
    # Reflected at the start only; at the end follows silence.
    head = used[1 : half + 1][::-1]
    padded[half - head.size : half] = head

    framed = np.lib.stride_tricks.sliding_window_view(padded, N_FFT)[::HOP][:voiced]
    spectrum = np.fft.rfft(framed * _window(), axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    mel = np.log10(np.maximum(power @ mel_filters().T, 1e-10))
    out = np.full((N_MELS, frames), -10.0, dtype=np.float32)
    out[:, :voiced] = mel.T
    np.maximum(out, out.max() - 8.0, out=out)
    out += 4.0
    out /= 4.0
    return out
