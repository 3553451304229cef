"""CosyVoice 3's causal generator, from a checkout: the streamed wave is that of its own pass."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.cosyvoice.vocoder_case import (
    HOP,
    RATE,
    cut,
    decibels,
    held,
    in_single,
    singing,
    speech,
    stream,
)
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.vocoder import CAUSAL, Contexts, StreamingVocoder

EXACT = Contexts(left=24, hold=5, first_hold=5)
#: frames of the longest utterance here
LONGEST = 1000


@pytest.fixture(scope="module")
def hift(model3: CosyVoice) -> nn.Module:
    """With noise for no more than the tests need: it has 300 s of it."""
    made = cast("Any", singing(model3.hift))
    sines = made.m_source.l_sin_gen
    sines.sine_waves = sines.sine_waves[:, : LONGEST * HOP].clone()
    return made


@pytest.fixture(scope="module")
def single(hift: nn.Module) -> nn.Module:
    return in_single(hift)


@torch.inference_mode()
def at_once(hift: Any, mel: Tensor, *, final: bool = True) -> Tensor:
    """The module's own pass; it turns its F0 predictor to float64 for good."""
    own = copy.copy(hift)
    own._modules = {**hift._modules, "f0_predictor": copy.deepcopy(hift.f0_predictor)}
    return own.inference(speech_feat=mel[None], finalize=final)[0][0]


def test_upstream_waits_twice_as_long(hift: nn.Module) -> None:
    mel = speech(126)
    theirs = at_once(hift, mel[:, :26], final=False)
    first, second, _ = stream(StreamingVocoder(hift), cut(mel, [26, 50]))
    assert len(theirs) == (26 - 8) * HOP
    assert len(first) == (26 - 4) * HOP
    assert len(second) == 50 * HOP


@pytest.mark.parametrize("sizes", [[26, 50, 50, 50], [20, 50, 50, 50], [100], [30] * 6, [7] * 28])
def test_it_is_the_whole_utterance_at_once(hift: nn.Module, sizes: list[int]) -> None:
    mel = speech(200)
    whole = at_once(hift, mel)
    assert decibels(torch.cat(stream(StreamingVocoder(hift, EXACT), cut(mel, sizes))), whole) > 150
    wave = torch.cat(stream(StreamingVocoder(hift), cut(mel, sizes)))
    assert decibels(wave, whole) > 90
    # What is not exact are the last samples before a seam.
    assert int(((wave - whole).abs() > 1e-8).sum()) <= 3 * len(sizes)


@given(st.lists(st.integers(0, 40), max_size=8))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_chunks_do_not_matter(hift: nn.Module, sizes: list[int]) -> None:
    vocoder, mel = StreamingVocoder(hift, EXACT), speech(90)
    whole = stream(vocoder, [mel])[0]
    assert decibels(torch.cat(stream(vocoder, cut(mel, sizes))), whole) > 150


@pytest.mark.parametrize("frames", [1, 2, 4, 5, 9])
@pytest.mark.parametrize("sizes", [[], [1], [0, 1, 1]])
def test_short_utterances(hift: nn.Module, frames: int, sizes: list[int]) -> None:
    mel = speech(frames)
    wave = torch.cat(stream(StreamingVocoder(hift), cut(mel, sizes)))
    assert decibels(wave, at_once(hift, mel)) > 90


@pytest.mark.parametrize("lost", [{"left": 0}, {"left": 8}])
def test_dropped_context_is_noticed(hift: nn.Module, lost: dict[str, int]) -> None:
    mel = speech(100)
    vocoder = StreamingVocoder(hift, EXACT._replace(**lost))
    wave = torch.cat(stream(vocoder, cut(mel, [30, 40])))
    assert decibels(wave, at_once(hift, mel)) < 60


def test_pitch_must_be_final_when_it_sounds(hift: nn.Module) -> None:
    for contexts in (CAUSAL._replace(hold=3), CAUSAL._replace(first_hold=3)):
        with pytest.raises(ValueError, match="at least 4 frames"):
            StreamingVocoder(hift, contexts)


def test_twenty_seconds_in_single_precision(single: nn.Module) -> None:
    mel = speech(LONGEST).float()
    wave = torch.cat(stream(StreamingVocoder(single), cut(mel, [26] + 19 * [50])))
    assert wave.dtype == torch.float32
    whole = at_once(single, mel)
    assert decibels(wave, whole) > 75
    late = slice(19 * RATE, 20 * RATE)
    assert decibels(wave[late], whole[late]) > 60


def test_the_pitch_is_predicted_in_double_precision(single: Any) -> None:
    vocoder, mel = StreamingVocoder(single), speech(80).float()
    wide = copy.deepcopy(single.f0_predictor).double()
    assert torch.equal(vocoder.f0(mel[None]), wide(mel[None].double())[0])
    # The generator itself is as it was.
    assert all(weight.dtype == torch.float32 for weight in single.parameters())


def test_utterances_do_not_meet_and_hold_little(hift: nn.Module) -> None:
    vocoder = StreamingVocoder(hift)
    mels = [cut(speech(226, seed), [26, 50, 50, 50]) for seed in (1, 2)]
    alone = [stream(vocoder, chunks) for chunks in mels]
    both = [vocoder.open(), vocoder.open()]
    sizes: list[int] = []
    for step in range(5):
        for one, chunks, expected in zip(both, mels, alone, strict=True):
            assert torch.equal(one.push(chunks[step], step == 4), expected[step])
        sizes.append(held(both[0], vocoder))
    assert sizes[1] == sizes[3] < 35 * HOP
    assert sizes[4] < 100
