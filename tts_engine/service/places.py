# pyright: strict
"""How many do something at a time."""

from __future__ import annotations

from tts_engine.errors import AtCapacity


class Places:
    """Counts those who are at it; to be entered by each of them.

    Parameters:
        limit: of them.
        what: they are doing, for the message.
        mend: what whoever runs this can do about it.
    """

    def __init__(self, limit: int, *, what: str, mend: str) -> None:
        self._limit = limit
        self._what = what
        self._mend = mend
        self._taken = 0

    def __enter__(self) -> None:
        """Raises AtCapacity when all are taken."""
        if self._taken >= self._limit:
            raise AtCapacity(f"{self._limit} {self._what} already", mend=self._mend)
        self._taken += 1

    def __exit__(self, *_: object) -> None:
        self._taken -= 1
