"""At most 20 ms of silence before the first sound, whatever the chunks; nothing else is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tts_engine.cosyvoice.trim import LeadingSilence, Samples
from tts_engine.kokoro.trim import FADE, LEAD

RATE = 24_000


def utterance(silence: int, sound: int, seed: int = 0) -> Samples:
    """A hum after a silence that hisses."""
    hiss = np.random.default_rng(seed).standard_normal(silence + sound) * 1e-4
    hiss[silence:] += 0.3 * np.sin(2 * np.pi * 220 * np.arange(1, sound + 1) / RATE)
    return hiss.astype(np.float32)


def trimmed(
    samples: Samples, sizes: list[int], limit_s: float = 1.0
) -> tuple[LeadingSilence, Samples]:
    trim, parts = LeadingSilence(limit_s=limit_s), []
    for size in sizes:
        parts.append(trim.push(samples[:size]))
        samples = samples[size:]
    return trim, np.concatenate([*parts, trim.push(samples, final=True)])


@pytest.mark.parametrize("silence", [0, 100, 240, 1800, 12_000])
def test_silence_before_speech(silence: int) -> None:
    samples = utterance(silence, 6000)
    trim, heard = trimmed(samples, [4800])
    assert trim.dropped + len(heard) == len(samples)
    assert np.flatnonzero(np.abs(heard) > 0.05)[0] < 0.02 * RATE
    assert np.array_equal(heard[FADE:], samples[trim.dropped + FADE :])
    assert heard[0] == 0
    assert np.abs(np.diff(heard)).max() < 0.03


@given(
    silence=st.integers(0, 6000),
    sound=st.integers(0, 4000),
    sizes=st.lists(st.integers(0, 3000), max_size=8),
    limit_s=st.sampled_from([0.0, 0.1, 1.0]),
)
@settings(deadline=None)
def test_chunks_do_not_matter(silence: int, sound: int, sizes: list[int], limit_s: float) -> None:
    samples = utterance(silence, sound)
    once, heard = trimmed(samples, [], limit_s)
    trim, parts = trimmed(samples, sizes, limit_s)
    assert trim.dropped == once.dropped
    assert np.array_equal(parts, heard)


def test_speech_is_heard_at_once() -> None:
    trim = LeadingSilence()
    samples = utterance(2400, 2400)
    assert len(trim.push(samples[:2400])) == 0
    assert len(trim.push(samples[2400:3120])) == LEAD + 720
    assert np.array_equal(trim.push(samples[3120:]), samples[3120:])


def test_a_long_silence_was_meant() -> None:
    samples = utterance(3 * RATE, 2400)
    trim, heard = trimmed(samples, [4800] * 10, limit_s=0.5)
    assert trim.dropped == RATE // 2
    assert len(heard) == len(samples) - RATE // 2


def test_nothing_sounds() -> None:
    samples = utterance(9600, 0)
    trim, heard = trimmed(samples, [4800])
    assert trim.dropped + len(heard) == len(samples)
    assert len(heard) <= 0.06 * RATE


def test_nothing_at_all() -> None:
    assert len(trimmed(np.zeros(0, np.float32), [0, 0])[1]) == 0


def test_a_crackle_is_no_speech() -> None:
    samples = np.zeros(RATE // 2, np.float32)
    samples[1000:1100] = 0.5
    assert trimmed(samples, [2000])[0].dropped > 1100
