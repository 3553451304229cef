"""Firmware that devices load over the air: a folder with `BOARD/VERSION.bin`.

What a device asks for is looked up among what is there; no path is made of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

FIRMWARE_PATH = "/xiaozhi/firmware/"
#: folders and files that are looked at
_MOST = 1_024
_BOARD = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", re.ASCII)
#: a device dies of anything that is no number
_VERSION = re.compile(r"[0-9]{1,8}(?:\.[0-9]{1,8}){0,7}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Firmware:
    """A file that a board can load."""

    board: str
    version: str
    path: Path


def numeric(version: str) -> str:
    """A version as devices can read one; empty: it is none."""
    version = version.strip()
    return version if _VERSION.fullmatch(version) else ""


class FirmwareFolder:
    """The files of a folder, as they are now.

    Parameters:
        path: it; None: there is none.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def newer(self, board: str, version: str) -> Firmware | None:
        """The newest for a board, if it is newer than what it has. Looks at the disk.

        Args:
            board: in any case.
            version: see `numeric`; a device that does not tell it is offered nothing.
        """
        found = [each for each in self._files() if each.board.lower() == board.lower()]
        best = max(found, key=lambda each: _order(each.version), default=None)
        return best if best and version and _order(best.version) > _order(version) else None

    def file(self, board: str, name: str) -> Firmware | None:
        """What is at `BOARD/VERSION.bin`. Looks at the disk."""
        for each in self._files():
            if (each.board, f"{each.version}.bin") == (board, name):
                return each
        return None

    def _files(self) -> list[Firmware]:
        if self._path is None:
            return []
        try:
            paths = sorted(self._path.glob("*/*.bin"))[:_MOST]
            return [
                Firmware(board=path.parent.name, version=path.stem, path=path)
                for path in paths
                if _BOARD.fullmatch(path.parent.name) and numeric(path.stem) and path.stat().st_size
            ]
        except OSError as error:
            logger.warning("the firmware in {} cannot be read: {}", self._path, error)
            return []


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
