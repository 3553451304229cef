"""The streamed wave is the wave of the whole utterance; nothing jumps where chunks meet."""

from __future__ import annotations

import copy
import math

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
from tts_engine.cosyvoice.source import HarmonicSource
from tts_engine.cosyvoice.vocoder import CAUSAL, SYMMETRIC, Contexts, StreamingVocoder

#: contexts that reach as far as the generator looks
EXACT = Contexts(left=14, hold=20, first_hold=20)


@pytest.fixture(scope="module")
def hift(model: CosyVoice) -> nn.Module:
    """The tiny generator of CosyVoice 2."""
    return singing(model.hift)


@pytest.fixture(scope="module")
def unvoiced(hift: nn.Module) -> nn.Module:
    """A generator that never hears a pitch."""
    silent = copy.deepcopy(hift)
    with torch.no_grad():
        silent.f0_predictor.classifier.weight.zero_()
        silent.f0_predictor.classifier.bias.fill_(3.0)
    return silent


def at_once(hift: nn.Module, mel: Tensor, patch: pytest.MonkeyPatch) -> Tensor:
    """The module's own wave of the whole utterance, with the noise of the streamed one."""
    source = HarmonicSource(hift)

    def same_noise(like: Tensor) -> Tensor:
        if like.shape[-1] != len(source.weight):
            return torch.zeros_like(like)
        share = source.weight / source.weight.norm() ** 2
        return source.noise[: like.shape[1], None] * share

    with patch.context() as here:
        here.setattr(torch, "randn_like", same_noise)
        return hift.inference(speech_feat=mel[None])[0][0]


def pitches(hift: nn.Module, mel: Tensor) -> Tensor:
    with torch.inference_mode():
        return hift.f0_predictor(mel[None])[0]


def test_the_fixture_sings_and_is_silent(hift: nn.Module, unvoiced: nn.Module) -> None:
    f0 = pitches(hift, speech(200))
    assert 0.03 < float((f0 < 10).double().mean()) < 0.9
    assert 150 < float(f0.max()) < 1000
    assert float(pitches(unvoiced, speech(200)).max()) < 10


