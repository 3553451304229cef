"""How much a language model's server has to do for this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class ServerLoad:
    """Counts the requests that are being answered.

    Args:
        slots: requests that the server answers at a time; None: enough.
    """

    def __init__(self, slots: int | None = None) -> None:
        self._slots = slots
        self._running = 0

    @property
    def full(self) -> bool:
        """One more would wait for another one's end."""
        return self._slots is not None and self._running >= self._slots

    @contextmanager
    def request(self) -> Iterator[None]:
        """Counts one for as long as it lasts."""
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
