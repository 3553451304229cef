"""A stretched mel is the whole one interpolated, wherever it is cut."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import interpolate

from tts_engine.cosyvoice.speed import MelStretch

speeds = st.one_of(st.floats(0.25, 4.0), st.sampled_from([0.5, 2 / 3, 0.9, 1.0, 1.9, 2.0]))


def mel(frames: int) -> Tensor:
    return torch.randn(80, frames, generator=torch.Generator().manual_seed(frames)).double()


def stretched(whole: Tensor, speed: float, sizes: list[int]) -> Tensor:
    stretch, parts = MelStretch(speed), []
    for size in sizes:
        parts.append(stretch.push(whole[:, :size]))
        whole = whole[:, size:]
    return torch.cat([*parts, stretch.push(whole, final=True)], -1)


@given(frames=st.integers(4, 120), speed=speeds)
@settings(deadline=None)
def test_it_is_the_interpolation_of_the_whole(frames: int, speed: float) -> None:
    assume(int(frames * (1 / speed)) != frames)  # there, interpolate() copies
    whole = mel(frames)
    expected = interpolate(whole[None], scale_factor=1 / speed, mode="linear")[0]
    torch.testing.assert_close(stretched(whole, speed, []), expected, atol=1e-9, rtol=0)


@given(frames=st.integers(0, 60), speed=speeds, sizes=st.lists(st.integers(0, 30), max_size=6))
@settings(deadline=None)
def test_chunks_do_not_matter(frames: int, speed: float, sizes: list[int]) -> None:
    whole = mel(frames)
    once = stretched(whole, speed, [])
    torch.testing.assert_close(stretched(whole, speed, sizes), once, atol=1e-12, rtol=0)


@given(frames=st.integers(1, 5), speed=speeds)
@settings(deadline=None)
def test_something_always_sounds(frames: int, speed: float) -> None:
    assert stretched(mel(frames), speed, [frames]).shape == (80, max(1, int(frames * (1 / speed))))


@given(frames=st.integers(1, 200), speed=speeds)
@settings(deadline=None)
def test_no_frame_waits_that_is_certain(frames: int, speed: float) -> None:
    made = MelStretch(speed).push(mel(frames)).shape[-1]
    # The middle of the frame that is missing lies behind the last one that is there.
    assert (made + 0.5) * speed - 0.5 > frames - 1 - max(1.0, speed)


def test_the_voices_own_pace_is_left_alone() -> None:
    whole = mel(30)
    assert torch.equal(stretched(whole, 1.0, [7, 9]), whole)


@pytest.mark.parametrize("speed", [0.0, -1.0])
def test_impossible(speed: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        MelStretch(speed)
