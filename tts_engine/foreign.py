"""Importing and running other people's model code without what it does to the process.

Such packages set log levels, seeds and thread counts while they are imported, and import a good
deal that only training needs. torch is imported when it is used: only whoever runs an engine does.
"""

from __future__ import annotations

import importlib.util
import logging
import random
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType


class EmptyModule(ModuleType):
    """A module that holds only what is put into it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None, is_package=True)  # who probes for it asks for one
        self.__path__ = []


@contextmanager
def contained() -> Iterator[None]:
    """Undoes what happens inside to the process: logging, random states, threads, warnings.

    Inside, the random states of torch, numpy and Python are there to be used up.
    """
    import numpy as np
    import torch

    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    python, numpy, threads = random.getstate(), np.random.get_state(), torch.get_num_threads()
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(_devices()):
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_num_threads(threads)
        root.setLevel(level)
        root.handlers[:] = handlers


def _devices() -> list[int]:
    """The GPUs whose random states there are: to ask for those of others would start CUDA there."""
    import torch

    return list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []


@contextmanager
def stand_ins(unused: Mapping[str, Mapping[str, tuple[str, ...]]]) -> Iterator[None]:
    """Stands in for packages that are imported and never used, and that are not installed.

    They are in `sys.modules` inside only: nobody else sees them.

    Args:
        unused: by top-level package: its modules that are imported, and the names taken from them.
    """
    placed = [
        _place(name, taken)
        for package, modules in unused.items()
        if importlib.util.find_spec(package) is None
        for name, taken in modules.items()
    ]
    try:
        yield
    finally:
        for name in placed:
            del sys.modules[name]


def _place(name: str, taken: tuple[str, ...]) -> str:
    module = EmptyModule(name)
    for each in taken:
        setattr(module, each, type(each, (), {}))
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    sys.modules[name] = module
    return name
