"""Attention of CosyVoice 3's estimator over a block, with the past read from caches.

It differs from CosyVoice 2's (see `flow_attention`) in two things: projections have a bias, and the
first head knows where a frame lies, counted from the start of the prompt: pairs of neighbouring
values of its queries and keys are turned by angles that grow with the position. Only the first:
the model was trained so. Keys are kept as they were turned, and a block's positions follow from how
much is kept.

`RotaryHiddenAttention` keeps the inputs, as `HiddenAttention` does, and beside them the first
head's keys, which are no product of the input alone. All of that is about half of what keys and
values are. The bias of the other keys adds the same to all scores of a query, so it is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from tts_engine.cosyvoice.flow_attention import (
    PAIR,
    CachedAttention,
    KeyValueAttention,
    Projections,
    in_one,
    merged,
)
from tts_engine.cosyvoice.flow_cache import Store

#: of the wave lengths of the angles
BASE = 10000.0


def frequencies(width: int, device: torch.device) -> Tensor:
    """Angles by which a step of one frame turns each pair of a head's values, [width / 2]."""
    return BASE ** -(torch.arange(0, width, 2, device=device).float() / width)


class Rotation:
    """Turns a head by the positions of a block's frames, in single precision.

    Args:
        starts: position of each stream's first frame; a stream has a pair of rows.
        frames: frames of the block.
    """

    def __init__(self, starts: Sequence[int], frames: int) -> None:
        self._starts = starts
        self._frames = frames
        self._waves: tuple[Tensor, Tensor] | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """[..., rows, frames, d] to the same."""
        if self._waves is None:
            self._waves = self._turns(x)
        cos, sin = self._waves
        pairs = x.float().unflatten(-1, (-1, 2))
        return torch.addcmul(pairs * cos, pairs.flip(-1), sin).flatten(-2).to(x.dtype)

    def _turns(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Of the angles of each row the cosine, [rows, frames, d / 2, 1], and the sine with the
        sign that it has for the first and for the second value of a pair, [rows, frames, d / 2, 2].
        """
        at = [torch.arange(start, start + self._frames, device=x.device) for start in self._starts]
        turns = frequencies(x.shape[-1], x.device)
        angles = torch.stack(at).repeat_interleave(PAIR, 0)[..., None] * turns
        sin = angles.sin()
        return angles.cos()[..., None], torch.stack([-sin, sin], -1)


class RotaryKeyValueAttention(KeyValueAttention):
    """Keys and values are kept: stores [layers, 2, 2, heads, frames, d]."""

    def __init__(self, stores: Sequence[Store], frames: int, counts: Sequence[int]) -> None:
        super().__init__(stores, frames, counts)
        self._turn = Rotation([store.total for store in stores], frames)

    def _projected(self, weights: Projections, x: Tensor) -> Tensor:
        """See KeyValueAttention."""
        qkv = weights.split(x)
        qkv[:2, :, 0] = self._turn(qkv[:2, :, 0])
        return qkv


class RotaryHiddenAttention(CachedAttention):
    """Inputs and the first head's keys are kept: stores [layers, 2, frames, channels + d]."""

    def __init__(self, stores: Sequence[Store], frames: int, counts: Sequence[int]) -> None:
        super().__init__(stores, frames, counts)
        self._turn = Rotation([store.total for store in stores], frames)

    @staticmethod
    def empty(layers: Sequence[Projections]) -> Tensor:
        """No frames."""
        first = layers[0]
        return first.qkv.new_zeros(len(layers), PAIR, 0, first.channels + first.width)

    def __call__(self, layer: int, weights: Projections, x: Tensor) -> Tensor:
        """Keeps `x` and the first head's keys."""
        assert weights.bias is not None  # a DiT's have one
        rows, frames, channels = x.shape
        queries, keys = self._turned(weights, weights.bias, x)
        pairs = zip(queries.split(PAIR), torch.cat([x, keys], -1).split(PAIR), strict=True)
        attended: list[Tensor] = []
        for stream, (mine, new) in enumerate(pairs):
            kept = self._past.keep(layer, stream, new)[:, None]
            attended.append(
                functional.scaled_dot_product_attention(mine, kept, kept[..., :channels], scale=1.0)
            )
        inner = weights.heads * weights.width
        value = weights.qkv[-inner:].view(weights.heads, weights.width, channels)
        seen = in_one(attended).view(rows, weights.heads, frames, channels)
        return merged(seen @ value.mT) + weights.bias[-inner:]

    def _turned(self, weights: Projections, bias: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Queries for what is kept, [rows, 1, heads * frames, channels + d], as if of one head,
        since all attend to the same frames; and the first head's keys, [rows, frames, d].
        """
        rows, frames, channels = x.shape
        heads, width = weights.heads, weights.width
        wanted = (heads + 1) * width  # all queries, and behind them the first keys
        made = functional.linear(x, weights.qkv[:wanted], bias[:wanted])
        made = made.view(rows, frames, heads + 1, width).transpose(1, 2)
        first, keys = self._turn(made[:, ::heads].transpose(0, 1))
        fold = weights.qkv[wanted : 2 * heads * width].view(heads - 1, width, channels)
        queries = x.new_zeros(rows, heads, frames, channels + width)
        queries[:, 0, :, channels:] = first
        queries[:, 1:, :, :channels] = made[:, 1:heads] @ fold
        return queries.flatten(1, 2)[:, None], keys
