"""Voices and utterances at random, upstream's own pass over them, and ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.flow_stream import FlowStream, FlowVoice

VOCABULARY = 6561


@dataclass(frozen=True)
class Prompt:
    """A voice: tokens, mel [2 * tokens, 80], embedding [192]."""

    tokens: list[int]
    mel: Tensor
    embedding: Tensor

    def voice(self, flow: IncrementalFlow) -> FlowVoice:
        return flow.voice(self.tokens, self.mel, self.embedding)


def prompt(tokens: int, *, seed: int = 0) -> Prompt:
    made = torch.Generator().manual_seed(1000 * seed + tokens)
    return Prompt(
        speech(tokens, seed=seed),
        torch.randn(2 * tokens, 80, generator=made) * 1.5 - 3,
        torch.randn(192, generator=made),
    )


def speech(tokens: int, *, seed: int = 0) -> list[int]:
    made = torch.Generator().manual_seed(7 + seed)
    return torch.randint(0, VOCABULARY, (tokens,), generator=made).tolist()


def upstream(flow: Any, voice: Prompt, tokens: Sequence[int], *, finalize: bool = True) -> Tensor:
    """The mel [80, frames] of the whole utterance at once, by upstream's code; or of its beginning,
    when more tokens are to come.
    """
    weight: Tensor = flow.spk_embed_affine_layer.weight
    ids = [torch.tensor([list(each)], dtype=torch.int32) for each in (tokens, voice.tokens)]
    sizes = [torch.tensor([each.shape[1]], dtype=torch.int32) for each in ids]
    mel, _ = flow.inference(
        token=ids[0],
        token_len=sizes[0],
        prompt_token=ids[1],
        prompt_token_len=sizes[1],
        prompt_feat=voice.mel[None].to(weight),
        prompt_feat_len=2 * sizes[1],
        embedding=voice.embedding[None].to(weight),
        streaming=True,
        finalize=finalize,
    )
    return mel[0]


def drain(flow: IncrementalFlow, stream: FlowStream) -> list[Tensor]:
    """Every block that can be computed."""
    blocks: list[Tensor] = []
    while stream.ready:
        blocks += flow.step([stream])
    return blocks


def say(
    flow: IncrementalFlow, voice: FlowVoice, tokens: Sequence[int], *, by: int | None = None
) -> Tensor:
    """The mel of an utterance whose tokens come `by` at a time, or all at once."""
    stream, blocks = flow.open(voice), []
    by = by or max(1, len(tokens))
    for start in range(0, len(tokens), by):
        stream.push(tokens[start : start + by])
        blocks += drain(flow, stream)
    stream.finish()
    blocks += drain(flow, stream)
    assert stream.done
    return torch.cat(blocks, -1)


def far(one: Tensor, other: Tensor) -> float:
    """The greatest difference of two tensors of the same shape."""
    assert one.shape == other.shape
    return float((one.float() - other.float()).abs().max())
