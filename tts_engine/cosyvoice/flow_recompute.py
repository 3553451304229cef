"""The flow as upstream's users run it with TensorRT: every block computes the whole mel again.

Upstream's exported estimator takes a whole mel and has no caches. It attends to all of it, not only
backwards, so what a block gives is not what a pass over the whole utterance would give: earlier
frames would have come out a little otherwise had later ones been known. That is how upstream's own
streaming behaves with TensorRT. The encoder is the incremental one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.flow_attention import PAIR
from tts_engine.cosyvoice.flow_cache import Snapshot
from tts_engine.cosyvoice.flow_stream import FlowStream
from tts_engine.cosyvoice.tensorrt_plan import ESTIMATOR_FRAMES, ESTIMATOR_OUTPUT
from tts_engine.cosyvoice.tensorrt_run import Lanes, Run


class RecomputedFlow(IncrementalFlow):
    """A flow whose estimator is an engine of upstream's export. Streams keep means, nothing else.

    Args:
        flow: of either generation, in evaluation mode.
        lanes: of the engine, or of anything that computes the same.
        steps: Euler steps.
        dtype: of the encoder; None takes the module's.

    Raises:
        EngineFailed: this is the flow of neither.
    """

    def __init__(
        self, flow: Any, *, lanes: Lanes, steps: int = 10, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__(flow, steps=steps, dtype=dtype)
        self._lanes = lanes
        longest = ESTIMATOR_FRAMES[-1] // self.geometry.ratio
        self.geometry = replace(self.geometry, limit=min(self.geometry.limit, longest))

    def _prepare(self, estimator: Any, dtype: torch.dtype, times: Sequence[float]) -> None:
        """See IncrementalFlow: nothing, since the engine has an estimator of its own."""

    def _integrate(self, streams: Sequence[FlowStream], means: Tensor) -> tuple[Tensor, Tensor]:
        """See IncrementalFlow; there are no contexts."""
        for stream, new in zip(streams, means, strict=True):
            stream.cache.estimator[0].reserve(len(new)).copy_(new)
        frames = means.shape[1]
        mel = self._lanes.each([partial(self._mel, stream, frames) for stream in streams])
        return torch.stack(mel), means.new_zeros(0, PAIR * len(streams), 0)

    def _mel(self, stream: FlowStream, frames: int, _: int, run: Run) -> Tensor:
        """The block's frames of the mel, [frames, 80]; zeros where it is all prompt."""
        ratio, voice = self.geometry.ratio, stream.voice
        before, count = ratio * stream.cache.tokens, ratio * stream.count
        mel = torch.zeros_like(self._noise[:frames])
        if before + count <= ratio * voice.tokens:
            return mel
        x = self._noise[: before + count].T
        inputs = self._inputs(stream, count)
        for start, length in zip(self._starts, self._lengths, strict=True):
            inputs["x"].copy_(x.expand_as(inputs["x"]))
            inputs["t"].fill_(start)
            x = self._advanced(x, run(inputs)[ESTIMATOR_OUTPUT], length)
        mel[:count] = x[:, before:].T
        return mel

    def _inputs(self, stream: FlowStream, count: int) -> dict[str, Tensor]:
        """The engine's inputs for all frames up to the block's last: with conditions, without."""
        store, voice = stream.cache.estimator[0], stream.voice
        means = torch.cat([store.prefix, store.with_next(count)])
        frames, size = means.shape
        empty = self._noise.new_zeros
        inputs = {
            "x": empty(PAIR, size, frames),
            "mask": self._noise.new_ones(PAIR, 1, frames),
            "mu": empty(PAIR, size, frames),
            "t": empty(PAIR),
            "spks": empty(PAIR, size),
            "cond": empty(PAIR, size, frames),
        }
        given = voice.mel[:frames]
        inputs["mu"][0] = means.T
        inputs["spks"][0] = voice.speaker
        inputs["cond"][0, :, : len(given)] = given.T
        return inputs

    @torch.inference_mode()
    def _empty(self) -> Snapshot:
        """See IncrementalFlow: in place of the attentions' past come the means."""
        contexts, stores = self.encoder.empty()
        return Snapshot(
            tokens=0,
            encoder_contexts=contexts,
            encoder=stores,
            contexts=contexts[0].new_zeros(0, PAIR, 0),
            estimator=(contexts[0].new_zeros(0, self._noise.shape[1]),),
        )
