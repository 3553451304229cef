"""The encoder of a streaming Paraformer, one chunk of many streams in one forward.

Each row has positions, features held back and attention caches of its own. Rows whose stream ends
are shorter than the others: what follows their frames is masked in the attention, and is zeros to
the memory block, as the end of a chunk is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence


@dataclass(slots=True, kw_only=True)
class EncoderCache:
    """What one stream keeps.

    Parameters:
        position: frames of features so far.
        held: (ahead, width), the last of them, as the encoder takes them: the next chunk's start.
        attended: (layers, 2, heads, slots, head): keys and values of the chunks looked back to, in
            a ring; the order of what is attended to does not matter.
        chunks: chunks that were put into the ring.
    """

    position: int
    held: torch.Tensor
    attended: torch.Tensor
    chunks: int = 0

    def copy(self) -> EncoderCache:
        """One that steps on without changing this one."""
        return replace(self, attended=self.attended.clone())


class StreamingEncoder:
    """Steps FunASR's SANMEncoderChunkOpt."""

    def __init__(
        self, encoder: nn.Module, *, width: int, frames: int, ahead: int, look_back: int
    ) -> None:
        """Takes the module apart.

        Args:
            encoder: the module.
            width: of the features.
            frames: of features in a chunk.
            ahead: frames of the next chunk that a chunk is encoded with.
            look_back: chunks that are attended to beside the own.

        Raises:
            AttributeError, ValueError: the module is laid out differently.
        """
        self.width = width
        self._encoder: Any = encoder
        self._layers: list[Any] = [*self._encoder.encoders0, *self._encoder.encoders]
        if not hasattr(self._encoder.embed, "encode") or not self._encoder.normalize_before:
            raise ValueError("its encoder has another input layer")
        self._heads: int = self._layers[0].self_attn.h
        self._head: int = self._layers[0].self_attn.d_k
        self._scale = self._encoder.output_size() ** 0.5
        self._frames, self._ahead, self._look_back = frames, ahead, look_back

    def cache(self, device: torch.device, dtype: torch.dtype) -> EncoderCache:
        """Of a stream that begins."""
        slots = self._look_back * self._frames
        shape = (len(self._layers), 2, self._heads, slots, self._head)
        return EncoderCache(
            position=0,
            held=torch.zeros((self._ahead, self.width), device=device),
            attended=torch.zeros(shape, device=device, dtype=dtype),
        )

    def step(
        self, features: Sequence[torch.Tensor], caches: Sequence[EncoderCache]
    ) -> tuple[torch.Tensor, list[int]]:
        """Encodes the next frames of each row.

        Args:
            features: (frames, width) of each row: a chunk, or fewer when its stream ends.
            caches: of each row; they step on.

        Returns:
            (rows, frames, size), and how many frames of each row count.
        """
        rows = [self._placed(*each) for each in zip(features, caches, strict=True)]
        lengths = [len(row) for row in rows]
        x = pad_sequence(rows, batch_first=True)
        frames = torch.arange(x.shape[1], device=x.device)
        real = frames < torch.tensor(lengths, device=x.device)[:, None]
        attended = torch.stack([cache.attended for cache in caches])
        mask = torch.cat((self._filled(caches, x.device), real), dim=1)[:, None, None]
        new: list[torch.Tensor] = []
        for number, layer in enumerate(self._layers):
            x, kept = self._layer(layer, x, real, attended[:, number], mask)
            new.append(kept)
        self._keep(torch.stack(new, dim=1), lengths, caches)
        return self._encoder.after_norm(x), lengths

    def _placed(self, features: torch.Tensor, cache: EncoderCache) -> torch.Tensor:
        """New frames with their positions, after those held back; holds the last ones back."""
        if len(features):
            first = cache.position + 1
            positions = torch.arange(first, first + len(features))[None]
            encoding = self._encoder.embed.encode(positions, self.width, torch.float32)
            features = features * self._scale + encoding[0].to(features.device)
            cache.position += len(features)
        frames = torch.cat((cache.held, features))
        cache.held = frames[len(frames) - self._ahead :]
        return frames

    def _filled(self, caches: Sequence[EncoderCache], device: torch.device) -> torch.Tensor:
        """Which slots of each ring hold something: (rows, slots)."""
        slots = torch.arange(self._look_back * self._frames, device=device)
        filled = [cache.chunks * self._frames for cache in caches]
        return slots < torch.tensor(filled, device=device)[:, None]

    def _layer(
        self,
        layer: Any,
        x: torch.Tensor,
        real: torch.Tensor,
        attended: torch.Tensor,
        mask: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One layer; gives its own keys and values too: (rows, 2, heads, frames, head)."""
        attention = layer.self_attn
        mixed = attention.linear_q_k_v(layer.norm1(x))
        query, keys, values = mixed.unflatten(-1, (3, self._heads, self._head)).permute(
            2, 0, 3, 1, 4
        )
        memory = (values.transpose(1, 2).flatten(2) * real[:, :, None]).to(mixed.dtype)
        own = torch.stack((keys, values), dim=1)
        both = torch.cat((attended.to(own.dtype), own), dim=3)
        found = functional.scaled_dot_product_attention(query, both[:, 0], both[:, 1], mask)
        found = attention.linear_out(found.transpose(1, 2).flatten(2))
        found = found + _remembered(attention, memory)
        x = x + found if layer.in_size == layer.size else found
        return x + layer.feed_forward(layer.norm2(x)), own

    def _keep(
        self, new: torch.Tensor, lengths: Sequence[int], caches: Sequence[EncoderCache]
    ) -> None:
        """Puts the chunk of each row that goes on into its ring."""
        if not self._look_back:
            return
        for row, (length, cache) in enumerate(zip(lengths, caches, strict=True)):
            if length == self._frames + self._ahead:
                slot = cache.chunks % self._look_back * self._frames
                cache.attended[..., slot : slot + self._frames, :] = new[
                    row, ..., : self._frames, :
                ]
                cache.chunks += 1


def _remembered(attention: Any, values: torch.Tensor) -> torch.Tensor:
    """The memory block: a convolution over the frames of this chunk, and what it was given."""
    return attention.fsmn_block(attention.pad_fn(values.transpose(1, 2))).transpose(1, 2) + values
