"""Speech tokens of many utterances at once: continuous batching over CosyVoice's language model.

Utterances join and leave between steps. A step is one pass of the model, whatever it holds: the
prompts of those that are new, the next token of those that go on. It either happens for all of its
streams or, when it raises, for none: stepping each alone then tells which is at fault, and the
others go on, token for token, as if nothing had been.

The only thing that waits for the device is the transfer of a step's tokens to the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import torch
from torch import Tensor, nn

from tts_engine.cosyvoice.backbone import Backbone, upload
from tts_engine.cosyvoice.kv_cache import CacheRow
from tts_engine.cosyvoice.sampling import BROKEN, Sampling, draw, uniforms
from tts_engine.errors import AtCapacity, BadRequest, EngineFailed


@dataclass(frozen=True, slots=True)
class LlmPrompt:
    """What was said before, in the voice that is to go on.

    Parameters:
        text_ids: its text; an instruction that ends in <|endofprompt|> for a style.
        speech_tokens: its speech; none where only an instruction is given.
    """

    text_ids: tuple[int, ...] = ()
    speech_tokens: tuple[int, ...] = ()


class TokenStream:
    """One utterance's tokens; made by `TokenDecoder.open`, advanced by `TokenDecoder.step`.

    Attributes:
        tokens: speech tokens so far.
        done: no more will come: the speech ended, reached its longest, or was closed.
    """

    def __init__(
        self,
        decoder: TokenDecoder,
        *,
        prompt: LlmPrompt,
        text_ids: tuple[int, ...],
        bounds: tuple[int, int],
        random: Random,
    ) -> None:
        self.tokens: list[int] = []
        self.done = False
        self.prompt = prompt
        self.text_ids = text_ids
        self.min_tokens, self.max_tokens = bounds
        self.row: CacheRow | None = None
        self._decoder = decoder
        self._random = random
        self.uniform = uniforms(random)

    def accept(self, token: int | None) -> None:
        """Takes what a step drew; for the decoder."""
        if token is not None:
            self.tokens.append(token)
            self.uniform = uniforms(self._random)
        self.done = token is None or len(self.tokens) == self.max_tokens

    def close(self) -> None:
        """Ends the stream, wherever it is, and frees its cache. Idempotent."""
        self.done = True
        self._decoder.forget(self)


class TokenDecoder:
    """Decodes the utterances that it is given, a token of each per step. For one thread.

    Parameters:
        llm: CosyVoice's language model (`Qwen2LM` or `CosyVoice3LM`), in eval mode.
        max_batch: most streams open at once.
        sampling: how tokens are drawn.
    """

    def __init__(self, llm: nn.Module, *, max_batch: int, sampling: Sampling | None = None) -> None:
        parts = cast("Any", llm)
        self._backbone = Backbone(parts.llm.model.model, max_rows=max_batch)
        self._speech_embedding = cast("nn.Embedding", parts.speech_embedding)
        self._head = cast("nn.Linear", parts.llm_decoder)
        self._speech_tokens = int(parts.speech_token_size)
        # CosyVoice2 has a table for the two marks, CosyVoice3 keeps them among the speech tokens.
        table = getattr(parts, "llm_embedding", self._speech_embedding).weight.detach()
        self._start = table[int(getattr(parts, "sos", 0))][None]
        self._turn = table[int(parts.task_id)][None]
        self._max_batch = max_batch
        self._sampling = sampling or Sampling()
        self._open: set[TokenStream] = set()
        #: passes of the model so far
        self.steps = 0

    @property
    def cache_bytes(self) -> int:
        """Bytes that the open streams hold now."""
        return self._backbone.cache.nbytes

    @property
    def bytes_per_token(self) -> int:
        """Bytes that each token of a stream takes, those of its prompt too."""
        return self._backbone.cache.bytes_per_position

    def open(
        self,
        prompt: LlmPrompt,
        text_ids: Sequence[int],
        *,
        min_tokens: int,
        max_tokens: int,
        seed: int,
    ) -> TokenStream:
        """Begins an utterance; it costs nothing until its first step.

        Args:
            prompt: what was said before.
            text_ids: what to say.
            min_tokens: the speech does not end before; CosyVoice's own is 2 per text token.
            max_tokens: the speech ends there; CosyVoice's own is 20 per text token.
            seed: the same seed gives the same tokens, in whatever company.

        Raises:
            BadRequest: ids that the model does not know, no text, bounds that cannot be kept.
            AtCapacity: `max_batch` streams are open.
        """
        self._check(prompt, text_ids, min_tokens, max_tokens)
        if len(self._open) >= self._max_batch:
            raise AtCapacity(f"{self._max_batch} utterances are being decoded")
        stream = TokenStream(
            self,
            prompt=prompt,
            text_ids=tuple(text_ids),
            bounds=(min_tokens, max_tokens),
            random=Random(seed),
        )
        self._open.add(stream)
        return stream

    @torch.inference_mode()
    def step(self, streams: Sequence[TokenStream]) -> list[int | None]:
        """The next token of each stream, in one pass; None where the speech ended.

        Raises:
            EngineFailed: the model's output is no number.
            ValueError: a stream that is done, or named twice.
        """
        if any(stream.done for stream in streams) or len(set(streams)) < len(streams):
            raise ValueError("Only streams that are not done can be stepped, each once")
        if not streams:
            return []
        # Rows that go on come first and in the cache's order, which spares copies of the cache.
        order = sorted(streams, key=_place)
        drawn = self._forward(order)
        if BROKEN in drawn:
            raise EngineFailed("The language model's output is not finite")
        self.steps += 1
        found = dict(zip(order, drawn, strict=True))
        return [self._accept(stream, found[stream]) for stream in streams]

    def forget(self, stream: TokenStream) -> None:
        """Frees what is held for a stream; for `TokenStream.close`."""
        self._open.discard(stream)
        row, stream.row = stream.row, None
        if row is not None:
            self._backbone.cache.release(row)

    def _check(self, prompt: LlmPrompt, text_ids: Sequence[int], low: int, high: int) -> None:
        if not text_ids:
            raise BadRequest("There is no text to say")
        if not 0 <= low <= high or high < 1:
            raise BadRequest(f"Between {low} and {high} speech tokens cannot be kept")
        texts = (*prompt.text_ids, *text_ids)
        if min(texts) < 0 or max(texts) >= self._backbone.text_tokens:
            raise BadRequest("A text token is not in the model's vocabulary")
        speech = prompt.speech_tokens
        if speech and (min(speech) < 0 or max(speech) >= self._speech_tokens):
            raise BadRequest("A speech token of the prompt is not in the model's vocabulary")
        longest = 2 + len(texts) + len(speech) + high
        if longest > self._backbone.max_positions:
            raise BadRequest(
                f"An utterance of up to {longest} tokens is longer than the model can hold "
                f"({self._backbone.max_positions})"
            )

    def _forward(self, streams: Sequence[TokenStream]) -> list[int]:
        """Draws for each stream without advancing it; those that go on come first."""
        rows: list[tuple[CacheRow, int]] = []
        for stream in streams:
            if stream.row is None:
                stream.row = self._backbone.cache.take()
            rows.append((stream.row, 1 if stream.tokens else self._prompt_length(stream)))
        hidden = self._backbone.forward(self._inputs(streams), rows)
        return self._draw(self._head(hidden).float(), streams).tolist()

    def _inputs(self, streams: Sequence[TokenStream]) -> Tensor:
        latest = [stream.tokens[-1] for stream in streams if stream.tokens]
        parts = [self._speech(latest)] if latest else []
        for stream in streams:
            if not stream.tokens:
                texts = self._ids((*stream.prompt.text_ids, *stream.text_ids))
                parts += [self._start, self._backbone.embed(texts), self._turn]
                parts.append(self._speech(stream.prompt.speech_tokens))
        return torch.cat(parts)

    def _draw(self, logits: Tensor, streams: Sequence[TokenStream]) -> Tensor:
        window = self._sampling.window
        # One transfer for the whole numbers: the latest tokens, and whether the row may stop.
        whole = [
            [
                *stream.tokens[-window:],
                *[-1] * (window - len(stream.tokens)),
                int(len(stream.tokens) >= stream.min_tokens),
            ]
            for stream in streams
        ]
        known = self._ids(whole)
        uniform = [stream.uniform for stream in streams]
        return draw(
            logits,
            recent=known[:, :window],
            may_stop=known[:, window] > 0,
            uniform=upload(uniform, dtype=torch.float32, device=logits.device),
            speech_tokens=self._speech_tokens,
            rule=self._sampling,
        )

    def _accept(self, stream: TokenStream, drawn: int) -> int | None:
        token = drawn if drawn < self._speech_tokens else None
        row = cast("CacheRow", stream.row)
        row.length += 1 if stream.tokens else self._prompt_length(stream)
        stream.accept(token)
        if stream.done:
            self.forget(stream)
        return token

    def _speech(self, tokens: Sequence[int]) -> Tensor:
        return self._speech_embedding(self._ids(tokens))

    def _ids(self, values: Sequence[Any]) -> Tensor:
        return upload(values, dtype=torch.int64, device=self._backbone.device)

    @staticmethod
    def _prompt_length(stream: TokenStream) -> int:
        prompt = stream.prompt
        return 2 + len(prompt.text_ids) + len(stream.text_ids) + len(prompt.speech_tokens)


def _place(stream: TokenStream) -> tuple[bool, int]:
    """Sorts streams that go on, by their place in the cache, before those that are new."""
    return not stream.tokens, stream.row.slot if stream.row else 0
