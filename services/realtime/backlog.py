# pyright: strict
"""Bytes that were received and not read yet: read in short stretches, so that others get turns."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

#: bytes that are read before the clock is looked at: 170 of the smallest frames
_SLICE = 1024
#: how long the event loop is held at a time, seconds
STRETCH_S = 0.002


class Backlog:
    """What a socket gave and the protocol has yet to read.

    Parameters:
        read: reads a piece; says whether more may follow.
        clock: monotonic seconds.
    """

    def __init__(
        self, read: Callable[[bytes], bool], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock = clock
        self._pieces: deque[memoryview] = deque()

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, data: bytes) -> None:
        """More came."""
        self._pieces.append(memoryview(data))

    def clear(self) -> None:
        """Nothing of it is wanted any more."""
        self._pieces.clear()

    def go_on(self) -> None:
        """Reads for a stretch, or until `read` wants no more for now."""
        until = self._clock() + STRETCH_S
        while self._pieces:
            piece = self._pieces.popleft()
            if len(piece) > _SLICE:
                self._pieces.appendleft(piece[_SLICE:])
            if not self._read(bytes(piece[:_SLICE])) or self._clock() >= until:
                return
