"""Sleeping until a time or until somebody rings, whichever is first."""

from __future__ import annotations

import asyncio
import math
import time

#: timers are set later by this, seconds: uvloop counts whole milliseconds from the beginning of the
#: loop's turn and so fires too early, after which a short rest would be spun away
_TICK_S = 0.001


class Alarm:
    """Wakes the one task that sleeps on it.

    A future and one timer handle: `asyncio.wait_for` would cost a task each time.
    """

    def __init__(self) -> None:
        self._sleeper: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wakes the sleeper; whoever falls asleep after this is not woken by it."""
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def sleep(self, until: float = math.inf) -> None:
        """Sleeps until a time of the monotonic clock, or until `ring`.

        It may return a little early or late: what is waited for has to be looked at again.
        """
        loop = asyncio.get_running_loop()
        self._sleeper = sleeper = loop.create_future()
        timer = None
        if until < math.inf:
            timer = loop.call_later(max(0.0, until - time.monotonic()) + _TICK_S, self.ring)
        try:
            await sleeper
        finally:
            if timer is not None:
                timer.cancel()
            self._sleeper = None
