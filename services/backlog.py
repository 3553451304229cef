# pyright: strict
"""Bytes that were received and not read yet: read in short stretches, so that others get turns."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

#: bytes that are read before the clock is looked at: 170 of the smallest frames; where they are
#: read quickly more at once, so that 60 ms of audio are not cut into three
_LEAST, _MOST = 1024, 4096
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
        self._slice = _LEAST

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
        started = self._clock()
        until = started + STRETCH_S
        while self._pieces:
            piece, size = self._pieces.popleft(), self._slice
            if len(piece) > size:
                self._pieces.appendleft(piece[size:])
            more = self._read(bytes(piece[:size]))
            now = self._clock()
            quick = now - started < STRETCH_S / 4
            self._slice = min(_MOST, 2 * size) if quick else _LEAST
            if not more or now >= until:
                return
            started = now
