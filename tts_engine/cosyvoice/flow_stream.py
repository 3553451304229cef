"""Voices and streams of the incremental flow: what they hold, and what can be computed next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from tts_engine.cosyvoice.flow_cache import Cache, Snapshot
from tts_engine.errors import BadRequest, EngineFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """The numbers of a flow that its streams need.

    Parameters:
        block: tokens that are computed together.
        look_ahead: tokens that a block waits for beyond its own.
        ratio: mel frames a token.
        limit: tokens that a prompt and an utterance may have together.
        vocabulary: number of speech tokens.
    """

    block: int
    look_ahead: int
    ratio: int
    limit: int
    vocabulary: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowVoice:
    """A voice's prompt, as far as it can be computed before anything is said. Read-only.

    Parameters:
        start: state after the prompt's complete blocks.
        tail: the prompt's other tokens.
        tokens: number of tokens of the whole prompt.
        mel: of the prompt, [ratio * tokens, 80].
        speaker: projected speaker embedding, [80].
    """

    start: Snapshot
    tail: tuple[int, ...]
    tokens: int
    mel: Tensor
    speaker: Tensor


class FlowStream:
    """The tokens and the state of one utterance. Made by `IncrementalFlow.open`."""

    def __init__(self, geometry: Geometry, voice: FlowVoice) -> None:
        self.voice = voice
        self._geometry = geometry
        self._pending = list(voice.tail)
        self._finished = False
        self._cache: Cache | None = Cache(voice.start)

    def push(self, tokens: Sequence[int]) -> None:
        """Adds tokens of the utterance.

        Raises:
            BadRequest: a token is none of speech, the utterance gets longer than the model's noise
                reaches, or it was finished before.
            EngineFailed: the stream is closed.
        """
        limit, last = self._geometry.limit, self._geometry.vocabulary - 1
        length = self.cache.tokens + len(self._pending) + len(tokens)
        if self._finished:
            raise BadRequest("the utterance was finished before these tokens came")
        if any(not 0 <= token <= last for token in tokens):
            raise BadRequest(f"speech tokens are 0 to {last}")
        if length > limit:
            raise BadRequest(
                f"voice and utterance together have {length} tokens; the flow takes {limit}",
                mend="Say it in several utterances.",
            )
        self._pending += tokens

    def finish(self) -> None:
        """No more tokens come. Idempotent."""
        self._finished = True

    def close(self) -> None:
        """Frees the caches; the stream is done. Idempotent."""
        self._finished, self._cache = True, None
        self._pending.clear()

    @property
    def need(self) -> int:
        """Tokens lacking before the next block; 0 when it is ready, and when there is none."""
        if self._finished:
            return 0
        return max(0, self._geometry.block + self._geometry.look_ahead - len(self._pending))

    @property
    def ready(self) -> bool:
        """Whether a block can be computed."""
        return self.need == 0 and not self.done

    @property
    def done(self) -> bool:
        """Whether all mel frames of the utterance were given, or the stream is closed."""
        if self._cache is None:
            return True
        return self._finished and self._cache.tokens + len(self._pending) <= max(
            self.voice.tokens, self._cache.tokens
        )

    @property
    def cache(self) -> Cache:
        """The state after the blocks so far.

        Raises:
            EngineFailed: the stream is closed.
        """
        if self._cache is None:
            raise EngineFailed("the stream of mel frames is closed")
        return self._cache

    @property
    def pending(self) -> tuple[int, ...]:
        """Tokens not computed yet."""
        return tuple(self._pending)

    @property
    def upcoming(self) -> list[int]:
        """The next block's tokens, and those that it looks ahead to."""
        return self._pending[: self._geometry.block + self._geometry.look_ahead]

    @property
    def count(self) -> int:
        """Tokens of the next block."""
        return min(self._geometry.block, len(self._pending))

    def computed(self, mel: Tensor) -> Tensor:
        """Takes note of the next block as computed.

        Args:
            mel: its frames, [ratio * count or more, 80].

        Returns:
            Those that are the utterance's own, [80, frames].
        """
        count, ratio = self.count, self._geometry.ratio
        prompt = max(0, self.voice.tokens - self.cache.tokens)
        self.cache.commit(count, ratio)
        del self._pending[:count]
        return mel[prompt * ratio : count * ratio].T.contiguous()
