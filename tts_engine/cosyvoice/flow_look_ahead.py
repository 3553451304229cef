"""How both generations' flows read speech tokens: embedded, with a view of those that come next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tts_engine.cosyvoice.flow_layers import CausalConv


def embedded(table: Tensor, tokens: Sequence[Sequence[int]], length: int) -> tuple[Tensor, Tensor]:
    """Rows of a table of embeddings, and where there are tokens.

    Args:
        table: [vocabulary, channels].
        tokens: of each stream, up to `length`.
        length: tokens to which all are padded.

    Returns:
        [streams, length, channels], with any row of the table where a token is lacking; and
        [streams, length, 1], 1 where there is one and 0 elsewhere.
    """
    ids = torch.zeros(len(tokens), length, dtype=torch.long)
    given = torch.zeros(len(tokens), length, 1)
    for row, each in enumerate(tokens):
        ids[row, : len(each)] = torch.tensor(each)
        given[row, : len(each)] = 1
    return functional.embedding(ids.to(table.device), table), given.to(table)


@dataclass(frozen=True, slots=True)
class LookAhead:
    """Two convolutions beside a shortcut: the first sees tokens to the right, the second the past.

    Parameters:
        ahead: its taps are a token and the next ones.
        after: causal.
    """

    ahead: CausalConv
    after: CausalConv

    @classmethod
    def of(cls, layer: Any, dtype: torch.dtype) -> LookAhead:
        """Takes over a PreLookaheadLayer."""
        return cls(CausalConv.of(layer.conv1, dtype), CausalConv.of(layer.conv2, dtype))

    def empty(self) -> Tensor:
        """The context before the first token: zeros, [1, taps - 1, channels]."""
        return self.after.empty(1)

    def __call__(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """One block of embedded tokens and those that it looks ahead to; returns its output, and
        the next block's context.
        """
        y, context = self.after(functional.leaky_relu(self.ahead.valid(x)), context)
        return y + x[:, : y.shape[1]], context
