"""The part of the package `tensorrt` that is used, without a GPU.

It notes what it is asked for. An engine is computed by a function that the test gives: its context
reads the inputs from the addresses that it was told, and writes the outputs to theirs.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

#: torch's types by what this package calls them
TYPES = {
    "FLOAT": torch.float32,
    "HALF": torch.float16,
    "BF16": torch.bfloat16,
    "INT64": torch.int64,
}
#: what begins a plan that it builds
PLAN = b"plan of "


@dataclass
class Program:
    """What an engine computes.

    Parameters:
        compute: outputs of inputs, by name.
        inputs, outputs: their types, by name.
        shape: of an output, by its name and the shapes of the inputs.
    """

    compute: Callable[[dict[str, Tensor]], dict[str, Tensor]]
    inputs: dict[str, str]
    outputs: dict[str, str]
    shape: Callable[[str, dict[str, tuple[int, ...]]], tuple[int, ...]]


@dataclass
class FakeTensorRT:
    """Behind the module: how it is to behave, and what it was asked for.

    Parameters:
        program: of every engine.
        version: as the module tells it.
        unread: what the parser complains of; it reads everything otherwise.
        builds, contexts, runs, takes: building succeeds; there is memory for contexts; they run;
            they take every shape.
        context_bytes: of each context.
    """

    program: Program | None = None
    version: str = "10.13.2.6"
    unread: list[str] = field(default_factory=list)
    silent: bool = False
    builds: bool = True
    contexts: bool = True
    runs: bool = True
    takes: bool = True
    context_bytes: int = 64 << 20
    phases: list[tuple[Any, ...]] = field(default_factory=list)
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    built: int = 0
    shapes: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    handles: list[int] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> FakeTensorRT:
        module: Any = ModuleType("tensorrt")
        module.__version__ = self.version
        module.Logger = type("Logger", (), {"WARNING": 2, "__init__": lambda *_: None})
        module.Builder = lambda _: _Builder(self)
        module.OnnxParser = lambda network, _: _Parser(self, network)
        module.Runtime = lambda _: SimpleNamespace(deserialize_cuda_engine=self._read)
        module.IProgressMonitor = object
        module.NetworkDefinitionCreationFlag = SimpleNamespace(STRONGLY_TYPED=1)
        module.BuilderFlag = SimpleNamespace(FP16="FP16", BF16="BF16", TF32="TF32")
        module.MemoryPoolType = SimpleNamespace(WORKSPACE="WORKSPACE")
        module.DataType = SimpleNamespace(**{name: name for name in TYPES})
        module.TensorIOMode = SimpleNamespace(INPUT="INPUT", OUTPUT="OUTPUT")
        monkeypatch.setitem(sys.modules, "tensorrt", module)
        return self

    def calls(self, name: str) -> list[tuple[Any, ...]]:
        """What one function was called with."""
        return [rest for first, *rest in self.asked if first == name]  # type: ignore[misc]

    def _read(self, content: bytes) -> _Engine | None:
        return _Engine(self) if content.startswith(PLAN) else None


class _Builder:
    def __init__(self, fake: FakeTensorRT) -> None:
        self._fake = fake

    def create_network(self, flags: int) -> SimpleNamespace:
        self._fake.asked.append(("create_network", flags))
        return SimpleNamespace(onnx=b"")

    def create_builder_config(self) -> _Config:
        return _Config(self._fake)

    def create_optimization_profile(self) -> _Profile:
        return _Profile(self._fake)

    def build_serialized_network(self, network: Any, config: _Config) -> bytes | None:
        self._fake.built += 1
        monitor = config.progress_monitor
        for name, *rest in self._fake.phases:
            assert getattr(monitor, name)(*rest) in (None, True)
        return PLAN + network.onnx[:16] if self._fake.builds else None


class _Config:
    progress_monitor: Any

    def __init__(self, fake: FakeTensorRT) -> None:
        self._fake = fake

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given: self._fake.asked.append((name, *given))


class _Profile(_Config):
    pass


class _Parser:
    def __init__(self, fake: FakeTensorRT, network: Any) -> None:
        self._fake = fake
        self._network = network

    @property
    def num_errors(self) -> int:
        return 0 if self._fake.silent else len(self._fake.unread)

    def get_error(self, index: int) -> str:
        return self._fake.unread[index]

    def parse_from_file(self, path: str) -> bool:
        self._network.onnx = Path(path).read_bytes()
        return not self._fake.unread


class _Engine:
    def __init__(self, fake: FakeTensorRT) -> None:
        self._fake = fake
        program = fake.program
        self._types = {**program.inputs, **program.outputs} if program else {}

    @property
    def num_io_tensors(self) -> int:
        return len(self._types)

    @property
    def device_memory_size_v2(self) -> int:
        return self._fake.context_bytes

    def get_tensor_name(self, index: int) -> str:
        return list(self._types)[index]

    def get_tensor_dtype(self, name: str) -> str:
        return self._types[name]

    def get_tensor_mode(self, name: str) -> str:
        assert self._fake.program is not None
        return "INPUT" if name in self._fake.program.inputs else "OUTPUT"

    def create_execution_context(self) -> _Context | None:
        return _Context(self._fake) if self._fake.contexts else None


class _Context:
    def __init__(self, fake: FakeTensorRT) -> None:
        self._fake = fake
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        self._fake.shapes.append((name, shape))
        self._shapes[name] = shape
        return self._fake.takes

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        assert self._fake.program is not None
        return self._fake.program.shape(name, self._shapes)

    def set_tensor_address(self, name: str, address: int) -> None:
        self._addresses[name] = address

    def execute_async_v3(self, stream: int) -> bool:
        self._fake.handles.append(stream)
        program = self._fake.program
        assert program is not None
        given = {name: self._at(name, program.inputs[name]) for name in program.inputs}
        for name, result in program.compute(given).items():
            self._at(name, program.outputs[name]).copy_(result)
        return self._fake.runs

    def _at(self, name: str, kind: str) -> Tensor:
        shape = self._shapes.get(name) or self.get_tensor_shape(name)
        empty = torch.empty(shape, dtype=TYPES[kind])
        place = (ctypes.c_char * (empty.numel() * empty.element_size())).from_address(
            self._addresses[name]
        )
        return torch.frombuffer(place, dtype=TYPES[kind]).view(shape)
