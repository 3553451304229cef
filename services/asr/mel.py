"""Log-mel spectrogram, as Whisper was trained on it.

Frames of 25 ms every 10 ms, Hann window, power spectrum, 80 triangular filters of unit area on
Slaney's mel scale, log10, everything 8 decades below the loudest bin cut off, (x + 4) / 4.
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
    """The filter bank from 0 Hz to 8 kHz: (N_MELS, N_FFT // 2 + 1)."""
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
    # Periodic; numpy's own hanning() is symmetric.
    return (0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(N_FFT) / N_FFT)).astype(np.float32)


def log_mel(samples: NDArray[np.float32]) -> Mel:
    """The spectrogram of `samples`, reflected at both ends.

    Args:
        samples: mono float32 in [-1, 1] at 16 kHz, at least N_FFT long.

    Returns:
        (N_MELS, len(samples) // HOP) float32.
    """
    padded = np.pad(samples, N_FFT // 2, mode="reflect")
    framed = np.lib.stride_tricks.sliding_window_view(padded, N_FFT)[::HOP][: samples.size // HOP]
    spectrum = np.fft.rfft(framed * _window(), axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    mel = np.log10(np.maximum(power @ mel_filters().T, 1e-10)).T
    return ((np.maximum(mel, mel.max() - 8.0) + 4.0) / 4.0).astype(np.float32)


def encoder_input(mel: Mel, *, frames: int, loudest: float, padding: float) -> Mel:
    """Moves a spectrogram to a fixed level and pads it to the encoder's window.

    A change of level is a shift in log space, so speech from a distant microphone and from a near
    one look alike to the encoder, and so does the padding beside them.

    Args:
        mel: (N_MELS, any) from `log_mel`; what is longer than `frames` is cut.
        frames: length of the result.
        loudest: value of the loudest bin of the result.
        padding: value of the frames after the audio.

    Returns:
        (N_MELS, frames) float32, contiguous.
    """
    out = np.full((mel.shape[0], frames), padding, dtype=np.float32)
    used = mel[:, :frames]
    out[:, : used.shape[1]] = used + (loudest - mel.max())
    return out
