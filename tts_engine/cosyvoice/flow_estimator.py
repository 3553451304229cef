"""The estimator of CosyVoice 2's flow, block by block: the velocity of the mel at one Euler step.

It is a U-net in name only: every stage has the same length. A stage is a residual block of two
causal convolutions and some transformer blocks; each Euler step has contexts of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tts_engine.cosyvoice.flow_attention import PAIR, Attention, Projections
from tts_engine.cosyvoice.flow_layers import CausalConv, Linear, Norm, in_single
from tts_engine.errors import EngineFailed


class Estimator:
    """The estimator's weights, prepared.

    Parameters:
        attentions: of every transformer block, in order.
        channels: of its input.
        width: channels of all convolution contexts together.

    Args:
        estimator: a CausalConditionalDecoder.
        dtype: of weights and computation.
    """

    def __init__(self, estimator: Any, dtype: torch.dtype) -> None:
        down = [(*each, False) for each in estimator.down_blocks]
        mid = [(*each, None, False) for each in estimator.mid_blocks]
        up = [(*each, True) for each in estimator.up_blocks]
        self._stages = [
            _Stage.of(resnet, blocks, conv, join, dtype)
            for resnet, blocks, conv, join in (*down, *mid, *up)
        ]
        self._skips = len(down)
        self._final = _ConvBlock.of(estimator.final_block, dtype)
        self._project = Linear.of(estimator.final_proj, dtype)
        self.attentions = tuple(
            block.projections for stage in self._stages for block in stage.transformers
        )
        convs = [conv for stage in self._stages for conv in stage.convs] + [self._final.conv]
        self._context = convs[0].taps - 1
        self._widths = [conv.channels for conv in convs]
        self.channels = self._widths[0]
        self.width = sum(self._widths)

    def empty(self) -> Tensor:
        """The convolutions' contexts before the first frame: [2, taps - 1, width]."""
        return self._project.weight.new_zeros(PAIR, self._context, self.width)

    def __call__(
        self, x: Tensor, times: Tensor, contexts: Tensor, attend: Attention
    ) -> tuple[Tensor, Tensor]:
        """One Euler step of one block of each stream; rows are pairs, with conditions and without.

        Args:
            x: [rows, frames, 320]: state, means, speaker, given mel.
            times: what each stage adds for the present time, [stages, channels].
            contexts: [rows, taps - 1, width].
            attend: attention with the streams' past.

        Returns:
            Velocities [rows, frames, 80], and the next block's contexts.
        """
        walk = _Contexts(contexts.split(self._widths, -1))
        skips: list[Tensor] = []
        layer = 0
        for index, (stage, time) in enumerate(zip(self._stages, times.unbind(0), strict=True)):
            if stage.joins:
                x = torch.cat([x, skips.pop()], -1)
            x = stage.residual(x, time, walk)
            for block in stage.transformers:
                x = block(x, layer, attend)
                layer += 1
            if index < self._skips:
                skips.append(x)
            if stage.after is not None:
                x = walk.through(stage.after, x)
        return self._project(self._final(x, walk)), torch.cat(walk.next, -1)


class _Contexts:
    """Hands each convolution its context, in order, and collects those of the next block."""

    def __init__(self, given: Sequence[Tensor]) -> None:
        self._given = iter(given)
        self.next: list[Tensor] = []

    def through(self, conv: CausalConv, x: Tensor) -> Tensor:
        """Applies a convolution."""
        y, context = conv(x, next(self._given))
        self.next.append(context)
        return y


@dataclass(frozen=True, slots=True)
class _ConvBlock:
    """Convolution, norm, mish."""

    conv: CausalConv
    norm: Norm

    @classmethod
    def of(cls, block: Any, dtype: torch.dtype) -> _ConvBlock:
        return cls(CausalConv.of(block.block[0], dtype), Norm.of(block.block[2], dtype))

    def __call__(self, x: Tensor, walk: _Contexts) -> Tensor:
        return functional.mish(self.norm(walk.through(self.conv, x)))


@dataclass(frozen=True, slots=True)
class _Transformer:
    """Attention and a feed-forward net, each behind a norm."""

    norm: Norm
    projections: Projections
    out: Linear
    norm_ff: Norm
    up: Linear
    down: Linear

    @classmethod
    def of(cls, block: Any, dtype: torch.dtype) -> _Transformer:
        activation = block.ff.net[0]
        if type(activation).__name__ != "GELU" or activation.approximate != "none":
            raise EngineFailed("this flow's feed-forward nets are not those of CosyVoice 2")
        return cls(
            norm=Norm.of(block.norm1, dtype),
            projections=Projections.of(block.attn1, dtype),
            out=Linear.of(block.attn1.to_out[0], dtype),
            norm_ff=Norm.of(block.norm3, dtype),
            up=Linear.of(activation.proj, dtype),
            down=Linear.of(block.ff.net[2], dtype),
        )

    def __call__(self, x: Tensor, layer: int, attend: Attention) -> Tensor:
        x = x + self.out(attend(layer, self.projections, self.norm(x)))
        return x + self.down(functional.gelu(self.up(self.norm_ff(x))))


@dataclass(frozen=True, slots=True)
class _Stage:
    """A residual block, its transformer blocks, and perhaps a convolution after them.

    Parameters:
        joins: the input is joined with that which an earlier stage left.
    """

    first: _ConvBlock
    second: _ConvBlock
    shortcut: Linear
    transformers: tuple[_Transformer, ...]
    after: CausalConv | None
    joins: bool

    @classmethod
    def of(cls, resnet: Any, blocks: Any, after: Any, joins: bool, dtype: torch.dtype) -> _Stage:
        if after is not None and type(after).__name__ != "CausalConv1d":
            raise EngineFailed("this flow changes its frame rate, which CosyVoice 2's does not")
        return cls(
            first=_ConvBlock.of(resnet.block1, dtype),
            second=_ConvBlock.of(resnet.block2, dtype),
            shortcut=Linear.of(resnet.res_conv, dtype),
            transformers=tuple(_Transformer.of(block, dtype) for block in blocks),
            after=None if after is None else CausalConv.of(after, dtype),
            joins=joins,
        )

    @property
    def convs(self) -> list[CausalConv]:
        """Its causal convolutions, in the order in which they are applied."""
        own = [self.first.conv, self.second.conv]
        return own if self.after is None else [*own, self.after]

    def residual(self, x: Tensor, time: Tensor, walk: _Contexts) -> Tensor:
        return self.second(self.first(x, walk) + time, walk) + self.shortcut(x)


def time_embeddings(estimator: Any, times: Sequence[float]) -> Tensor:
    """What each stage adds at each of these times, [times, stages, channels], in single precision.

    Half precision would round the time itself, which is multiplied by 1000 in its embedding.

    Args:
        estimator: a CausalConditionalDecoder.
        times: 0 to 1.
    """
    resnets = [
        each[0]
        for blocks in (estimator.down_blocks, estimator.mid_blocks, estimator.up_blocks)
        for each in blocks
    ]
    outer = estimator.time_mlp
    device = outer.linear_1.weight.device
    waves = estimator.time_embeddings(torch.tensor(list(times), device=device))
    hidden = in_single(outer.linear_2, outer.act(in_single(outer.linear_1, waves)))
    stages = [in_single(resnet.mlp[1], functional.mish(hidden)) for resnet in resnets]
    return torch.stack(stages, 1)
