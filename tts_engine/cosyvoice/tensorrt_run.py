"""Runs an engine of TensorRT on torch's tensors, several times at once.

An execution context computes one thing at a time, so each has a CUDA stream of its own, and work
for different utterances goes to different ones. Nothing here makes the host wait: what was queued
before is waited for on the device, and so is what was handed out.

Written without a GPU: see `tts_engine.cosyvoice.tensorrt`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from tts_engine.errors import EngineFailed

#: execution contexts of an engine: more of them hardly overlap, and each takes memory
CONTEXTS = 4
#: to what the addresses of tensors have to be aligned, bytes
_ALIGNMENT = 256

_T = TypeVar("_T")


class Run(Protocol):
    """One thing at a time that computes outputs of inputs."""

    @property
    def stream(self) -> torch.cuda.Stream | None:
        """Where its work is queued; None: on the CPU, at once."""
        ...

    def __call__(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Queues the computation; tensors by the names that they have in the ONNX file."""
        ...


class EngineRun:
    """An execution context and its stream.

    Parameters:
        trt: the package `tensorrt`.
        engine: an engine of it.
        device: of the tensors.

    Raises:
        EngineFailed: there is no memory for it.
    """

    def __init__(self, trt: Any, engine: Any, device: torch.device) -> None:
        self._context = engine.create_execution_context()
        if self._context is None:
            raise _no_room(int(engine.device_memory_size_v2))
        self._device = device
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        types = {
            trt.DataType.FLOAT: torch.float32,
            trt.DataType.HALF: torch.float16,
            trt.DataType.BF16: torch.bfloat16,
            trt.DataType.INT64: torch.int64,
        }
        names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
        self._types = {name: types[engine.get_tensor_dtype(name)] for name in names}
        given = trt.TensorIOMode.INPUT
        self._inputs = [name for name in names if engine.get_tensor_mode(name) == given]
        self._outputs = [name for name in names if name not in self._inputs]
        self._shapes: dict[str, tuple[int, ...]] = {}

    def __call__(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See Run.

        Raises:
            EngineFailed: TensorRT refuses a shape, or to run.
        """
        # A tensor that is given up here is not written to before the work is done: its memory is
        # only handed out again to what is queued behind on the same stream.
        held = [self._bind(name, inputs[name]) for name in self._inputs]
        outputs = {name: self._room(name) for name in self._outputs}
        handle = 0 if self.stream is None else self.stream.cuda_stream
        if not self._context.execute_async_v3(handle):
            raise EngineFailed("TensorRT did not run its engine; the log says why")
        del held
        return outputs

    def _bind(self, name: str, given: Tensor) -> Tensor:
        tensor = given.to(self._types[name]).contiguous()
        if tensor.data_ptr() % _ALIGNMENT:
            tensor = tensor.clone()
        shape = tuple(tensor.shape)
        if self._shapes.get(name) != shape:
            if not self._context.set_input_shape(name, shape):
                raise EngineFailed(f"TensorRT's engine does not take {name} of the shape {shape}")
            self._shapes[name] = shape
        self._context.set_tensor_address(name, tensor.data_ptr())
        return tensor

    def _room(self, name: str) -> Tensor:
        shape = tuple(self._context.get_tensor_shape(name))
        tensor = torch.empty(shape, dtype=self._types[name], device=self._device)
        self._context.set_tensor_address(name, tensor.data_ptr())
        return tensor


class Lanes:
    """Several runs, over which work is spread.

    Parameters:
        runs: at least one.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = tuple(runs)

    def __len__(self) -> int:
        return len(self._runs)

    def each(self, jobs: Sequence[Callable[[int, Run], _T]]) -> list[_T]:
        """Does all jobs, as far as possible at the same time.

        Args:
            jobs: each is given a lane's index and its run, and queues its work.

        Returns:
            What each gave; it can be used on the present stream.
        """
        used = self._runs[: len(jobs)]
        for run in used:
            if run.stream is not None:
                run.stream.wait_stream(torch.cuda.current_stream(run.stream.device))
        results: list[_T] = []
        try:
            for index, job in enumerate(jobs):
                lane = index % len(self._runs)
                with _on(self._runs[lane].stream):
                    results.append(job(lane, self._runs[lane]))
        finally:
            # Also where a job fails: other lanes still use what the caller then lets go of.
            for run in used:
                if run.stream is not None:
                    torch.cuda.current_stream(run.stream.device).wait_stream(run.stream)
        return results


def lanes_of(trt: Any, engine: Any, *, device: torch.device, count: int, free: int) -> Lanes:
    """Execution contexts of an engine.

    Args:
        trt: the package `tensorrt`.
        engine: an engine of it.
        device: where it runs.
        count: contexts.
        free: bytes of the device's memory that are free.

    Raises:
        EngineFailed: there is no memory for them.
    """
    needed = count * int(engine.device_memory_size_v2)
    if needed > free:
        raise _no_room(needed, free)
    return Lanes([EngineRun(trt, engine, device) for _ in range(count)])


def _on(stream: torch.cuda.Stream | None) -> AbstractContextManager[Any]:
    return nullcontext() if stream is None else torch.cuda.stream(stream)


def _no_room(needed: int, free: int | None = None) -> EngineFailed:
    there = "" if free is None else f", and {free >> 20} are free"
    return EngineFailed(
        f"too little memory: TensorRT's contexts need {needed >> 20} MiB{there}",
        mend="Free some, set tts.cosyvoice.max_requests to less, or tts.cosyvoice.tensorrt to off.",
    )
