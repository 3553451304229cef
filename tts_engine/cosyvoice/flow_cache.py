"""What a stream keeps of its past blocks, behind what the voice keeps of its prompt.

The flow is block-causal: a block of tokens, once computed, never changes, and later blocks need
three things of it: the keys and values of each attention, the last frames of each causal
convolution's input, and nothing else. The prompt's part belongs to the voice: it is computed once,
never written again, and shared by reference. A stream appends its own behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

#: blocks of room that a full store gains at least, and the part of its length that it gains
GROWTH_BLOCKS = 2
GROWTH_PART = 0.25


class Store:
    """A tensor [..., frames, channels] that grows along its frames, behind a shared prefix.

    Parameters:
        prefix: the voice's part, [..., p, channels], never written; p may be 0.
    """

    def __init__(self, prefix: Tensor) -> None:
        self.prefix = prefix
        self._own = prefix.new_empty(*prefix.shape[:-2], 0, prefix.shape[-1])
        self.length = 0

    @property
    def total(self) -> int:
        """Frames kept, those of the prefix included."""
        return self.prefix.shape[-2] + self.length

    def reserve(self, frames: int) -> Tensor:
        """Room for the next `frames` frames, [..., frames, channels], to be written in place."""
        if self.length + frames > self._own.shape[-2]:
            room = max(GROWTH_BLOCKS * frames, int(self.length * GROWTH_PART))
            shape = (*self.prefix.shape[:-2], self.length + room, self.prefix.shape[-1])
            grown = self.prefix.new_empty(shape)
            grown.narrow(-2, 0, self.length).copy_(self._own.narrow(-2, 0, self.length))
            self._own = grown
        return self._own.narrow(-2, self.length, frames)

    def with_next(self, frames: int) -> Tensor:
        """The stream's own frames, and the first `frames` of the room just reserved."""
        return self._own.narrow(-2, 0, self.length + frames)

    def commit(self, frames: int) -> None:
        """Keeps the first `frames` frames of the room just reserved."""
        self.length += frames

    def frozen(self) -> Tensor:
        """Prefix and own frames in one new tensor, as the prefix of other stores."""
        return torch.cat([self.prefix, self.with_next(0)], -2)


class Growing:
    """The stores of some streams, as a block is written into them layer by layer.

    Args:
        stores: [layers, ...] of each stream; room is reserved in them, and nothing committed.
        frames: frames of the block.
        counts: those of each stream that are no padding.
    """

    def __init__(self, stores: Sequence[Store], frames: int, counts: Sequence[int]) -> None:
        self._rooms = [store.reserve(frames).unbind(0) for store in stores]
        self._prefixes = [store.prefix.unbind(0) for store in stores]
        self._own = [
            store.with_next(count).unbind(0) for store, count in zip(stores, counts, strict=True)
        ]

    def keep(self, layer: int, stream: int, new: Tensor) -> Tensor:
        """Keeps a stream's frames of a layer; returns all that it has, the voice's first.

        Both runs are copied into one, for a moment: one fused attention over the copy costs half
        as much as two over the parts.
        """
        self._rooms[stream][layer].copy_(new)
        return torch.cat([self._prefixes[stream][layer], self._own[stream][layer]], -2)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a flow after some complete blocks. Read-only, and shared by every stream.

    Parameters:
        tokens: tokens computed, a multiple of the block.
        encoder_contexts: of the encoder's causal convolutions, [1, k - 1, channels] each.
        encoder: keys and values of the encoder's two halves, [layers, 2, 1, heads, frames, d]; a
            token is one frame in the first, and several in the second. CosyVoice 3 has none.
        contexts: of the estimator's convolutions, [steps, 2, k - 1, all their channels].
        estimator: of the estimator's attentions, one tensor a step: [layers, 2, 2, heads, frames,
            d] (keys and values; conditioned and not) or [layers, 2, frames, channels].
    """

    tokens: int
    encoder_contexts: tuple[Tensor, ...]
    encoder: tuple[Tensor, ...]
    contexts: Tensor
    estimator: tuple[Tensor, ...]


class Cache:
    """The state of one stream. Contexts are replaced, never written; stores grow.

    A block writes into room that it reserves and changes the state only when it is complete, so a
    block that fails leaves the state as it was.
    """

    def __init__(self, start: Snapshot) -> None:
        self.tokens = start.tokens
        self.encoder_contexts = start.encoder_contexts
        self.contexts = start.contexts
        self.encoder = tuple(Store(prefix) for prefix in start.encoder)
        self.estimator = tuple(Store(prefix) for prefix in start.estimator)

    def commit(self, tokens: int, ratio: int) -> None:
        """Keeps a block of `tokens` tokens and `ratio` frames a token in all stores."""
        frames = tokens * ratio
        for store, kept in zip(self.encoder, (tokens, frames), strict=False):
            store.commit(kept)
        for store in self.estimator:
            store.commit(frames)
        self.tokens += tokens

    def snapshot(self) -> Snapshot:
        """A read-only copy of the present state."""
        return Snapshot(
            tokens=self.tokens,
            encoder_contexts=self.encoder_contexts,
            encoder=tuple(store.frozen() for store in self.encoder),
            contexts=self.contexts,
            estimator=tuple(store.frozen() for store in self.estimator),
        )