def test_wide_contexts_are_exact(hift: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    mel = speech(200)
    chunks = stream(StreamingVocoder(hift, EXACT), cut(mel, [26, 50, 50, 50]))
    assert decibels(torch.cat(chunks), at_once(hift, mel, monkeypatch)) > 150


def test_the_default_contexts_come_close(hift: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    mel = speech(200)
    chunks = stream(
        StreamingVocoder(hift, SYMMETRIC._replace(first_hold=8)), cut(mel, [26, 50, 50, 50])
    )
    assert decibels(torch.cat(chunks), at_once(hift, mel, monkeypatch)) > 60


@pytest.mark.parametrize("seed", range(3))
def test_the_first_chunk_comes_earlier(
    hift: nn.Module, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    mel = speech(126, seed)
    chunks = stream(StreamingVocoder(hift), cut(mel, [26, 50]))
    whole = at_once(hift, mel, monkeypatch)
    assert len(chunks[0]) == (26 - 6) * HOP
    assert len(chunks[1]) == (50 + 6 - 8) * HOP
    assert decibels(chunks[0], whole[: len(chunks[0])]) > 50
    assert decibels(torch.cat(chunks), whole) > 50


def test_dropped_context_is_noticed(hift: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    mel = speech(100)
    chunks = stream(StreamingVocoder(hift, EXACT._replace(left=0)), cut(mel, [30, 40]))
    assert decibels(torch.cat(chunks), at_once(hift, mel, monkeypatch)) < 40


@given(st.lists(st.integers(0, 40), max_size=8))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_chunks_do_not_matter(hift: nn.Module, sizes: list[int]) -> None:
    vocoder, mel = StreamingVocoder(hift, EXACT), speech(90)
    whole = stream(vocoder, [mel])[0]
    assert decibels(torch.cat(stream(vocoder, cut(mel, sizes))), whole) > 150


@pytest.mark.parametrize("frames", [1, 2, 5, 13, 21])
@pytest.mark.parametrize("sizes", [[], [1], [0, 1, 1]])
def test_short_utterances(
    hift: nn.Module, monkeypatch: pytest.MonkeyPatch, frames: int, sizes: list[int]
) -> None:
    mel = speech(frames)
    wave = torch.cat(stream(StreamingVocoder(hift), cut(mel, sizes)))
    assert decibels(wave, at_once(hift, mel, monkeypatch)) > 100


def test_a_voice_without_pitch(unvoiced: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    mel = speech(100)
    chunks = stream(StreamingVocoder(unvoiced, EXACT), cut(mel, [30, 40]))
    assert decibels(torch.cat(chunks), at_once(unvoiced, mel, monkeypatch)) > 150


def test_the_end_may_come_without_frames(hift: nn.Module) -> None:
    vocoder, mel = StreamingVocoder(hift, EXACT), speech(60)
    chunks = stream(vocoder, [mel, mel[:, :0]])
    assert decibels(torch.cat(chunks), stream(vocoder, [mel])[0]) > 150
    assert [len(chunk) for chunk in stream(vocoder, [mel[:, :0], mel[:, :0]])] == [0, 0]


def test_utterances_do_not_meet(hift: nn.Module) -> None:
    vocoder = StreamingVocoder(hift)
    before = {name: value.clone() for name, value in hift.state_dict().items()}
    mels = [cut(speech(126, seed), [26, 50]) for seed in (1, 2)]
    alone = [stream(vocoder, chunks) for chunks in mels]
    both = [vocoder.open(), vocoder.open()]
    for step in range(3):
        for one, chunks, expected in zip(both, mels, alone, strict=True):
            assert torch.equal(one.push(chunks[step], step == 2), expected[step])
    assert all(torch.equal(value, before[name]) for name, value in hift.state_dict().items())


def test_single_precision_holds_over_a_long_utterance(
    hift: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    mel = speech(776)
    single = in_single(hift)
    chunks = stream(StreamingVocoder(single), cut(mel.float(), [26] + 14 * [50]))
    wave, whole = torch.cat(chunks), at_once(hift, mel, monkeypatch)
    assert wave.dtype == torch.float32
    late = slice(14 * RATE, 15 * RATE)
    assert decibels(wave[late].double(), whole[late]) > 50


def test_pitch_must_be_final_when_it_sounds(hift: nn.Module) -> None:
    StreamingVocoder(hift, Contexts(left=8, hold=6, first_hold=6))
    for contexts in (SYMMETRIC._replace(hold=5), SYMMETRIC._replace(first_hold=5)):
        with pytest.raises(ValueError, match="at least 6 frames"):
            StreamingVocoder(hift, contexts)


def test_what_is_held_is_bounded_and_dropped(hift: nn.Module) -> None:
    vocoder, chunk = StreamingVocoder(hift), speech(50)
    one = vocoder.open()
    sizes: list[int] = []
    for _ in range(5):
        one.push(chunk)
        sizes.append(held(one, vocoder))
    assert sizes[0] > 16 * HOP
    assert sizes[-1] == sizes[1] < 25 * HOP
    one.close()
    assert held(one, vocoder) < 100
    one.close()
    with pytest.raises(ValueError, match="has ended"):
        one.push(chunk)


def test_the_last_chunk_closes(hift: nn.Module) -> None:
    vocoder, chunk = StreamingVocoder(hift), speech(50)
    one = vocoder.open()
    one.push(chunk, final=True)
    assert held(one, vocoder) < 100
    with pytest.raises(ValueError, match="has ended"):
        one.push(chunk)


@pytest.fixture
def bare(hift: nn.Module) -> HarmonicSource:
    """The fundamental alone, without noise."""
    plain = copy.deepcopy(hift)
    with torch.no_grad():
        plain.m_source.l_linear.weight.zero_()
        plain.m_source.l_linear.weight[0, 0] = 1
        plain.m_source.l_linear.bias.zero_()
    plain.m_source.l_sin_gen.noise_std = 0.0
    return HarmonicSource(plain)


@pytest.mark.parametrize("chunk", [1, 7, 50])
def test_the_source_never_jumps(bare: HarmonicSource, chunk: int) -> None:
    time = torch.arange(200, dtype=torch.float64)
    f0 = 200 + 100 * torch.sin(time / 9)
    one, kept, wave = bare.open(), torch.zeros(0), torch.zeros(0, dtype=torch.float64)
    for end in range(chunk, len(f0) + chunk, chunk):
        start, known = one.start, min(end, len(f0))
        fresh = one.extend(f0[one.frames : known], max(0, known - 5 - one.frames))
        wave = torch.cat([wave[:start], fresh])
        kept = wave[: one.start]
    assert len(wave) == len(f0) * HOP
    assert len(kept) == (len(f0) - 5) * HOP - HOP // 2
    sine = torch.atanh(wave) / bare.amplitude
    assert float(sine.diff().abs().max()) <= 2 * math.pi * float(f0.max()) / RATE
    assert float(sine.abs().max()) > 0.99
    whole = bare.open().extend(f0, len(f0))
    torch.testing.assert_close(wave, whole, atol=1e-9, rtol=0)


def test_the_frequency_is_the_pitch(bare: HarmonicSource) -> None:
    wave = bare.open().extend(torch.full((100,), 250.0, dtype=torch.float64), 100)
    wave = wave[RATE // 2 : RATE]
    rises = int(((wave[:-1] < 0) & (wave[1:] >= 0)).sum())
    assert abs(rises - 250 // 2) <= 1


def test_the_noise_is_normal_and_stays_the_same(hift: nn.Module) -> None:
    first, second = HarmonicSource(hift), HarmonicSource(hift)
    assert torch.equal(first.noise, second.noise)
    strength = float(first.noise.std() / first.weight.norm())
    assert strength == pytest.approx(1, abs=0.01)
    one, f0 = first.open(), torch.full((5,), 3.0, dtype=torch.float64)
    wave = torch.cat([one.extend(f0, 5), one.extend(f0, 5)])[: 10 * HOP]
    again = torch.atanh(wave[: 4 * HOP]) - first.bias
    torch.testing.assert_close(again, first.noise_unvoiced * first.noise[: 4 * HOP])


@pytest.fixture
def like_cosyvoice3(hift: nn.Module) -> nn.Module:
    """What the streaming looks at in a causal generator; the rest is still CosyVoice 2's."""
    causal = copy.deepcopy(hift)
    sines = causal.m_source.l_sin_gen
    sines.causal = True
    sines.sine_waves = torch.rand(1, 40 * HOP, 9, generator=torch.Generator().manual_seed(1))
    for number, conv in enumerate(
        each for each in causal.f0_predictor.condnet if len(each._parameters)
    ):
        conv.causal_type = "left" if number else "right"
    return causal


def test_the_causal_source_moves_in_steps(like_cosyvoice3: nn.Module) -> None:
    source = HarmonicSource(like_cosyvoice3)
    f0 = 200 + 100 * torch.sin(torch.arange(60, dtype=torch.float64))
    f0[20:25] = 3.0
    cycles = torch.cumsum(f0 / RATE * HOP, 0)[:, None] * torch.arange(1, 10)
    sines = 0.1 * torch.sin(2 * math.pi * cycles).repeat_interleave(HOP, 0)
    voiced = (f0 > 10).repeat_interleave(HOP)[:, None]
    noise = like_cosyvoice3.m_source.l_sin_gen.sine_waves[0].double().repeat(2, 1)[: len(sines)]
    mixed = torch.where(voiced, sines + 0.003 * noise, 0.1 / 3 * noise)
    expected = torch.tanh(mixed @ source.weight + source.bias)
    one, wave = source.open(), torch.zeros(0, dtype=torch.float64)
    for end in (13, 40, 60):
        start, final = one.start, end - (0 if end == 60 else 3) - one.frames
        wave = torch.cat([wave[:start], one.extend(f0[one.frames : end], final)])
    torch.testing.assert_close(wave, expected, atol=1e-9, rtol=0)


def test_a_causal_generator_waits_less(like_cosyvoice3: nn.Module) -> None:
    assert StreamingVocoder(like_cosyvoice3).contexts == CAUSAL
    with pytest.raises(ValueError, match="at least 3 frames"):
        StreamingVocoder(like_cosyvoice3, CAUSAL._replace(hold=2))


def test_the_pitch_of_a_causal_generator_is_predicted_in_double_precision(
    like_cosyvoice3: nn.Module,
) -> None:
    single, mel = in_single(like_cosyvoice3), speech(40).float()
    wide = copy.deepcopy(single.f0_predictor).double()
    f0 = StreamingVocoder(single).f0(mel[None])
    assert torch.equal(f0, wide(mel[None].double())[0])
    assert all(weight.dtype == torch.float32 for weight in single.parameters())
    [wave] = stream(StreamingVocoder(single), [mel])
    assert (wave.dtype, len(wave)) == (torch.float32, 40 * HOP)
