"""The encoder of CosyVoice 3's flow, block by block: speech tokens at 25 Hz in, means at 50 Hz out.

It is no more than the look-ahead: embeddings already have a mel's width, each becomes as many
frames as a token has, and all else is left to the estimator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tts_engine.cosyvoice.flow_cache import Cache
from tts_engine.cosyvoice.flow_look_ahead import LookAhead, embedded


class DitEncoder:
    """The encoder's weights, prepared.

    Parameters:
        vocabulary: number of speech tokens.
        look_ahead: tokens that a block waits for beyond its own.
        ratio: mel frames a token.

    Args:
        flow: a CausalMaskedDiffWithDiT.
        dtype: of weights and computation.
    """

    def __init__(self, flow: Any, dtype: torch.dtype) -> None:
        self._tokens: Tensor = flow.input_embedding.weight.detach().to(dtype)
        self._layer = LookAhead.of(flow.pre_lookahead_layer, dtype)
        self.vocabulary: int = flow.vocab_size
        self.look_ahead: int = flow.pre_lookahead_len
        self.ratio: int = flow.token_mel_ratio

    def empty(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The state before the first token: the context of a convolution, and no stores."""
        return (self._layer.empty(),), ()

    def __call__(
        self,
        caches: Sequence[Cache],
        tokens: Sequence[Sequence[int]],
        counts: Sequence[int],
        length: int,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One block of each stream, as `flow_encoder.Encoder` does; there is nothing to commit."""
        rows, given = embedded(self._tokens, tokens, length + self.look_ahead)
        context = torch.cat([cache.encoder_contexts[0] for cache in caches])
        x, context = self._layer(rows * given, context)
        return x.repeat_interleave(self.ratio, 1), (context,)
