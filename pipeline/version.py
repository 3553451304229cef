"""The version of this checkout."""

from __future__ import annotations

import tomllib
from pathlib import Path


def version() -> str:
    """Reads it from pyproject.toml: the one place where it is written."""
    path = Path(__file__).resolve().parent.parent / "pyproject.toml"
    return str(tomllib.loads(path.read_text(encoding="utf-8"))["project"]["version"])
