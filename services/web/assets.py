# pyright: strict
"""The files of the talk page: read once, with their content types and entity tags."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

#: the page's files; flat, so that modules import each other by "./name.js"
FOLDER = Path(__file__).resolve().parent / "static"

#: content types by ending. The system's own table is not asked: it differs between machines, and a
#: browser does not run a module of the wrong type.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """A file of the page.

    Parameters:
        etag: strong entity tag, in its quotes.
    """

    content: bytes
    media_type: str
    etag: str


def load_assets(folder: Path = FOLDER) -> dict[str, Asset]:
    """Reads every file of the folder whose type is known, by name."""
    return {path.name: _asset(path) for path in sorted(folder.iterdir()) if path.suffix in _TYPES}


def _asset(path: Path) -> Asset:
    content = path.read_bytes()
    tag = hashlib.sha256(content).hexdigest()[:32]
    return Asset(content=content, media_type=_TYPES[path.suffix], etag=f'"{tag}"')
