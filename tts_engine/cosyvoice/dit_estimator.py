"""The estimator of CosyVoice 3's flow, block by block: the velocity of the mel at one Euler step.

A transformer over frames (a DiT): the input is projected, two causal convolutions of 31 taps add
what they see, then come layers of attention and a feed-forward net. Time enters through the norms:
their weights and biases, and what scales a layer's two additions, depend on the step and on nothing
else, so they are computed beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tts_engine.cosyvoice.flow_attention import PAIR, Attention, Projections
from tts_engine.cosyvoice.flow_layers import Linear, in_single

#: rows of `times` that belong to a layer: weight, bias and gate of its attention, the same of its
#: feed-forward net
_LAYER = 6
#: weight and bias of the last norm
_LAST = 2


class DitEstimator:
    """The estimator's weights, prepared.

    Parameters:
        attentions: of every layer, in order.
        channels: of its input.
        width: channels of both convolution contexts together.

    Args:
        estimator: a DiT.
        dtype: of weights and computation.
    """

    def __init__(self, estimator: Any, dtype: torch.dtype) -> None:
        embed = estimator.input_embed
        self._project_in = _reordered(Linear.of(embed.proj, dtype))
        position = embed.conv_pos_embed
        self._convs = [_WideConv.of(each[0], dtype) for each in (position.conv1, position.conv2)]
        self._layers = [_Layer.of(block, dtype) for block in estimator.transformer_blocks]
        self._eps: float = estimator.norm_out.norm.eps
        self._project = Linear.of(estimator.proj_out, dtype)
        self.attentions = tuple(layer.projections for layer in self._layers)
        self.channels = self._project_in.weight.shape[1]
        self.width = len(self._convs) * self._project_in.weight.shape[0]

    def empty(self) -> Tensor:
        """The convolutions' contexts before the first frame: [2, taps - 1, width]."""
        return self._project.weight.new_zeros(PAIR, self._convs[0].taps - 1, self.width)

    def __call__(
        self, x: Tensor, times: Tensor, contexts: Tensor, attend: Attention
    ) -> tuple[Tensor, Tensor]:
        """One Euler step of one block of each stream; rows are pairs, with conditions and without.

        Args:
            x: [rows, frames, 320]: state, means, speaker, given mel.
            times: of the present step, as `modulations` gives them.
            contexts: [rows, taps - 1, width].
            attend: attention with the streams' past.

        Returns:
            Velocities [rows, frames, 80], and the next block's contexts.
        """
        x = seen = self._project_in(x)
        after: list[Tensor] = []
        for conv, context in zip(self._convs, contexts.chunk(len(self._convs), -1), strict=True):
            seen, context = conv(seen, context)
            after.append(context)
        x = x + seen
        for index, layer in enumerate(self._layers):
            x = layer(x, times[_LAYER * index :][:_LAYER].unbind(0), index, attend)
        weight, bias = times[-_LAST:].unbind(0)
        return self._project(_normed(x, weight, bias, self._eps)), torch.cat(after, -1)


def modulations(estimator: Any, times: Sequence[float]) -> Tensor:
    """What makes the layers depend on time, [times, 6 * layers + 2, channels], in single precision.

    Half precision would round the time itself, which is multiplied by 1000 in its embedding.

    Args:
        estimator: a DiT.
        times: 0 to 1.
    """
    outer = estimator.time_embed
    first, activation, second = outer.time_mlp
    waves = outer.time_embed(torch.tensor(list(times), device=first.weight.device))
    hidden = functional.silu(in_single(second, activation(in_single(first, waves))))
    rows: list[Tensor] = []
    for block in estimator.transformer_blocks:
        made = in_single(block.attn_norm.linear, hidden).chunk(_LAYER, -1)
        for shift, scale, gate in (made[:3], made[3:]):
            rows += [1 + scale, shift, gate]
    scale, shift = in_single(estimator.norm_out.linear, hidden).chunk(_LAST, -1)
    return torch.stack([*rows, 1 + scale, shift], 1)


@dataclass(frozen=True, slots=True)
class _WideConv:
    """A causal convolution in groups, and mish.

    Parameters:
        weight: [channels, channels / groups, taps].
    """

    weight: Tensor
    bias: Tensor
    groups: int

    @classmethod
    def of(cls, module: nn.Conv1d, dtype: torch.dtype) -> _WideConv:
        weight, bias = module.get_parameter("weight"), module.get_parameter("bias")
        return cls(weight.detach().to(dtype), bias.detach().to(dtype), module.groups)

    @property
    def taps(self) -> int:
        """Frames seen: the present one and those before it."""
        return self.weight.shape[-1]

    def __call__(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """One block [rows, frames, channels]; returns its output and the next block's context."""
        seen = torch.cat([context, x], 1)
        y = functional.conv1d(seen.mT, self.weight, self.bias, groups=self.groups)
        return functional.mish(y.mT), seen[:, x.shape[1] :]


@dataclass(frozen=True, slots=True)
class _Layer:
    """Attention and a feed-forward net, each behind a norm and scaled by a gate."""

    projections: Projections
    out: Linear
    up: Linear
    down: Linear
    eps: tuple[float, float]

    @classmethod
    def of(cls, block: Any, dtype: torch.dtype) -> _Layer:
        feed = block.ff.ff
        return cls(
            projections=Projections.of(block.attn, dtype),
            out=Linear.of(block.attn.to_out[0], dtype),
            up=Linear.of(feed[0][0], dtype),
            down=Linear.of(feed[2], dtype),
            eps=(block.attn_norm.norm.eps, block.ff_norm.eps),
        )

    def __call__(self, x: Tensor, times: Sequence[Tensor], index: int, attend: Attention) -> Tensor:
        weight, bias, gate, weight_ff, bias_ff, gate_ff = times
        attended = attend(index, self.projections, _normed(x, weight, bias, self.eps[0]))
        x = torch.addcmul(x, gate, self.out(attended))
        hidden = self.up(_normed(x, weight_ff, bias_ff, self.eps[1]))
        return torch.addcmul(x, gate_ff, self.down(functional.gelu(hidden, approximate="tanh")))


def _reordered(linear: Linear) -> Linear:
    """The projection of state, mel, means, speaker as one of state, means, speaker, mel."""
    state, mel, means, speaker = linear.weight.chunk(4, -1)
    return Linear(torch.cat([state, means, speaker, mel], -1), linear.bias)


def _normed(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    return functional.layer_norm(x, weight.shape, weight, bias, eps)
