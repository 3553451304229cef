"""What a stream keeps of its past blocks, behind what the voice keeps of its prompt.

The flow is block-causal: a block of tokens, once computed, never changes, and later blocks need
three things of it: the keys and values of each attention, the last frames of each causal
convolution's input, and nothing else. The prompt's part belongs to the voice: it is computed once,
never written again, and shared by reference. A stream appends its own behind it.
"""

from __future__ import annotations

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

    @property
    def nbytes(self) -> int:
        """Bytes held beyond the prefix, spare room included."""
        return self._own.numel() * self._own.element_size()

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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a flow after some complete blocks. Read-only, and shared by every stream.

    Parameters:
        tokens: tokens computed, a multiple of the block.
        look_ahead, upsampled: contexts of the encoder's two causal convolutions, [1, k - 1, 512].
        encoder: keys and values of the encoder's two halves, [layers, 2, 1, heads, frames, d]; a
            token is one frame in the first, and several in the second.
        contexts: of the estimator's convolutions, [steps, 2, k - 1, all their channels].
        estimator: of the estimator's attentions, one tensor a step: [layers, 2, 2, heads, frames,
            d] (keys and values; conditioned and not) or [layers, 2, frames, channels].
    """

    tokens: int
    look_ahead: Tensor
    upsampled: Tensor
    encoder: tuple[Tensor, ...]
    contexts: Tensor
    estimator: tuple[Tensor, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        small = (self.look_ahead, self.upsampled, self.contexts)
        return sum(x.numel() * x.element_size() for x in (*small, *self.encoder, *self.estimator))


class Cache:
    """The state of one stream. Contexts are replaced, never written; stores grow.

    A block writes into room that it reserves and changes the state only when it is complete, so a
    block that fails leaves the state as it was.
    """

    def __init__(self, start: Snapshot) -> None:
        self.tokens = start.tokens
        self.look_ahead = start.look_ahead
        self.upsampled = start.upsampled
        self.contexts = start.contexts
        self.encoder = tuple(Store(prefix) for prefix in start.encoder)
        self.estimator = tuple(Store(prefix) for prefix in start.estimator)

    @property
    def nbytes(self) -> int:
        """Bytes that the stream holds beyond its voice's, but for a megabyte of contexts."""
        return sum(store.nbytes for store in (*self.encoder, *self.estimator))

    def commit(self, tokens: int, ratio: int) -> None:
        """Keeps a block of `tokens` tokens and `ratio` frames a token in all stores."""
        frames = tokens * ratio
        for store, kept in zip(self.encoder, (tokens, frames), strict=True):
            store.commit(kept)
        for store in self.estimator:
            store.commit(frames)
        self.tokens += tokens

    def snapshot(self) -> Snapshot:
        """A read-only copy of the present state."""
        return Snapshot(
            tokens=self.tokens,
            look_ahead=self.look_ahead,
            upsampled=self.upsampled,
            encoder=tuple(store.frozen() for store in self.encoder),
            contexts=self.contexts,
            estimator=tuple(store.frozen() for store in self.estimator),
        )
