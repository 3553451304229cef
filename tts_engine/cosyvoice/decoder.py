"""Speech tokens of many utterances at once: continuous batching over CosyVoice's language model.

Utterances join and leave between steps. A step is one pass of the model, whatever it holds: the
prompts of those that are new, the next token of those that go on. It either happens for all of its
streams or, when it raises, for none: stepping each alone then tells which is at fault, and the
others go on, token for token, as if nothing had been.

The only thing that waits for the device is the transfer of a step's tokens to the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from random import Random
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from tts_engine.cosyvoice.backbone import Backbone, upload
from tts_engine.cosyvoice.graphs import Graphs
from tts_engine.cosyvoice.kv_cache import CacheRow
from tts_engine.cosyvoice.order import Interleaved, LlmPrompt, Part, Whole
from tts_engine.cosyvoice.sampling import BROKEN, Sampling, draw, uniforms
from tts_engine.errors import AtCapacity, BadRequest, EngineFailed


class TokenStream:
    """One utterance's tokens; made by `TokenDecoder.open`, advanced by `TokenDecoder.step`.

    Attributes:
        tokens: speech tokens so far.
        done: no more will come: the speech ended, reached its longest, or was closed.
        text_ids: what to say, as far as it has come.
    """

    def __init__(
        self,
        decoder: TokenDecoder,
        *,
        prompt: LlmPrompt,
        text_ids: tuple[int, ...],
        bounds: tuple[int, int],
        random: Random,
        whole: bool,
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
        self.order = Whole(prompt, text_ids) if whole else Interleaved(prompt)
        if isinstance(self.order, Interleaved):
            self.order.push(text_ids)

    @property
    def ready(self) -> bool:
        """It can be stepped: it is not done, and does not wait for text."""
        return not self.done and self.order.ready

    def push(self, text_ids: Sequence[int]) -> None:
        """Takes more of the text of a stream that was opened with `more`.

        Raises:
            BadRequest: ids that the model does not know, or more than it can hold.
        """
        texts = (*self.text_ids, *text_ids)
        self._decoder.check(self.prompt, texts, self.min_tokens, self.max_tokens)
        assert isinstance(self.order, Interleaved)
        self.order.push(text_ids)
        self.text_ids = texts

    def finish(self, *, min_tokens: int, max_tokens: int) -> None:
        """No more of the text comes.

        Args:
            min_tokens, max_tokens: as of `TokenDecoder.open`, now that the text is known; what
                there is already stays.
        """
        assert isinstance(self.order, Interleaved)
        self.order.finish()
        self.min_tokens, self.max_tokens = min_tokens, max_tokens
        self.done = self.done or len(self.tokens) >= max_tokens
        if self.done:
            self._decoder.forget(self)

    def accept(self, token: int | None) -> None:
        """Takes what a step drew; for the decoder."""
        over = token is None and self.order.may_end
        self.order.drawn(token)
        if token is not None:
            self.tokens.append(token)
            self.uniform = uniforms(self._random)
        self.done = over or len(self.tokens) == self.max_tokens

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
        compile: what lies between the attentions is compiled, when it first runs.
        graphs: replay the steps in which no prompt is read.
    """

    def __init__(
        self,
        llm: nn.Module,
        *,
        max_batch: int,
        sampling: Sampling | None = None,
        compile: bool = False,
        graphs: Graphs | None = None,
    ) -> None:
        parts = cast("Any", llm)
        self._backbone = Backbone(parts.llm.model.model, max_rows=max_batch)
        if compile:
            self._backbone.compile()
        if graphs is not None:
            self._backbone.use_graphs(graphs)
        self._speech_embedding = cast("nn.Embedding", parts.speech_embedding)
        self._head = cast("nn.Linear", parts.llm_decoder)
        self._speech_tokens = int(parts.speech_token_size)
        # CosyVoice2 has a table for the two marks, CosyVoice3 keeps them among the speech tokens.
        table = getattr(parts, "llm_embedding", self._speech_embedding).weight.detach()
        start, turn = int(getattr(parts, "sos", 0)), int(parts.task_id)
        self._marks = torch.stack((table[start], table[turn]))
        #: the id, among those that are no speech, by which the model asks for text: in CosyVoice2
        #: behind the end and a spare one, in CosyVoice3 behind the second mark
        self._fill = 2 if hasattr(parts, "llm_embedding") else turn + 1 - self._speech_tokens
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
        more: bool = False,
    ) -> TokenStream:
        """Begins an utterance; it costs nothing until its first step.

        Args:
            prompt: what was said before.
            text_ids: what to say.
            min_tokens: the speech does not end before; CosyVoice's own is 2 per text token.
            max_tokens: the speech ends there; CosyVoice's own is 20 per text token.
            seed: the same seed gives the same tokens, in whatever company.
            more: the text is not whole: see `TokenStream.push` and `TokenStream.finish`. Until it
                is, the speech does not end but at `max_tokens`.

        Raises:
            BadRequest: ids that the model does not know, no text, bounds that cannot be kept.
            AtCapacity: `max_batch` streams are open.
        """
        self.check(prompt, text_ids, min_tokens, max_tokens)
        if len(self._open) >= self._max_batch:
            raise AtCapacity(f"{self._max_batch} utterances are being decoded")
        stream = TokenStream(
            self,
            prompt=prompt,
            text_ids=tuple(text_ids),
            bounds=(min_tokens, max_tokens),
            random=Random(seed),
            whole=not more,
        )
        self._open.add(stream)
        return stream

    @torch.inference_mode()
    def step(self, streams: Sequence[TokenStream]) -> list[int | None]:
        """The next token of each stream, in one pass; None where the speech ended, or where more of
        the text is wanted first.

        Raises:
            EngineFailed: the model's output is no number.
            ValueError: a stream that is not ready, or named twice.
        """
        if not all(stream.ready for stream in streams) or len(set(streams)) < len(streams):
            raise ValueError("Only streams that are ready can be stepped, each once")
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

    def check(self, prompt: LlmPrompt, text_ids: Sequence[int], low: int, high: int) -> None:
        """Refuses what cannot be decoded; see `open`."""
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
        """Draws for each stream without advancing it; they are in the order of `_place`."""
        rows: list[tuple[CacheRow, int]] = []
        for stream in streams:
            if stream.row is None:
                stream.row = self._backbone.cache.take()
            rows.append((stream.row, _length(stream)))
        parts = [part for stream in streams for part in stream.order.upcoming()]
        hidden = self._backbone.forward(self._inputs(parts), rows)
        return self._draw(self._head(hidden).float(), streams).tolist()

    def _inputs(self, parts: Iterable[Part]) -> Tensor:
        """Embeddings of parts, one after another; a run of one kind is looked up at once."""
        runs = groupby(parts, key=lambda part: part.kind)
        return torch.cat(
            [self._embed(kind, [each for part in run for each in part.ids]) for kind, run in runs]
        )

    def _embed(self, kind: str, ids: Sequence[int]) -> Tensor:
        known = self._ids(ids)
        if kind == "text":
            return self._backbone.embed(known)
        return self._speech_embedding(known) if kind == "speech" else embedding(known, self._marks)

    def _draw(self, logits: Tensor, streams: Sequence[TokenStream]) -> Tensor:
        window = self._sampling.window
        # One transfer for the whole numbers: the latest tokens, and what else may come.
        whole = [
            [
                *stream.tokens[-window:],
                *[-1] * (window - len(stream.tokens)),
                *_permitted(stream),
            ]
            for stream in streams
        ]
        known = self._ids(whole)
        others = known[:, window : window + 1].repeat(1, logits.shape[1] - self._speech_tokens)
        others[:, self._fill] = known[:, window + 1]
        uniform = [stream.uniform for stream in streams]
        return draw(
            logits,
            recent=known[:, :window],
            others=others > 0,
            uniform=upload(uniform, dtype=torch.float32, device=logits.device),
            speech_tokens=self._speech_tokens,
            rule=self._sampling,
        )

    def _accept(self, stream: TokenStream, drawn: int) -> int | None:
        token = drawn if drawn < self._speech_tokens else None
        row = cast("CacheRow", stream.row)
        row.length += _length(stream)
        stream.accept(token)
        if stream.done:
            self.forget(stream)
        return token

    def _ids(self, values: Sequence[Any]) -> Tensor:
        return upload(values, dtype=torch.int64, device=self._backbone.device)


def _length(stream: TokenStream) -> int:
    """Tokens that the next pass reads."""
    return sum(len(part.ids) for part in stream.order.upcoming())


def _permitted(stream: TokenStream) -> tuple[int, int]:
    """Whether the speech may end now, and whether the model may ask for text."""
    order, long_enough = stream.order, len(stream.tokens) >= stream.min_tokens
    may_end = order.may_end and long_enough
    return int(may_end), int(order.may_fill and (may_end or not order.may_end))


def _place(stream: TokenStream) -> tuple[bool, int]:
    """Sorts streams that go on by one token, by their place in the cache, before the others."""
    row = stream.row
    return not (row and row.length and _length(stream) == 1), row.slot if row else 0
