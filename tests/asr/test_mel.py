"""The spectrogram is Whisper's own, by an independent formula; level and padding are fixed."""

from __future__ import annotations

import numpy as np
import pytest

from services.asr.mel import HOP, N_FFT, N_MELS, encoder_input, log_mel, mel_filters

from .fakes import noise


def hz_to_mel(hz: float) -> float:
    return hz * 3 / 200 if hz < 1000 else 15 + 27 * np.log(hz / 1000) / np.log(6.4)


def mel_to_hz(mel: float) -> float:
    return mel * 200 / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)


def plain_filters() -> np.ndarray:
    """Triangle by triangle, bin by bin, in float64."""
    edges = [mel_to_hz(hz_to_mel(8000) * i / 81) for i in range(82)]
    bank = np.zeros((80, 201))
    for m in range(80):
        low, top, high = edges[m : m + 3]
        for k in range(201):
            hz = k * 40.0
            if low < hz <= top:
                bank[m, k] = (hz - low) / (top - low)
            elif top < hz < high:
                bank[m, k] = (high - hz) / (high - top)
        bank[m] *= 2 / (high - low)
    return bank


def plain_log_mel(samples: np.ndarray) -> np.ndarray:
    """Frame by frame with an explicit Fourier sum, in float64."""
    x = np.concatenate([samples[200:0:-1], samples, samples[-2:-202:-1]]).astype(np.float64)
    n = np.arange(400)
    window = np.sin(np.pi * n / 400) ** 2
    fourier = np.exp(-2j * np.pi * np.outer(np.arange(201), n) / 400)
    frames = [x[i * 160 : i * 160 + 400] * window for i in range(samples.size // 160)]
    power = np.abs(fourier @ np.array(frames).T) ** 2
    log = np.log10(np.maximum(plain_filters() @ power, 1e-10))
    return (np.maximum(log, log.max() - 8) + 4) / 4


def test_filters_equal_the_formula() -> None:
    assert mel_filters().shape == (N_MELS, N_FFT // 2 + 1)
    np.testing.assert_allclose(mel_filters(), plain_filters(), atol=1e-7)


@pytest.mark.parametrize("size", [N_FFT, 5 * HOP + 7, 16_000])
def test_spectrogram_equals_the_formula(size: int) -> None:
    t = np.arange(size) / 16_000
    samples = (noise(2)[:size] * 0.1 + 0.3 * np.sin(2 * np.pi * 700 * t)).astype(np.float32)
    mel = log_mel(samples)
    assert mel.shape == (N_MELS, size // HOP)
    assert mel.dtype == np.float32
    np.testing.assert_allclose(mel, plain_log_mel(samples), atol=2e-4)


def test_a_tone_is_loudest_in_its_own_band() -> None:
    tone = np.sin(2 * np.pi * 1000 * np.arange(16_000) / 16_000).astype(np.float32)
    band = int(log_mel(tone).mean(axis=1).argmax())
    edges = [mel_to_hz(hz_to_mel(8000) * i / 81) for i in range(82)]
    assert edges[band] < 1000 < edges[band + 2]


def test_digital_silence_is_finite() -> None:
    mel = log_mel(np.zeros(1600, dtype=np.float32))
    np.testing.assert_allclose(mel, -1.5, atol=1e-6)


def test_input_of_the_encoder_does_not_depend_on_the_level() -> None:
    samples = noise(1)
    near, far = (
        encoder_input(log_mel(samples * gain), frames=300, loudest=1.2, padding=-0.2)
        for gain in (np.float32(1.0), np.float32(0.01))
    )
    np.testing.assert_allclose(near, far, atol=1e-4)
    assert near.max() == pytest.approx(1.2)
    assert near.flags.c_contiguous
    np.testing.assert_array_equal(near[:, 100:], np.float32(-0.2))


def test_input_of_the_encoder_cuts_what_is_too_long() -> None:
    assert encoder_input(log_mel(noise(1)), frames=40, loudest=1, padding=0).shape == (80, 40)
