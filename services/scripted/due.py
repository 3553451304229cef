"""Waiting for absolute deadlines, so that delays never drift and never end early."""

from __future__ import annotations

import asyncio
import time

#: longest single timer, seconds: event loops refuse endless ones
_LONGEST_S = 86_400.0


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Due:
    """Waits of one owner, which can all be withdrawn at once."""

    def __init__(self) -> None:
        self._futures: set[asyncio.Future[None]] = set()

    async def until(self, due: float) -> None:
        """Returns at `due`, or at once if it has passed.

        A loop's timer may fire a fraction of a millisecond early (uvloop rounds to milliseconds),
        hence the second look at the clock.

        Args:
            due: time.monotonic() seconds; infinity waits until `withdraw`.

        Raises:
            asyncio.CancelledError: `withdraw()` was called meanwhile.
            Exception: the failure given to `withdraw`.
        """
        loop = asyncio.get_running_loop()
        while (left := due - time.monotonic()) > 0:
            future = loop.create_future()
            timer = loop.call_later(min(left, _LONGEST_S), _wake, future)
            self._futures.add(future)
            try:
                await future
            finally:
                timer.cancel()
                self._futures.discard(future)

    def withdraw(self, failure: Exception | None = None) -> None:
        """Ends every wait: with `failure`, or as cancelled. Later waits are not concerned."""
        for future in tuple(self._futures):
            if future.done():
                continue
            if failure is None:
                future.cancel()
            else:
                future.set_exception(failure)
