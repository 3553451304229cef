"""Collects what `on_partial` is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from services.asr.base import Transcript


class Partials(list[Transcript]):
    """All partials; is itself what is told of them."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def __call__(self, partial: Transcript) -> None:
        self.append(partial)
        self._changed.set()

    async def until(self, condition: Callable[[str], bool]) -> None:
        """Waits until the text of the last one fulfils a condition."""
        async with asyncio.timeout(60):
            while not (self and condition(self[-1].text)):
                self._changed.clear()
                await self._changed.wait()

    def check(self) -> None:
        """What must be true of all of them: none is final, and their ends never fall."""
        assert not any(partial.final for partial in self)
        ends = [partial.audio_s for partial in self]
        assert ends == sorted(ends)
