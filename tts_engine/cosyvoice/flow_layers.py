"""The layers that the flows' encoders and estimators share, over the checkpoint's weights.

Everything is laid out [rows, frames, channels], in which every layer is one matrix product: no
transposing between convolutions, norms and attention. Weights are taken over by reference where
neither their type nor their layout changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Linear:
    """A product with a matrix [out, in], and a bias."""

    weight: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, module: nn.Module, dtype: torch.dtype) -> Linear:
        """Takes over a linear layer, or a convolution over one frame."""
        weight, bias = module.get_parameter("weight").detach(), getattr(module, "bias", None)
        return cls(weight.flatten(1).to(dtype), None if bias is None else bias.detach().to(dtype))

    def __call__(self, x: Tensor) -> Tensor:
        """[..., in] to [..., out]."""
        return functional.linear(x, self.weight, self.bias)


def in_single(linear: Any, x: Tensor) -> Tensor:
    """Applies a linear layer with a bias in single precision, whatever its own is."""
    return functional.linear(x, linear.weight.detach().float(), linear.bias.detach().float())


@dataclass(frozen=True, slots=True)
class Norm:
    """A layer norm over the channels of each frame."""

    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, module: nn.LayerNorm, dtype: torch.dtype) -> Norm:
        """Takes over a layer norm with weight and bias."""
        return cls(module.weight.detach().to(dtype), module.bias.detach().to(dtype), module.eps)

    def __call__(self, x: Tensor) -> Tensor:
        """[..., channels] to the same."""
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


@dataclass(frozen=True, slots=True)
class CausalConv:
    """A convolution that sees the present frame and the `taps - 1` before it.

    Parameters:
        linear: the same as a product with the frames side by side, the oldest first.
        taps: frames seen.
        channels: channels of the input.
    """

    linear: Linear
    taps: int
    channels: int

    @classmethod
    def of(cls, module: nn.Conv1d, dtype: torch.dtype) -> CausalConv:
        """Takes over a convolution of stride and dilation 1, in one group."""
        weight = module.weight.detach().permute(0, 2, 1).flatten(1).to(dtype).contiguous()
        bias = None if module.bias is None else module.bias.detach().to(dtype)
        return cls(Linear(weight, bias), module.kernel_size[0], module.in_channels)

    def empty(self, rows: int) -> Tensor:
        """The context before the first frame: zeros, [rows, taps - 1, channels]."""
        return self.linear.weight.new_zeros(rows, self.taps - 1, self.channels)

    def __call__(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """One block [rows, frames, channels]; returns its output and the next block's context."""
        seen = torch.cat([context, x], 1)
        return self.valid(seen), seen[:, x.shape[1] :]

    def valid(self, seen: Tensor) -> Tensor:
        """The output where all taps are given: `taps - 1` frames fewer than `seen`."""
        frames = seen.shape[1] - self.taps + 1
        return self.linear(torch.cat([seen[:, k : k + frames] for k in range(self.taps)], -1))
