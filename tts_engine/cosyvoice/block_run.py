"""The flow's block by torch alone, of fixed shapes: compiled, recorded as a CUDA graph, or both.

It is what `export` writes for TensorRT, and stands where an engine would; see `flow_block`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tts_engine.cosyvoice.export import INPUTS, OUTPUTS, BlockStep
from tts_engine.cosyvoice.flow_generation import AnyEstimator
from tts_engine.cosyvoice.graphs import Graphs

_CACHE = INPUTS.index("cache")


class StepRun:
    """Computes what an engine of the exported block computes; see `tensorrt_run.Run`.

    Parameters:
        stream: None: it is computed where the caller is.

    Args:
        estimator: whose block it is.
        compile: it is compiled, when it first runs.
        graphs: replay it.
    """

    stream: torch.cuda.Stream | None = None

    def __init__(self, estimator: AnyEstimator, *, compile: bool, graphs: Graphs | None) -> None:
        step = BlockStep(estimator).eval()
        self._step = torch.compile(step) if compile else step
        self._graphs = graphs

    def __call__(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See Run."""
        given = [inputs[name] for name in INPUTS]
        if self._graphs is None:
            return dict(zip(OUTPUTS, self._step(*given), strict=True))
        # Most of what is given is the past. Its buffer is always the same: it is read in place.
        past = given.pop(_CACHE)

        def run(*rest: Tensor) -> tuple[Tensor, ...]:
            return self._step(*rest[:_CACHE], past, *rest[_CACHE:])

        found = self._graphs((past.data_ptr(),), run, tuple(given))
        return dict(zip(OUTPUTS, found, strict=True))
