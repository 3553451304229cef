# pyright: strict
"""Which connection a device has: at most one, the newest."""

from __future__ import annotations

from typing import Protocol


class Replaced(Protocol):
    """A connection that gives way."""

    def replace(self) -> None:
        """Another one of the same device took its place: it ends, and gives its place in the
        daemon back at once.
        """
        ...


class Roster:
    """The connections by device."""

    def __init__(self) -> None:
        self._here: dict[str, Replaced] = {}

    def __len__(self) -> int:
        return len(self._here)

    def __contains__(self, device_id: str) -> bool:
        """Whether a device is connected."""
        return device_id in self._here

    def enter(self, device_id: str, connection: Replaced) -> None:
        """A device is here; what it has left behind somewhere else ends."""
        before = self._here.get(device_id)
        self._here[device_id] = connection
        if before is not None:
            before.replace()

    def leave(self, device_id: str, connection: Replaced) -> None:
        """A connection has ended; nothing happens if it was replaced."""
        if self._here.get(device_id) is connection:
            del self._here[device_id]
