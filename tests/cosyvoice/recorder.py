"""CUDA graphs without CUDA: what was recorded is run again, over the same tensors."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


class FakeGraph:
    """A recorded run."""

    def __init__(self, run: Callable[[], tuple[Tensor, ...]]) -> None:
        self._run = run
        self.results = run()
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        for place, new in zip(self.results, self._run(), strict=True):
            place.copy_(new)


class Recorder:
    """Records as `graphs.record_cuda` does."""

    def __init__(self) -> None:
        self.graphs: list[FakeGraph] = []

    def __call__(
        self, run: Callable[[], tuple[Tensor, ...]]
    ) -> tuple[FakeGraph, tuple[Tensor, ...]]:
        graph = FakeGraph(run)
        self.graphs.append(graph)
        return graph, graph.results
