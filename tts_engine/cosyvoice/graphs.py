"""CUDA graphs: what a pass asks of the device, recorded once and replayed by one call of the host.

A decoding step is some thousand small operations, which a fast GPU does sooner than the host can
ask for them. A graph is recorded for fixed shapes and addresses: inputs are copied to where it
reads them, results from where it writes them.

Recording and replaying have not been run on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from tts_engine.errors import ConfigError

#: runs before the recording: libraries choose and allocate in the first ones
_WARM = 3

Tensors: TypeAlias = tuple[Tensor, ...]


class Recorded(Protocol):
    """Something recorded."""

    def replay(self) -> None:
        """Does it again."""
        ...


#: runs something once, and records it
Record: TypeAlias = "Callable[[Callable[[], Tensors]], tuple[Recorded, Tensors]]"


def check_graphs(device: str) -> None:
    """Refuses CUDA graphs where there is no CUDA.

    Raises:
        ConfigError
    """
    if not device.startswith("cuda"):
        raise ConfigError(
            f"CUDA graphs need a GPU, and CosyVoice's device is {device}",
            mend="Set tts.cosyvoice.cuda_graphs to false, or tts.cosyvoice.device to cuda.",
        )


def record_cuda(run: Callable[[], Tensors]) -> tuple[Recorded, Tensors]:
    """Records on the present CUDA device."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(_WARM):
            run()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = run()
    return graph, results


class Graphs:
    """Graphs by what they are for. Not for more than one thread.

    Parameters:
        record: `record_cuda`, or the same for another device.
    """

    def __init__(self, record: Record = record_cuda) -> None:
        self._record = record
        self._graphs: dict[tuple[int, ...], tuple[Recorded, Tensors, Tensors]] = {}

    def __call__(
        self, key: tuple[int, ...], run: Callable[..., Tensors], inputs: Tensors
    ) -> Tensors:
        """Runs something; from the second time on by its graph.

        Args:
            key: what else than the inputs decides what `run` does. The first number is of a memory
                that it uses: graphs of another one are dropped.
            run: tensors to tensors, without asking what is in them.
            inputs: of the same shapes for the same key.

        Returns:
            What `run` gives.
        """
        found = self._graphs.get(key)
        if found is None:
            self._graphs = {each: kept for each, kept in self._graphs.items() if each[0] == key[0]}
            places = tuple(each.clone() for each in inputs)
            graph, results = self._record(lambda: run(*places))
            self._graphs[key] = found = graph, places, results
        graph, places, results = found
        for place, given in zip(places, inputs, strict=True):
            place.copy_(given)
        graph.replay()
        return tuple(each.clone() for each in results)
