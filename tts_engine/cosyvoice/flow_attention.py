"""Attention of CosyVoice 2's estimator over a block, with the past read from caches.

A block sees all of itself and all that was before it, so there is no mask: its queries attend to
the voice's keys, the stream's own, and the block's. Rows of a batch belong to streams of different
lengths, two rows each (conditioned, and not), so each stream attends for itself; what comes before
and after is one product for all.

Two kinds of caches give the same result:

- `KeyValueAttention` keeps keys and values;
- `HiddenAttention` keeps what both are projected from, a quarter of the memory at the published
  size. The projection of the keys is folded into the query and that of the values is applied to
  the weighted sum, so the past is never projected again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from tts_engine.cosyvoice.flow_cache import Growing, Store

#: rows of a stream in a batch: with the conditions, and without
PAIR = 2


@dataclass(frozen=True, slots=True)
class Projections:
    """Weights of one attention; the scale of the scores is part of the query's.

    Parameters:
        qkv: [3 * heads * d, channels].
        bias: [3 * heads * d], or None.
        heads: number of heads.
    """

    qkv: Tensor
    bias: Tensor | None
    heads: int

    @classmethod
    def of(cls, attention: Any, dtype: torch.dtype) -> Projections:
        """Takes over a self-attention of diffusers or of a DiT, with biases or without any."""
        linears = (attention.to_q, attention.to_k, attention.to_v)
        scale = (linears[0].out_features // attention.heads) ** -0.5
        query, key, value = (each.weight.detach() for each in linears)
        qkv, bias = torch.cat([query * scale, key, value]).to(dtype), None
        if linears[0].bias is not None:
            query, key, value = (each.bias.detach() for each in linears)
            bias = torch.cat([query * scale, key, value]).to(dtype)
        return cls(qkv, bias, attention.heads)

    @property
    def width(self) -> int:
        """Values per head."""
        return self.qkv.shape[0] // (3 * self.heads)

    @property
    def channels(self) -> int:
        """Values per frame of the input."""
        return self.qkv.shape[1]

    def split(self, x: Tensor) -> Tensor:
        """Queries, keys and values of [rows, frames, channels]: [3, rows, heads, frames, d]."""
        rows, frames, _ = x.shape
        qkv = functional.linear(x, self.qkv, self.bias)
        return qkv.view(rows, frames, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)


class Attention(Protocol):
    """Attention with the past."""

    def __call__(self, layer: int, weights: Projections, x: Tensor) -> Tensor:
        """Attends, and keeps what later blocks need.

        Args:
            layer: index of the attention in the estimator.
            weights: its projections.
            x: normed input, [rows, frames, channels].

        Returns:
            [rows, frames, heads * d], before the output's projection.
        """
        ...


class CachedAttention(ABC):
    """Attention of one Euler step of a block, over the stores of some streams.

    Parameters:
        stores, counts: as given.

    Args:
        stores: that step's, of each stream; room is reserved in them, and nothing committed.
        frames: frames of the block.
        counts: those of each stream that are no padding.
    """

    def __init__(self, stores: Sequence[Store], frames: int, counts: Sequence[int]) -> None:
        self.stores = stores
        self.counts = counts
        self._past = Growing(stores, frames, counts)

    @staticmethod
    @abstractmethod
    def empty(layers: Sequence[Projections]) -> Tensor:
        """The prefix of a store that holds nothing yet."""

    @abstractmethod
    def __call__(self, layer: int, weights: Projections, x: Tensor) -> Tensor:
        """Attends as an `Attention` does."""


class KeyValueAttention(CachedAttention):
    """Keys and values are kept: stores [layers, 2, 2, heads, frames, d]."""

    @staticmethod
    def empty(layers: Sequence[Projections]) -> Tensor:
        """No frames."""
        first = layers[0]
        return first.qkv.new_zeros(len(layers), 2, PAIR, first.heads, 0, first.width)

    def __call__(self, layer: int, weights: Projections, x: Tensor) -> Tensor:
        """Keeps keys and values."""
        attended: list[Tensor] = []
        for stream, qkv in enumerate(self._projected(weights, x).split(PAIR, 1)):
            k, v = self._past.keep(layer, stream, qkv[1:])
            attended.append(functional.scaled_dot_product_attention(qkv[0], k, v, scale=1.0))
        return merged(in_one(attended))

    def _projected(self, weights: Projections, x: Tensor) -> Tensor:
        """Queries, keys and values, [3, rows, heads, frames, d]."""
        return weights.split(x)


class HiddenAttention(CachedAttention):
    """The normed inputs are kept: stores [layers, 2, frames, channels]."""

    @staticmethod
    def empty(layers: Sequence[Projections]) -> Tensor:
        """No frames."""
        return layers[0].qkv.new_zeros(len(layers), PAIR, 0, layers[0].channels)

    def __call__(self, layer: int, weights: Projections, x: Tensor) -> Tensor:
        """Keeps `x`."""
        rows, frames, channels = x.shape
        heads, width = weights.heads, weights.width
        query, key, value = weights.qkv.view(3, heads, width, channels)
        q = functional.linear(x, query.flatten(0, 1)).view(rows, frames, heads, width)
        # The heads' queries become one head's, which all attend to the same frames.
        q = (q.transpose(1, 2) @ key).flatten(1, 2)[:, None]
        attended: list[Tensor] = []
        for stream, (mine, new) in enumerate(zip(q.split(PAIR), x.split(PAIR), strict=True)):
            kept = self._past.keep(layer, stream, new)[:, None]
            attended.append(functional.scaled_dot_product_attention(mine, kept, kept, scale=1.0))
        return merged(in_one(attended).view(rows, heads, frames, channels) @ value.mT)


def merged(heads: Tensor) -> Tensor:
    """[rows, heads, frames, d] as [rows, frames, heads * d]."""
    return heads.transpose(1, 2).flatten(2)


def in_one(parts: list[Tensor]) -> Tensor:
    """The rows of all streams."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)
