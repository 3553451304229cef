"""Stand-ins for what CosyVoice's modules import and never use when they only synthesise.

Its files import a good deal for training and for other models: torchaudio to read files, Whisper's
and OpenAI's tokenizers for CosyVoice 1, and through `matcha.utils` the whole of lightning and hydra
(eighteen seconds). What of that is not installed is stood in for while the modules are imported.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

#: by top-level package: its modules that are imported, and the names taken from them
_UNUSED: dict[str, dict[str, tuple[str, ...]]] = {
    "torchaudio": {
        "torchaudio": (),
        "torchaudio.compliance": (),
        "torchaudio.compliance.kaldi": (),
    },
    "whisper": {"whisper": (), "whisper.tokenizer": ("Tokenizer",)},
    "tiktoken": {"tiktoken": ()},
}


@contextmanager
def stand_ins() -> Iterator[None]:
    """Puts the stand-ins into `sys.modules`, and takes them out again: nobody else sees them."""
    placed = [
        _place(name, taken)
        for package, modules in _UNUSED.items()
        if importlib.util.find_spec(package) is None
        for name, taken in modules.items()
    ]
    try:
        yield
    finally:
        for name in placed:
            del sys.modules[name]


def replace_matcha_utils() -> None:
    """Makes `matcha.utils` an empty package over the same files, with its logger; stays so.

    Raises:
        ImportError: there is no `matcha`.
    """
    import matcha

    utils = _Empty("matcha.utils")
    utils.__path__ = [f"{place}/utils" for place in matcha.__path__]
    logger = _Empty("matcha.utils.pylogger")
    for parent, name, value in (
        (logger, "get_pylogger", logging.getLogger),
        (utils, "pylogger", logger),
        (matcha, "utils", utils),
    ):
        setattr(parent, name, value)
    sys.modules |= {each.__name__: each for each in (utils, logger)}


class _Empty(ModuleType):
    """A module that holds only what is put into it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None, is_package=True)  # who probes for it asks for one
        self.__path__ = []


def _place(name: str, taken: tuple[str, ...]) -> str:
    module = _Empty(name)
    for each in taken:
        setattr(module, each, type(each, (), {}))
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    sys.modules[name] = module
    return name
