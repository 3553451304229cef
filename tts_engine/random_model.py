"""What the makers of models with random weights have in common: a directory that appears whole."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tts_engine.errors import BadRequest


def check_empty(out: Path) -> None:
    """Makes sure that a directory can be made.

    Raises:
        BadRequest: it is there, and holds something.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadRequest(f"{out} is not empty", mend="Name a directory that is not there yet.")


@contextmanager
def appearing(out: Path) -> Iterator[Path]:
    """A directory to be filled inside, which becomes `out` when that is done, or goes.

    Raises:
        OSError: the disk is full or cannot be written.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    making = out.with_name(f".{out.name}.{os.getpid()}")
    making.mkdir()
    try:
        yield making
        os.replace(making, out)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def recipe_of(package: Path) -> str:
    """Twelve characters that change with whatever a package makes its models from, torch included:
    its files that have "random" in their name, and those in its folder `random`.
    """
    import torch

    sha = hashlib.sha256(torch.__version__.encode())
    for path in sorted((*package.glob("*random*.py"), *(package / "random").iterdir())):
        sha.update(path.read_bytes())
    return sha.hexdigest()[:12]
