"""The file that the log of a conversation's turns goes to: written in blocks, by a thread."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from loguru import logger

#: lines of a block: about 8 s of a conversation
_BLOCK = 256


class TurnLog:
    """Takes lines at once, and writes them when it suits.

    What is said is in it: only the daemon's own user may read it. A disk that fails ends the log,
    and nothing else.

    Args:
        path: the file; its folder is made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[str] = []
        self._writing: asyncio.Task[None] | None = None
        self._failed = False

    def write(self, line: str) -> None:
        """Takes a line, with its end; to be called on the event loop."""
        if self._failed:
            return
        self._lines.append(line)
        if len(self._lines) >= _BLOCK and self._writing is None:
            self._writing = asyncio.create_task(self._flush())

    async def close(self) -> None:
        """Writes what is left."""
        if self._writing is not None:
            await self._writing
        await self._flush()

    async def _flush(self) -> None:
        block, self._lines = "".join(self._lines), []
        try:
            if block:
                await asyncio.to_thread(self._append, block)
        except OSError as error:
            self._failed = True
            logger.warning("the log of a conversation's turns ends: {}", error)
        finally:
            self._writing = None

    def _append(self, block: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path, "a", encoding="utf-8", opener=_private) as file:
            file.write(block)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
