"""The encoder of CosyVoice 2's flow, block by block: speech tokens at 25 Hz in, means at 50 Hz out.

It is a conformer without convolution modules in two halves: tokens, which look three tokens ahead,
then twice as many frames. Positions are relative, so nothing depends on where a block lies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tts_engine.cosyvoice.flow_cache import Cache, Growing, Store
from tts_engine.cosyvoice.flow_layers import CausalConv, Linear, Norm
from tts_engine.cosyvoice.flow_look_ahead import LookAhead, embedded

#: positions that a table of relative positions covers at first; it is doubled when it is outgrown
TABLE = 1024


class Encoder:
    """The encoder's weights, prepared, and its tables of relative positions.

    Args:
        flow: a CausalMaskedDiffWithXvec.
        dtype: of weights and computation.
    """

    def __init__(self, flow: Any, dtype: torch.dtype) -> None:
        encoder = flow.encoder
        self._tokens = flow.input_embedding.weight.detach()
        self._embed = _Embed.of(encoder.embed, dtype)
        self._look_ahead = LookAhead.of(encoder.pre_lookahead_layer, dtype)
        self._upsample = CausalConv.of(encoder.up_layer.conv, dtype)
        self._up_embed = _Embed.of(encoder.up_embed, dtype)
        self._halves = (
            [_Conformer(layer, dtype) for layer in encoder.encoders],
            [_Conformer(layer, dtype) for layer in encoder.up_encoders],
        )
        self._norm = Norm.of(encoder.after_norm, dtype)
        self._project = Linear.of(flow.encoder_proj, dtype)
        self.vocabulary: int = flow.vocab_size
        self.look_ahead: int = flow.pre_lookahead_len
        self.ratio: int = encoder.up_layer.stride

    def empty(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The state before the first token: two contexts, and the stores of both halves."""
        stores = tuple(
            self._norm.weight.new_zeros(len(half), 2, 1, half[0].heads, 0, half[0].width)
            for half in self._halves
        )
        return (self._look_ahead.empty(), self._upsample.empty(1)), stores

    def __call__(
        self,
        caches: Sequence[Cache],
        tokens: Sequence[Sequence[int]],
        counts: Sequence[int],
        length: int,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One block of each stream. Reserves room in the stores; commits nothing.

        Args:
            caches: of the streams.
            tokens: of each stream, its block's tokens and up to `look_ahead` more; what is lacking
                lies behind the end of the utterance.
            counts: tokens of each stream's block.
            length: tokens to which every block is padded.

        Returns:
            Means [streams, ratio * length, 80], of which each stream has the first
            `ratio * count`; and the two convolutions' next contexts, [streams, taps - 1, channels].
        """
        near, far = (
            torch.cat(each)
            for each in zip(*(cache.encoder_contexts for cache in caches), strict=True)
        )
        x, near = self._look_ahead(self._embedded(tokens, length + self.look_ahead), near)
        x = self._half(0, x, [cache.encoder[0] for cache in caches], counts)
        x = x.repeat_interleave(self.ratio, 1)
        x, far = self._upsample(x, far)
        frames = [count * self.ratio for count in counts]
        x = self._half(1, self._up_embed(x), [cache.encoder[1] for cache in caches], frames)
        return self._project(self._norm(x)), (near, far)

    def _embedded(self, tokens: Sequence[Sequence[int]], length: int) -> Tensor:
        """Embeds tokens; after the end of an utterance come zeros, not a token."""
        rows, given = embedded(self._tokens, tokens, length)
        dtype = self._norm.weight.dtype
        return self._embed(rows.to(dtype)) * given.to(dtype)

    def _half(self, half: int, x: Tensor, stores: Sequence[Store], counts: Sequence[int]) -> Tensor:
        past, before = Growing(stores, x.shape[1], counts), [store.total for store in stores]
        for index, layer in enumerate(self._halves[half]):
            x = layer(x, index, past, before)
        return x


@dataclass(frozen=True, slots=True)
class _Embed:
    """Projection, norm and scale before each half."""

    linear: Linear
    norm: Norm
    scale: float

    @classmethod
    def of(cls, module: Any, dtype: torch.dtype) -> _Embed:
        linear, norm = module.out[0], module.out[1]
        return cls(Linear.of(linear, dtype), Norm.of(norm, dtype), float(module.pos_enc.xscale))

    def __call__(self, x: Tensor) -> Tensor:
        return self.norm(self.linear(x)) * self.scale


class _Conformer:
    """A layer: attention with relative positions, then a feed-forward net."""

    def __init__(self, layer: Any, dtype: torch.dtype) -> None:
        attention = layer.self_attn
        self.heads: int = attention.h
        self.width: int = attention.d_k
        # The scale of the scores goes into everything that a query is made of.
        scale = 1 / math.sqrt(self.width)
        parts = [attention.linear_q, attention.linear_k, attention.linear_v]
        weights = [each.weight.detach() for each in parts]
        biases = [_bias(each) for each in parts]
        weights[0], biases[0] = weights[0] * scale, biases[0] * scale
        self._qkv = Linear(torch.cat(weights).to(dtype), torch.cat(biases).to(dtype))
        self._u = (attention.pos_bias_u.detach() * scale).to(dtype)[:, None]
        self._v = (attention.pos_bias_v.detach() * scale).to(dtype)[:, None]
        self._positions = _Positions(attention, dtype)
        self._out = Linear.of(attention.linear_out, dtype)
        self._norm = Norm.of(layer.norm_mha, dtype)
        self._norm_ff = Norm.of(layer.norm_ff, dtype)
        self._up = Linear.of(layer.feed_forward.w_1, dtype)
        self._activation: nn.Module = layer.feed_forward.activation
        self._down = Linear.of(layer.feed_forward.w_2, dtype)

    def __call__(self, x: Tensor, index: int, past: Growing, before: Sequence[int]) -> Tensor:
        """A block [rows, t, channels] that comes after `before` frames of each row."""
        rows, t, _ = x.shape
        qkv = self._qkv(self._norm(x)).view(rows, t, 3, self.heads, self.width)
        qkv = qkv.permute(2, 0, 3, 1, 4)  # [3, rows, heads, t, d]
        attended: list[Tensor] = []
        for row, frames in enumerate(before):
            k, v = past.keep(index, row, qkv[1:, row : row + 1])
            q = qkv[0, row : row + 1]
            near = self._positions(q + self._v, frames, k.shape[-2])
            weights = torch.softmax(torch.matmul(q + self._u, k.mT) + near, -1)
            attended.append(weights @ v)
        out = torch.cat(attended).transpose(1, 2).reshape(rows, t, -1)
        x = x + self._out(out)
        return x + self._down(self._activation(self._up(self._norm_ff(x))))


class _Positions:
    """Scores of relative positions, from a table that grows with the longest stream."""

    def __init__(self, attention: Any, dtype: torch.dtype) -> None:
        self._heads: int = attention.h
        self._weight = attention.linear_pos.weight.detach()
        self._dtype = dtype
        self._span = 0
        self._table = self._weight.new_zeros(0)

    def __call__(self, q: Tensor, before: int, keys: int) -> Tensor:
        """[1, heads, t, keys]: queries are at before .. before + t - 1, keys at 0 .. keys - 1."""
        t = q.shape[-2]
        if self._span < before + t:
            self._extend(max(2 * (before + t), TABLE))
        # Row r of the table is the distance span - 1 - r. Query i and key j need the distance
        # before + i - j: row span - 1 - before - i + j. So each query reads a run of rows that
        # begins one row before that of the query above it.
        first = self._span - before - t
        scores = q @ self._table[:, first : first + t - 1 + keys].mT
        return scores.as_strided(
            (1, self._heads, t, keys),
            (scores.stride(0), scores.stride(1), scores.stride(2) - 1, 1),
            scores.storage_offset() + t - 1,
        )

    def _extend(self, span: int) -> None:
        size = self._weight.shape[1]
        distances = torch.arange(span - 1, -span, -1, dtype=torch.float32)
        exponents = torch.arange(0, size, 2, dtype=torch.float32) * -(math.log(10000.0) / size)
        angles = distances[:, None] * exponents.exp()
        encoding = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        table = encoding.to(self._weight.device) @ self._weight.float().mT
        table = table.view(len(distances), self._heads, -1).transpose(0, 1)
        self._table, self._span = table.to(self._dtype).contiguous(), span


def _bias(linear: nn.Linear) -> Tensor:
    """A layer's bias, or zeros."""
    given: Tensor | None = linear.bias
    return linear.weight.new_zeros(linear.out_features) if given is None else given.detach()
