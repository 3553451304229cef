"""Generators that sing, mel that sounds like speech, and how near two waves are."""

from __future__ import annotations

import copy
import gc
import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from tts_engine.cosyvoice.vocoder import StreamingVocoder, VocoderStream

RATE, HOP, BANDS = 24_000, 480, 80


def singing(hift: nn.Module) -> nn.Module:
    """A copy in float64, with an F0 that lies where voices lie, and below, at times."""
    hift = copy.deepcopy(hift).double()
    hift.stft_window = hift.stft_window.double()
    with torch.no_grad():
        hidden = hift.f0_predictor.condnet(speech(200)[None]).transpose(1, 2)
        weight = hift.f0_predictor.classifier.weight
        weight *= 120 / (hidden @ weight.T).std()
        hift.f0_predictor.classifier.bias.fill_(110 - (hidden @ weight.T).mean())
    return hift


def in_single(hift: nn.Module) -> nn.Module:
    """A copy in float32, as it is used."""
    made = copy.deepcopy(hift).float()
    made.stft_window = made.stft_window.float()
    return made


def speech(frames: int, seed: int = 0) -> Tensor:
    """Mel frames [80, frames] that change as slowly as those of speech."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(BANDS, frames + 8, generator=generator, dtype=torch.float64)
    return 4 * torch.nn.functional.avg_pool1d(noise, 9, 1) - 4


def cut(mel: Tensor, sizes: Iterable[int]) -> list[Tensor]:
    """Chunks of these sizes, and what is left."""
    chunks: list[Tensor] = []
    for size in sizes:
        chunks.append(mel[:, :size])
        mel = mel[:, size:]
    return [*chunks, mel]


def stream(vocoder: StreamingVocoder, chunks: list[Tensor]) -> list[Tensor]:
    one = vocoder.open()
    return [one.push(chunk, number == len(chunks) - 1) for number, chunk in enumerate(chunks)]


def decibels(wave: Tensor, reference: Tensor) -> float:
    assert wave.shape == reference.shape
    return 10 * math.log10(float(reference.square().sum() / (wave - reference).square().sum()))


def held(one: VocoderStream, vocoder: StreamingVocoder) -> int:
    """Numbers in the tensors that an utterance holds and does not share."""
    seen, waiting, count = {id(vocoder), id(vocoder.source)}, [one.__dict__], 0
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type):
            continue
        seen.add(id(each))
        if isinstance(each, Tensor):
            count += each.untyped_storage().nbytes() // each.element_size()
        else:
            waiting.extend(gc.get_referents(each))
    return count
