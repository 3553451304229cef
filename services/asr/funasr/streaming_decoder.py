"""The decoder of a streaming Paraformer, the new tokens of many streams in one forward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence


@dataclass(slots=True, kw_only=True)
class DecoderCache:
    """What one stream keeps.

    Parameters:
        tokens: (layers, context, size): the last tokens, which the memory block looks back to.
        attended: (layers, 2, heads, frames, head): keys and values of the last frames of audio
            with which tokens were decoded.
        begun: there are such frames.
    """

    tokens: torch.Tensor
    attended: torch.Tensor
    begun: bool = False

    def copy(self) -> DecoderCache:
        """One that steps on without changing this one."""
        return replace(self)


class StreamingDecoder:
    """Steps FunASR's ParaformerSANMDecoder; it looks back one chunk."""

    def __init__(self, decoder: nn.Module, *, frames: int) -> None:
        """Takes the module apart.

        Args:
            decoder: the module.
            frames: of audio in a chunk.

        Raises:
            AttributeError, ValueError: the module is laid out differently.
        """
        self._decoder: Any = decoder
        self._layers: list[Any] = list(self._decoder.decoders)
        first = self._layers[0]
        if self._decoder.decoders2 is not None or not self._decoder.normalize_before:
            raise ValueError("its decoder has other layers")
        context, ahead = first.self_attn.pad_fn.padding
        if ahead:
            raise ValueError("its decoder looks ahead")
        self._context: int = context
        self._heads: int = first.src_attn.h
        self._head: int = first.src_attn.d_k
        self._size: int = first.size
        self._frames = frames

    def cache(self, device: torch.device, dtype: torch.dtype) -> DecoderCache:
        """Of a stream that begins."""
        layers = len(self._layers)
        shape = (layers, 2, self._heads, self._frames, self._head)
        return DecoderCache(
            tokens=torch.zeros((layers, self._context, self._size), device=device),
            attended=torch.zeros(shape, device=device, dtype=dtype),
        )

    def step(
        self,
        encoded: torch.Tensor,
        lengths: Sequence[int],
        embedded: Sequence[torch.Tensor],
        caches: Sequence[DecoderCache],
    ) -> list[list[int]]:
        """Decodes the new tokens of each row.

        Args:
            encoded: (rows, frames, size) of the encoder.
            lengths: frames of each row that count.
            embedded: (tokens, size) of each row, at least one token.
            caches: of each row; they step on.

        Returns:
            Token ids of each row.
        """
        device = encoded.device
        counts = torch.tensor([len(each) for each in embedded], device=device)
        x = pad_sequence(list(embedded), batch_first=True)
        mask = self._mask(encoded, lengths, caches)
        attended = torch.stack([cache.attended for cache in caches])
        before = torch.stack([cache.tokens for cache in caches])
        # The last tokens of each row, among those before and the new ones.
        places = counts[:, None] + torch.arange(self._context, device=device)
        places = places[:, :, None].expand(-1, -1, self._size)
        heard: list[torch.Tensor] = []
        tokens: list[torch.Tensor] = []
        for number, layer in enumerate(self._layers):
            inner = layer.norm2(layer.feed_forward(layer.norm1(x)))
            context = torch.cat((before[:, number], inner.to(before.dtype)), dim=1)
            tokens.append(context.gather(1, places))
            remembered = layer.self_attn.fsmn_block(context.transpose(1, 2)).transpose(1, 2)
            x = x + remembered + inner
            found, own = self._attend(layer, x, encoded, attended[:, number], mask)
            heard.append(own)
            x = x + found
        for layer in self._decoder.decoders3:
            x = layer.feed_forward(layer.norm1(x))
        likely = self._decoder.output_layer(self._decoder.after_norm(x)).argmax(dim=-1)
        self._keep(torch.stack(heard, dim=1), torch.stack(tokens, dim=1), lengths, caches)
        return [row[: len(each)] for row, each in zip(likely.tolist(), embedded, strict=True)]

    def _mask(
        self, encoded: torch.Tensor, lengths: Sequence[int], caches: Sequence[DecoderCache]
    ) -> torch.Tensor:
        """Which frames each row attends to: (rows, 1, 1, frames before and own)."""
        device = encoded.device
        own = torch.arange(encoded.shape[1], device=device)
        own = own < torch.tensor(lengths, device=device)[:, None]
        begun = torch.tensor([cache.begun for cache in caches], device=device)
        return torch.cat((begun[:, None].expand(-1, self._frames), own), dim=1)[:, None, None]

    def _attend(
        self,
        layer: Any,
        x: torch.Tensor,
        encoded: torch.Tensor,
        attended: torch.Tensor,
        mask: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What the tokens hear; and the keys and values: (rows, 2, heads, frames, head)."""
        attention, heads = layer.src_attn, (self._heads, self._head)
        query = attention.linear_q(layer.norm3(x)).unflatten(-1, heads).transpose(1, 2)
        own = attention.linear_k_v(encoded).unflatten(-1, (2, *heads)).permute(0, 2, 3, 1, 4)
        both = torch.cat((attended.to(own.dtype), own), dim=3)
        found = functional.scaled_dot_product_attention(query, both[:, 0], both[:, 1], mask)
        return attention.linear_out(found.transpose(1, 2).flatten(2)), own

    def _keep(
        self,
        heard: torch.Tensor,
        tokens: torch.Tensor,
        lengths: Sequence[int],
        caches: Sequence[DecoderCache],
    ) -> None:
        for row, (length, cache) in enumerate(zip(lengths, caches, strict=True)):
            # A row that is shorter than a chunk is the last of its stream: nothing follows it.
            if length >= self._frames:
                cache.attended = heard[row, ..., length - self._frames : length, :].clone()
                cache.tokens = tokens[row].clone()
                cache.begun = True
