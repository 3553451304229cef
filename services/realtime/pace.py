# pyright: strict
"""How fast a client may send: a bucket of events that refills steadily."""

from __future__ import annotations

#: events a second that a client may send for ever; a microphone sends 50
EVENTS_PER_S = 2000
#: events that it may send at once
BURST = 4000


class EventPace:
    """Counts events, and says how long to wait before the next one is read.

    Parameters:
        now: the time, monotonic seconds.
    """

    def __init__(self, *, now: float) -> None:
        self._left = float(BURST)
        self._at = now
        self._told = False

    def take(self, now: float) -> float:
        """Counts one event; returns seconds to wait, 0 for none."""
        self._left = min(float(BURST), self._left + (now - self._at) * EVENTS_PER_S) - 1
        self._at = now
        if self._left >= BURST / 2:
            self._told = False
        return max(0.0, -self._left / EVENTS_PER_S)

    def first(self) -> bool:
        """Whether the client has yet to be told that it is too fast; once told, not again until it
        has slowed down.
        """
        told, self._told = self._told, True
        return not told
