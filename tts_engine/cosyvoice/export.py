"""ONNX export of the incremental flow's block, for runtimes that compile fixed shapes.

Upstream's own export of the estimator takes a whole mel and no caches, so that a runtime has to
compute everything anew for every chunk. This one is one Euler step of one block: the past comes in
as a cache of fixed size with its length, and what the block adds to it comes out. Weights are part
of the file; what depends on the step alone (`IncrementalFlow.times`) is an input, so one file
serves all steps. The encoder, a fiftieth of the work, is not in it.

Inputs, for `rows` = two a stream (with conditions, without) and a block of 50 frames:

    x         [rows, 50, 320]                       state, means, speaker, given mel
    times     [stages, channels]                    `IncrementalFlow.times` of the step
    contexts  [rows, 2, width]                      of the causal convolutions
    cache     [layers, 2, rows, heads, past, d]     keys and values; behind `length` any finite ones
    length    int64 [rows]                          frames in the cache
    count     int64 [rows]                          frames of the block that are no padding

Outputs:

    velocity  [rows, 50, 80]
    contexts_next                                   like contexts
    cache_next [layers, 2, rows, heads, 50, d]      the block's keys and values
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch
from torch import Tensor, nn

from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.flow_attention import PAIR, KeyValueAttention, Projections, merged
from tts_engine.cosyvoice.flow_estimator import Estimator
from tts_engine.cosyvoice.flow_generation import AnyEstimator
from tts_engine.errors import EngineFailed

INPUTS = ("x", "times", "contexts", "cache", "length", "count")
OUTPUTS = ("velocity", "contexts_next", "cache_next")
OPSET = 18


def export_block(flow: IncrementalFlow, path: Path, *, streams: int, past: int) -> None:
    """Writes the block as an ONNX file, in the flow's precision.

    Args:
        flow: whose estimator to export; its kind of cache does not matter.
        path: of the file; its directory exists.
        streams: streams that one run computes.
        past: frames of the past that fit, those of the prompt included; 50 are a second.

    Raises:
        EngineFailed: the packages that write ONNX files are not installed, or this is the flow of
            CosyVoice 3, whose attention needs positions that the file does not take.
    """
    if importlib.util.find_spec("onnxscript") is None:
        raise EngineFailed(
            "exporting needs the package onnxscript, which is not installed",
            mend="Run `make engines`.",
        )
    geometry = flow.geometry
    frames = geometry.block * geometry.ratio
    with torch.inference_mode():
        inputs = _example(flow, streams=streams, past=past, frames=frames)
        torch.onnx.export(
            BlockStep(flow.estimator).eval(),
            tuple(inputs[name] for name in INPUTS),
            path,
            input_names=list(INPUTS),
            output_names=list(OUTPUTS),
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            verbose=False,
        )


def _example(flow: IncrementalFlow, *, streams: int, past: int, frames: int) -> dict[str, Tensor]:
    """Inputs of the shapes that are exported, all zeros and with an empty past."""
    rows = PAIR * streams
    times = flow.times[0]
    layers, two, _, heads, _, width = KeyValueAttention.empty(flow.estimator.attentions).shape
    contexts = flow.estimator.empty()
    return {
        "x": times.new_zeros(rows, frames, flow.estimator.channels),
        "times": times,
        "contexts": contexts.repeat(streams, 1, 1),
        "cache": times.new_zeros(layers, two, rows, heads, past, width),
        "length": torch.zeros(rows, dtype=torch.long, device=times.device),
        "count": torch.full((rows,), frames, device=times.device),
    }


class BlockStep(nn.Module):
    """One Euler step as a module of tensors only."""

    def __init__(self, estimator: AnyEstimator) -> None:
        if not isinstance(estimator, Estimator):
            raise EngineFailed("a block of fixed shapes can be had of CosyVoice 2's flow only")
        super().__init__()
        self._estimator = estimator

    def forward(
        self,
        x: Tensor,
        times: Tensor,
        contexts: Tensor,
        cache: Tensor,
        length: Tensor,
        count: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs and outputs are those of the file."""
        attend = _FixedAttention(cache, length, count, x.shape[1])
        velocity, after = self._estimator(x, times, contexts, attend)
        return velocity, after, torch.stack(attend.kept)


class _FixedAttention:
    """Attention to a cache of fixed size, of which a part is not there yet, and to the block."""

    def __init__(self, cache: Tensor, length: Tensor, count: Tensor, frames: int) -> None:
        past = cache.shape[-2]
        at = torch.arange(past + frames, device=cache.device)
        before, within = at < length[:, None], (at >= past) & (at < past + count[:, None])
        self._hidden = ~(before | within)[:, None, None]
        self._cache = cache
        self.kept: list[Tensor] = []

    def __call__(self, layer: int, weights: Projections, x: Tensor) -> Tensor:
        """Attends as an `Attention` does."""
        q, k, v = weights.split(x)
        self.kept.append(torch.stack([k, v]))
        keys = torch.cat([self._cache[layer, 0], k], -2)
        values = torch.cat([self._cache[layer, 1], v], -2)
        scores = (q @ keys.mT).masked_fill(self._hidden, float("-inf"))
        return merged(torch.softmax(scores, -1) @ values)
