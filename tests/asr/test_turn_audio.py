"""What was fed is what is joined, whatever the chunks; pieces of growing audio stay the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.asr.base import SAMPLE_RATE
from services.asr.turn_audio import BLOCK, DROP_S, TurnAudio, is_silent, pieces

from .fakes import noise, silence


@given(st.lists(st.integers(0, 3 * BLOCK), max_size=8))
def test_join_gives_back_what_was_appended(sizes: list[int]) -> None:
    audio = TurnAudio(limit_s=60)
    ramp = np.arange(sum(sizes), dtype=np.float32)
    done = 0
    for size in sizes:
        audio.append(ramp[done : done + size])
        done += size
    snapshot = audio.snapshot()
    assert (snapshot.start, snapshot.end, audio.end) == (0, done, done)
    np.testing.assert_array_equal(snapshot.join(), ramp)


def test_a_snapshot_is_not_changed_by_what_follows() -> None:
    audio = TurnAudio(limit_s=60)
    audio.append(noise(0.3))
    snapshot = audio.snapshot()
    audio.append(noise(2.0, seed=1))
    np.testing.assert_array_equal(snapshot.join(), noise(0.3))


def test_a_turn_that_is_too_long_keeps_its_end() -> None:
    audio = TurnAudio(limit_s=10)
    ramp = np.arange(45 * SAMPLE_RATE, dtype=np.float32)
    audio.append(ramp)
    snapshot = audio.snapshot()
    assert snapshot.start == DROP_S * SAMPLE_RATE
    assert snapshot.end == ramp.size
    np.testing.assert_array_equal(snapshot.join(), ramp[snapshot.start :])
    assert snapshot.end - snapshot.start >= 10 * SAMPLE_RATE


@pytest.mark.parametrize(
    "samples, silent",
    [
        (silence(1), True),
        (noise(1, level=0.0003), True),
        (noise(0.01), True),
        (noise(1, level=0.01), False),
        (np.concatenate([silence(1), noise(0.04, level=0.05), silence(1)]), False),
    ],
)
def test_silence(samples: np.ndarray, silent: bool) -> None:
    assert is_silent(samples) is silent


def test_short_audio_is_one_piece() -> None:
    assert list(pieces(noise(3), longest_s=27)) == [(0, 3 * SAMPLE_RATE)]


def test_cuts_lie_in_the_pauses() -> None:
    samples = noise(40)
    samples[int(9.5 * SAMPLE_RATE) : 10 * SAMPLE_RATE] *= 0.01
    samples[int(17.5 * SAMPLE_RATE) : 18 * SAMPLE_RATE] *= 0.01
    samples[int(18.5 * SAMPLE_RATE) : 19 * SAMPLE_RATE] *= 0.1
    cuts = [end / SAMPLE_RATE for _, end in pieces(samples, longest_s=12)]
    assert 9.5 < cuts[0] < 10
    assert 17.5 < cuts[1] < 18
    assert cuts[-1] == 40


def test_pieces_cover_everything_and_are_stable() -> None:
    samples = noise(70)
    whole = list(pieces(samples, longest_s=12))
    assert [start for start, _ in whole] == [0, *(end for _, end in whole[:-1])]
    assert all(end - start <= 12 * SAMPLE_RATE for start, end in whole)
    assert all(end - start >= 5.9 * SAMPLE_RATE for start, end in whole[:-1])
    shorter = list(pieces(samples[: 50 * SAMPLE_RATE], longest_s=12))
    assert whole[: len(shorter) - 1] == shorter[:-1]
