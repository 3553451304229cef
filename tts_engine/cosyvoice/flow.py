"""Speech tokens to mel frames, block by block, equal to computing everything at once.

In streaming mode the flows of CosyVoice 2 and 3 are block-causal: 25 tokens, counted from the start
of the voice's prompt, see each other, three tokens more, and everything before. So a block is
computed once, when it is complete (or the utterance is at its end), and leaves nothing but caches.
The prompt's blocks are computed once a voice, and shared.

Streams of different voices, at different positions, are computed together, one block of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from tts_engine.cosyvoice.flow_attention import PAIR
from tts_engine.cosyvoice.flow_cache import Snapshot
from tts_engine.cosyvoice.flow_generation import AnyEstimator, generation_of
from tts_engine.cosyvoice.flow_layers import Linear
from tts_engine.cosyvoice.flow_stream import FlowStream, FlowVoice, Geometry
from tts_engine.errors import BadRequest, EngineFailed


class IncrementalFlow:
    """The flow of a checkpoint, computed block by block. Used by one thread at a time.

    The module that is given is not kept: weights that had to be laid out anew or cast are copies,
    the others are shared with it.

    Parameters:
        geometry: what its streams need to know.
        encoder: tokens to means.
        estimator: the velocity at one Euler step.
        times: what the estimator needs of each Euler step's time, [n, channels] each.

    Args:
        flow: a CausalMaskedDiffWithXvec (CosyVoice 2) or CausalMaskedDiffWithDiT (3) in evaluation
            mode.
        steps: Euler steps; 10 is upstream's.
        cache: what is kept of the past: "kv" is faster, "hidden" takes a quarter of the memory, or
            half with CosyVoice 3.
        dtype: of weights, caches and computation; None takes the module's. Time, and the state that
            is integrated, are in single precision in any case.
        pad: compute an utterance's last block at full length, so that all have the same shape; None
            does so except on a CPU, where the shape does not matter and the work does.

    Raises:
        EngineFailed: this is the flow of neither.
    """

    def __init__(
        self,
        flow: Any,
        *,
        steps: int = 10,
        cache: Literal["kv", "hidden"] = "kv",
        dtype: torch.dtype | None = None,
        pad: bool | None = None,
    ) -> None:
        self._generation = generation_of(flow)
        matching = flow.decoder
        weight: Tensor = flow.spk_embed_affine_layer.weight
        dtype = dtype or weight.dtype
        self._starts, self._lengths = _schedule(steps, cosine=matching.t_scheduler == "cosine")
        with torch.inference_mode():
            self.encoder = self._generation.encoder(flow, dtype)
            self._speaker = Linear.of(flow.spk_embed_affine_layer, dtype)
            self._prepare(matching.estimator, dtype, self._starts)
            self._noise: Tensor = matching.rand_noise[0].T.to(weight.device, torch.float32)
        self._attention = self._generation.attentions[cache]
        self._guidance = float(matching.inference_cfg_rate)
        self._rate = int(flow.input_frame_rate)
        self._pad = weight.device.type != "cpu" if pad is None else pad
        ratio = self.encoder.ratio
        block = int(matching.estimator.static_chunk_size) // ratio
        self.geometry = Geometry(
            block=block,
            look_ahead=self.encoder.look_ahead,
            ratio=ratio,
            limit=len(self._noise) // (block * ratio) * block,
            vocabulary=self.encoder.vocabulary,
        )

    def bytes_per_second(self) -> int:
        """Bytes that a second of speech takes in its stream's caches, without spare room."""
        empty = self._empty()
        rates = 1, self.geometry.ratio
        encoder = zip(rates, map(_bytes_per_frame, empty.encoder), strict=False)
        per_frame = sum(map(_bytes_per_frame, empty.estimator))
        per_token = sum(rate * size for rate, size in encoder)
        return self._rate * (per_token + self.geometry.ratio * per_frame)

    @torch.inference_mode()
    def voice(
        self, prompt_tokens: Sequence[int], prompt_mel: Tensor, embedding: Tensor
    ) -> FlowVoice:
        """Computes the prompt's complete blocks.

        Args:
            prompt_tokens: speech tokens of the reference.
            prompt_mel: mel of the reference, [ratio * tokens, 80].
            embedding: speaker embedding, [192].

        Raises:
            BadRequest: lengths do not fit, or a token is none of speech.
        """
        frames = self.geometry.ratio * len(prompt_tokens)
        if prompt_mel.shape[0] != frames:
            raise BadRequest(
                f"a prompt of {len(prompt_tokens)} tokens has {frames} mel frames, "
                f"not {prompt_mel.shape[0]}"
            )
        unit = functional.normalize(embedding.to(self._noise).flatten(), dim=0)
        speaker = self._speaker(unit.to(self._speaker.weight))
        raw = FlowVoice(
            start=self._empty(),
            tail=(),
            tokens=len(prompt_tokens),
            mel=prompt_mel.to(self._noise),
            speaker=speaker,
        )
        stream = self.open(raw)
        stream.push(prompt_tokens)
        while stream.ready:
            self.step([stream])
        return replace(raw, start=stream.cache.snapshot(), tail=stream.pending)

    @torch.inference_mode()
    def open(self, voice: FlowVoice) -> FlowStream:
        """Begins an utterance of a voice that this flow has computed."""
        return FlowStream(self.geometry, voice)

    @torch.inference_mode()
    def step(self, streams: Sequence[FlowStream]) -> list[Tensor]:
        """Computes one block of each stream, all in one batch. If it fails, no stream has changed.

        Args:
            streams: ready ones, each once.

        Returns:
            What each utterance gains, [80, frames] in single precision; frames may be 0.

        Raises:
            EngineFailed: a stream is not ready.
        """
        if not all(stream.ready for stream in streams):
            raise EngineFailed("a block was asked for before its tokens were there")
        if not streams:
            return []
        counts = [stream.count for stream in streams]
        length = self.geometry.block if self._pad else max(counts)
        caches = [stream.cache for stream in streams]
        means, encoded = self.encoder(
            caches, [stream.upcoming for stream in streams], counts, length
        )
        mel, contexts = self._integrate(streams, means)
        for row, cache in enumerate(caches):
            cache.encoder_contexts = tuple(each[row : row + 1].clone() for each in encoded)
            cache.contexts = contexts[:, PAIR * row : PAIR * (row + 1)].clone()
        return [stream.computed(each) for stream, each in zip(streams, mel, strict=True)]

    def _prepare(self, estimator: Any, dtype: torch.dtype, times: Sequence[float]) -> None:
        """Prepares the estimator, and what it needs of these times."""
        self.estimator = self._estimator(estimator, dtype)
        self.times = list(self._generation.times(estimator, times).to(dtype).unbind(0))

    def _estimator(self, estimator: Any, dtype: torch.dtype) -> AnyEstimator:
        return self._generation.estimator(estimator, dtype)

    def _integrate(self, streams: Sequence[FlowStream], means: Tensor) -> tuple[Tensor, Tensor]:
        """Euler's method from noise to mel [streams, frames, 80], guided away from the rows
        without conditions; also returns the contexts [steps, rows, taps - 1, width].
        """
        ratio, frames, size = self.geometry.ratio, means.shape[1], means.shape[2]
        counts = [stream.count * ratio for stream in streams]
        contexts = torch.cat([stream.cache.contexts for stream in streams], 1)
        x = torch.stack([self._noise[at : at + frames] for at in self._positions(streams)])
        given = self._conditions(streams, means)
        after: list[Tensor] = []
        for step, (times, length) in enumerate(zip(self.times, self._lengths, strict=True)):
            stores = [stream.cache.estimator[step] for stream in streams]
            attend = self._attention(stores, frames, counts)
            given[..., :size] = x[:, None]
            velocity, context = self.estimator(given.flatten(0, 1), times, contexts[step], attend)
            after.append(context)
            x = self._advanced(x, velocity.unflatten(0, (-1, PAIR)), length)
        return x, torch.stack(after)

    def _advanced(self, x: Tensor, velocities: Tensor, length: float) -> Tensor:
        """The state [..., a, b] after a step with the velocities [..., 2, a, b] of each pair."""
        guided, free = velocities.float().unbind(-3)
        return x + length * ((1 + self._guidance) * guided - self._guidance * free)

    def _conditions(self, streams: Sequence[FlowStream], means: Tensor) -> Tensor:
        """The estimator's input [streams, 2, frames, 4 * 80]: state (to be filled in), means,
        speaker, the prompt's mel where the block lies in it; the second row's conditions are zeros.
        """
        rows, frames, size = means.shape
        given = means.new_zeros(rows, PAIR, frames, 4 * size)
        given[:, 0, :, size : 2 * size] = means
        for row, (stream, at) in enumerate(zip(streams, self._positions(streams), strict=True)):
            conditions, mel = given[row, 0], stream.voice.mel[at : at + frames]
            conditions[:, 2 * size : 3 * size] = stream.voice.speaker
            conditions[: len(mel), 3 * size :] = mel
        return given

    def _positions(self, streams: Sequence[FlowStream]) -> list[int]:
        """Frames before each stream's next block, those of the prompt included."""
        return [stream.cache.tokens * self.geometry.ratio for stream in streams]

    @torch.inference_mode()
    def _empty(self) -> Snapshot:
        """The state before the first token of a prompt."""
        contexts, stores = self.encoder.empty()
        context = self.estimator.empty()
        past = self._attention.empty(self.estimator.attentions)
        return Snapshot(
            tokens=0,
            encoder_contexts=contexts,
            encoder=stores,
            contexts=torch.stack([context] * len(self.times)),
            estimator=tuple(past for _ in self.times),
        )


def _schedule(steps: int, *, cosine: bool) -> tuple[list[float], list[float]]:
    """Times of the Euler steps, and their lengths, rounded as upstream rounds them."""
    ends = torch.linspace(0, 1, steps + 1)
    if cosine:
        ends = 1 - torch.cos(ends * 0.5 * torch.pi)
    times: list[float] = []
    lengths: list[float] = []
    now = ends[0]
    for end in ends[1:]:
        times.append(float(now))
        lengths.append(float(end - now))
        now = now + (end - now)
    return times, lengths


def _bytes_per_frame(store: Tensor) -> int:
    """Bytes of one frame of a store [..., frames, channels]."""
    return math.prod(store.shape[:-2]) * store.shape[-1] * store.element_size()
