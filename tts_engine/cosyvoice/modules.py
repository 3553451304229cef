"""Brings in the code of CosyVoice's modules: from a checkout, or from the installed package.

Only whoever runs the engine imports this: it loads torch and transformers, which takes seconds.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tts_engine.cosyvoice.stubs import replace_matcha_utils, stand_ins
from tts_engine.errors import EngineFailed
from tts_engine.foreign import contained

#: the package that carries the modules of CosyVoice 2
PACKAGE = "cosyvoice-minicpmo"
#: what mends an installation without torch, transformers or the modules
INSTALL = "Run `make engines`"

_MODULES = (
    "cosyvoice.llm.llm",
    "cosyvoice.flow.flow",
    "cosyvoice.flow.flow_matching",
    "cosyvoice.flow.decoder",
    "cosyvoice.transformer.upsample_encoder",
    "cosyvoice.hifigan.generator",
    "cosyvoice.hifigan.f0_predictor",
    "cosyvoice.tokenizer.tokenizer",
)
_COSYVOICE3 = "cosyvoice.flow.DiT.dit"

_lock = threading.Lock()


def import_modules(home: Path | None = None) -> None:
    """Makes `cosyvoice` and `matcha` importable and imports the modules of the models.

    What they do to the process while they are imported is undone: log levels and handlers, seeds,
    thread counts, warning filters. Idempotent; a process uses one place of the modules.

    Args:
        home: a git checkout of CosyVoice with its submodule third_party/Matcha-TTS; None takes the
            installed package, which knows CosyVoice 2 only.

    Raises:
        EngineFailed: the modules, or what they need, are not there, or another place's modules are
            imported already.
    """
    places = [] if home is None else _checkout(home)
    with _lock:
        if (loaded := _loaded_from()) is not None:
            if home is not None and not loaded.is_relative_to(home.resolve()):
                raise EngineFailed(f"CosyVoice's modules were already imported from {loaded}")
            return
        try:
            with _on_path(places):
                _check_installed(home)
                with contained():
                    _import_all()
        except ImportError as error:
            raise EngineFailed(
                f"CosyVoice's modules cannot be imported: {error}", mend=f"{INSTALL}."
            ) from error


def knows_cosyvoice3() -> bool:
    """Whether the imported modules can build CosyVoice 3."""
    return _COSYVOICE3 in sys.modules


def _import_all() -> None:
    # Before the stand-ins are there: transformers remembers which packages it found.
    from transformers import Qwen2ForCausalLM  # noqa: F401

    replace_matcha_utils()
    with stand_ins():
        for name in _MODULES:
            importlib.import_module(name)
        if importlib.util.find_spec(_COSYVOICE3.rpartition(".")[0]) is not None:
            importlib.import_module(_COSYVOICE3)


def _checkout(home: Path) -> list[str]:
    """The directories of a checkout that belong on `sys.path`."""
    matcha = home / "third_party" / "Matcha-TTS"
    if not (home / "cosyvoice" / "llm" / "llm.py").is_file():
        raise EngineFailed(
            f"{home} is no checkout of CosyVoice: it has no cosyvoice/llm/llm.py",
            mend="Name the directory of a git checkout.",
        )
    if not (matcha / "matcha").is_dir():
        raise EngineFailed(
            f"the checkout {home} lacks its submodule third_party/Matcha-TTS",
            mend=f"Run `git -C {home} submodule update --init --recursive`.",
        )
    return [str(home.resolve()), str(matcha.resolve())]


def _check_installed(home: Path | None) -> None:
    """Makes sure that `cosyvoice` is the model's code: another package has taken that name."""
    spec = importlib.util.find_spec("cosyvoice")
    if spec is None:
        raise EngineFailed(
            "CosyVoice's modules are not installed",
            mend=f"{INSTALL}, or name a git checkout with tts.cosyvoice.home.",
        )
    places = list(spec.submodule_search_locations or [])
    if home is None and not any((Path(each) / "llm" / "llm.py").is_file() for each in places):
        raise EngineFailed(
            f"the installed package `cosyvoice` ({', '.join(places)}) is not CosyVoice's own code",
            mend=f"Uninstall it and run `make engines`, which installs {PACKAGE}.",
        )


def _loaded_from() -> Path | None:
    """Where the modules came from, once all of them are imported."""
    if not all(name in sys.modules for name in _MODULES):
        return None
    file = sys.modules["cosyvoice.llm.llm"].__file__
    return Path(file or "").resolve()


@contextmanager
def _on_path(places: list[str]) -> Iterator[None]:
    """Looks into `places` first; afterwards the packages know their own directories."""
    sys.path[:0] = places
    try:
        yield
    finally:
        for each in places:
            sys.path.remove(each)
        importlib.invalidate_caches()
