"""What is said over an answer is a backchannel or an interruption for whoever judges it."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.bench.bargein_noises import (
    FIRING_WINDOWS,
    firing_noises,
    longest_run,
    shaped_noises,
)
from pipeline.bench.bargein_sounds import (
    ANSWERS,
    BACKCHANNELS,
    INTERRUPTIONS,
    lines,
    marked,
    noise_clip,
)
from pipeline.bench.speech import SPEAKERS, Clip
from pipeline.turns.actions import Reason
from pipeline.turns.judgement import judge
from services.scripted.marks import MarkReader
from services.vad.base import OnWindow, VadEngine, VadStream
from services.vad.silero import SileroVad
from tts_engine.errors import EngineFailed
from tts_engine.text.stream import segment


class DeafVad(VadEngine):
    """Never fires."""

    async def start(self) -> None: ...

    def open(self, on_window: OnWindow) -> VadStream:
        return DeafStream(on_window)

    async def close(self) -> None: ...


class DeafStream(VadStream):
    def __init__(self, on_window: OnWindow) -> None:
        self._on_window = on_window

    def push(self, window: NDArray[np.float32]) -> None:
        asyncio.get_running_loop().call_soon(self._on_window, 0.0)

    def close(self) -> None: ...


@pytest.mark.parametrize("text", BACKCHANNELS)
def test_backchannels(text: str) -> None:
    assert judge(text, audible="", echo=False) is Reason.BACKCHANNEL


@pytest.mark.parametrize("text", INTERRUPTIONS)
@pytest.mark.parametrize("audible", ["", *ANSWERS])
def test_interruptions(text: str, audible: str) -> None:
    assert judge(text, audible=audible, echo=bool(audible)) is None


def test_answers_are_spoken_as_they_are_written() -> None:
    for answer in ANSWERS:
        assert "".join(clause.text for clause in segment(answer)) == answer
    assert len({answer[0] for answer in ANSWERS}) == len(ANSWERS)


def test_every_pair_of_voice_and_text_comes_before_any_comes_again() -> None:
    some = lines(("好", "嗯"), 2 * len(SPEAKERS) + 3)
    first = some[: 2 * len(SPEAKERS)]
    assert len(set(first)) == len(first)
    assert some[2 * len(SPEAKERS) :] == first[:3]


async def test_noises_make_a_real_detector_fire() -> None:
    vad = SileroVad(batch_window_s=0.0)
    await vad.start()
    noises = await firing_noises(vad, 10)
    runs = [await longest_run(vad, noise.samples) for noise in noises]
    await vad.close()
    assert min(runs) >= FIRING_WINDOWS
    assert {noise.kind for noise in noises} == {"cough", "throat", "knock"}
    for noise in noises:
        assert noise.samples.dtype == np.int16
        clip = noise_clip(noise, 1)
        assert clip.text == ""
        assert 0 <= clip.start < clip.end <= len(noise.samples) / 16_000


def test_a_seed_makes_the_same_noises() -> None:
    one, two = (next(shaped_noises("cough", seed=5)).samples for _ in range(2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, next(shaped_noises("cough", seed=6)).samples[: len(one)])


async def test_a_detector_that_never_fires_ends_the_search() -> None:
    with pytest.raises(EngineFailed, match="fires of 0 of"):
        await firing_noises(DeafVad(), 1)


def clip(text: str, **changes: Any) -> Clip:
    return Clip(
        name=text,
        text=text,
        samples=np.full(1600, 100, np.int16),
        start=0.0,
        end=0.1,
        kind="command",
        ends=tuple(range(100, 100 + len(text))),
        **changes,
    )


def test_the_sound_says_which_text_it_is() -> None:
    clips, texts = marked([clip("停"), clip(""), clip("等一下"), clip("停")])
    assert texts == ["停", "等一下"]
    numbers = [
        {mark.clip for mark in MarkReader().feed((each.samples / 32768).astype(np.float32))}
        for each in clips
    ]
    assert numbers == [{1}, set(), {2}, {1}]
