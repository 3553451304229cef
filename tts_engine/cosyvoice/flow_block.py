"""The incremental flow with its estimator's blocks computed by an engine of our own export.

The engine takes a past of one size. What a stream has kept is laid into a buffer of that size
before each run, which costs what attention over a growing past costs as well: it is read and
written once. So streams keep what they keep without an engine, voices are shared as before, and a
stream whose past outgrows the engine goes on without it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.flow_attention import PAIR, Attention, KeyValueAttention
from tts_engine.cosyvoice.flow_cache import Store
from tts_engine.cosyvoice.flow_estimator import Estimator
from tts_engine.cosyvoice.flow_generation import check_second
from tts_engine.cosyvoice.tensorrt_run import Lanes, Run


class BlockFlow(IncrementalFlow):
    """A flow whose estimator is an engine of `export.export_block`, made for one stream a run.

    Args:
        flow: a CausalMaskedDiffWithXvec in evaluation mode.
        lanes: of the engine, or of anything that computes the same.
        past: frames of the past that the engine takes.
        steps: Euler steps.
        dtype: as for IncrementalFlow, and as the block was exported.

    Raises:
        EngineFailed: this is not the flow of CosyVoice 2.
    """

    def __init__(
        self,
        flow: Any,
        *,
        lanes: Lanes,
        past: int,
        steps: int = 10,
        dtype: torch.dtype | None = None,
    ) -> None:
        # The base prepares the estimator, for which it takes both.
        check_second(flow)
        self._lanes = lanes
        self._past = past
        super().__init__(flow, steps=steps, dtype=dtype, pad=True)

    def _estimator(self, estimator: Any, dtype: torch.dtype) -> Estimator:
        """See IncrementalFlow."""
        return EngineEstimator(estimator, dtype, self._lanes, self._past)


class EngineEstimator(Estimator):
    """An estimator that an engine computes, as long as the past fits.

    Args:
        estimator: a CausalConditionalDecoder.
        dtype: of weights and computation.
        lanes: of the engine.
        past: frames of the past that it takes.
    """

    def __init__(self, estimator: Any, dtype: torch.dtype, lanes: Lanes, past: int) -> None:
        super().__init__(estimator, dtype)
        self._lanes = lanes
        self._past = past
        layers, two, rows, heads, _, width = KeyValueAttention.empty(self.attentions).shape
        weight = self.attentions[0].qkv
        # Zeros: what lies behind the past is masked, and must be finite.
        self._pasts = [
            weight.new_zeros(layers, two, rows, heads, past, width) for _ in range(len(lanes))
        ]

    def __call__(
        self, x: Tensor, times: Tensor, contexts: Tensor, attend: Attention
    ) -> tuple[Tensor, Tensor]:
        """See Estimator; each pair of rows is a stream's."""
        # The block's room was reserved when this was made: a store that had to grow was copied on
        # the main stream, for which the lanes wait, and they find the room there.
        assert isinstance(attend, KeyValueAttention)
        if any(store.total > self._past for store in attend.stores):
            return super().__call__(x, times, contexts, attend)
        pairs = zip(x.split(PAIR), contexts.split(PAIR), attend.stores, attend.counts, strict=True)
        done = self._lanes.each([partial(self._one, times, *pair) for pair in pairs])
        velocities, after = zip(*done, strict=True)
        return torch.cat(velocities), torch.cat(after)

    def _one(
        self,
        times: Tensor,
        x: Tensor,
        contexts: Tensor,
        store: Store,
        count: int,
        lane: int,
        run: Run,
    ) -> tuple[Tensor, Tensor]:
        """A stream's velocity and next contexts; keeps its keys and values."""
        past, shared = self._pasts[lane], store.prefix.shape[-2]
        past[..., :shared, :] = store.prefix
        past[..., shared : store.total, :] = store.with_next(0)
        outputs = run(
            {
                "x": x,
                "times": times,
                "contexts": contexts,
                "cache": past,
                "length": _rows(store.total, x.device),
                "count": _rows(count, x.device),
            }
        )
        store.reserve(x.shape[1]).copy_(outputs["cache_next"])
        return outputs["velocity"], outputs["contexts_next"]


def _rows(value: int, device: torch.device) -> Tensor:
    """A number for both rows, made on the device: copying it there would wait for it."""
    return torch.full((PAIR,), value, dtype=torch.int64, device=device)
