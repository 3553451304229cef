"""Invariants: frames are the audio that came, whole, without a gap or a repeat, however it was cut;
the first sound is found wherever it lies.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.framing import Framer, SoundFinder
from pipeline.latency import first_sound


def pieces(pcm: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(2 * cut for cut in cuts if 2 * cut <= len(pcm)), len(pcm)]
    return [pcm[a:b] for a, b in itertools.pairwise(bounds)]


@given(st.integers(0, 3000), st.lists(st.integers(0, 3000), max_size=8))
def test_frames_are_the_audio_that_came(samples: int, cuts: list[int]) -> None:
    pcm = np.arange(samples, dtype=np.int16).tobytes()
    framer, frames = Framer(rate=8000, frame_ms=20), list[bytes]()
    for piece in pieces(pcm, cuts):
        framer.push(piece, 8000)
        while (frame := framer.take()) is not None:
            frames.append(frame)
    framer.finish()
    assert all(len(frame) == 320 for frame in frames)
    assert framer.rest == (len(pcm) % 320 > 0)
    rest = framer.take_rest()
    assert len(rest) < 320
    assert b"".join(frames) + rest == pcm
    assert not framer.rest


@settings(deadline=None)
@given(st.lists(st.integers(0, 24_000), max_size=6))
def test_another_rate_is_resampled_as_one_stream(cuts: list[int]) -> None:
    wave = (8000 * np.sin(np.arange(24_000) * 0.05)).astype(np.int16)
    framer, got = Framer(rate=16_000, frame_ms=60), b""
    for piece in pieces(wave.tobytes(), cuts):
        framer.push(piece, 24_000)
        while (frame := framer.take()) is not None:
            got += frame
    framer.finish()
    got += framer.take_rest()
    expected = soxr.resample(wave, 24_000, 16_000, quality="LQ")
    samples = np.frombuffer(got, np.int16)
    assert abs(len(samples) - 16_000) <= 1
    size = min(len(samples), len(expected))
    assert np.abs(samples[:size].astype(int) - expected[:size].astype(int)).max() <= 3


def test_little_is_held_back_by_resampling() -> None:
    framer = Framer(rate=16_000, frame_ms=20)
    framer.push(bytes(2 * 24_00), 24_000)  # 100 ms
    frames = 0
    while framer.take() is not None:
        frames += 1
    assert frames >= 4


@settings(deadline=None)
@given(
    st.integers(0, 20_000), st.integers(200, 3000), st.lists(st.integers(1, 26_000), max_size=30)
)
def test_the_first_sound_is_found_however_the_audio_is_cut(
    quiet: int, length: int, cuts: list[int]
) -> None:
    rate = 16_000
    samples = np.zeros(24_000, np.int16)
    samples[quiet : quiet + length] = 3000
    finder = SoundFinder()
    for piece in pieces(samples.tobytes(), cuts):
        finder.push(piece, rate)
    expected = first_sound(samples, rate)
    assert finder.found_ms == (None if expected is None else pytest.approx(expected / 16))


def test_the_first_sound_is_the_first() -> None:
    finder = SoundFinder()
    finder.push(np.full(1600, 3000, np.int16).tobytes(), 16_000)
    finder.push(np.full(1600, 9000, np.int16).tobytes(), 16_000)
    assert finder.found_ms == 0
