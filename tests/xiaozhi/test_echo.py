"""Invariants: the echo of what was sent is taken away, and what somebody says is kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.scripted.speech import synthetic_speech
from services.xiaozhi.echo import EchoReference

FRAME, DOWN = 960, 1440


def level(samples: NDArray[np.int16]) -> float:
    return 10 * float(np.log10(np.mean(samples.astype(float) ** 2) + 1))


def noise(seconds: float, seed: int) -> NDArray[np.int16]:
    """Something like speech: noise whose loudness comes and goes."""
    dice = np.random.default_rng(seed)
    count = round(24_000 * seconds)
    loudness = 0.2 + 0.8 * np.abs(np.sin(np.arange(count) / 24_000 * 2 * np.pi * 2.2))
    return (dice.standard_normal(count) * 3000 * loudness).astype(np.int16)


def test_an_echo_is_cancelled_and_speech_is_kept() -> None:
    sent = noise(12.0, 1)
    frames = sent[: len(sent) // DOWN * DOWN].reshape(-1, DOWN)
    reference = EchoReference()
    played = np.concatenate([frame[::3].repeat(2)[:FRAME] for frame in frames])  # 16 kHz, roughly
    echo = np.convolve(np.pad(played, (160, 0)), [0.5, 0.2, -0.1])[: len(played)]
    voice = synthetic_speech(seconds=1.5, rate=16_000, level_dbfs=-20)
    near = echo.copy()
    at = len(near) - len(voice) - FRAME
    near[at : at + len(voice)] += voice
    cleaned = []
    for number, frame in enumerate(frames):
        stamp = (number + 1) * 60
        reference.played(stamp, frame.tobytes())
        heard = near[number * FRAME : (number + 1) * FRAME].astype(np.int16)
        cleaned.append(np.frombuffer(reference.cancel(heard.tobytes(), timestamp_ms=stamp), "<i2"))
        assert len(cleaned[-1]) == FRAME
    out = np.concatenate(cleaned)
    alone = slice(6 * 16_000, 10 * 16_000)
    assert level(echo[alone]) - level(out[alone]) > 15
    spoken = slice(at, at + len(voice))
    assert level(voice) - level(out[spoken]) < 6


def test_nothing_is_played() -> None:
    reference = EchoReference()
    voice = synthetic_speech(seconds=1.0, rate=16_000)
    for timestamp in (0, 12_345):
        out = reference.cancel(voice[:1000].tobytes(), timestamp_ms=timestamp)
        assert len(out) == 2000


def test_memory_is_bounded() -> None:
    reference = EchoReference()
    for number in range(1000):
        reference.played(number, bytes(2880))
    assert len(reference._sent) <= 64
