# pyright: strict
"""How fast a client may send: buckets that refill steadily, one of events and one of audio."""

from __future__ import annotations

#: events a second that a client may send for ever; a microphone sends 50
EVENTS_PER_S = 2000
#: events that it may send at once
BURST = 4000
#: audio a second that it may send for ever, seconds: what the detector cannot keep up with would
#: pile up
AUDIO_S_PER_S = 20
#: audio that it may send at once, seconds
AUDIO_BURST_S = 120


class Pace:
    """Counts what is sent, and says how long to wait before more of it is taken.

    Parameters:
        now: the time, monotonic seconds.
        per_s: what may be sent in a second for ever.
        burst: what may be sent at once.
    """

    def __init__(self, *, now: float, per_s: float = EVENTS_PER_S, burst: float = BURST) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._left = self._burst
        self._at = now
        self._told = False

    def take(self, now: float, amount: float = 1.0) -> float:
        """Counts so much; returns seconds to wait, 0 for none."""
        refilled = self._left + (now - self._at) * self._per_s
        self._left = min(self._burst, refilled) - amount
        self._at = now
        if self._left >= self._burst / 2:
            self._told = False
        return max(0.0, -self._left / self._per_s)

    def first(self) -> bool:
        """Whether the client has yet to be told that it is too fast; once told, not again until it
        has slowed down.
        """
        told, self._told = self._told, True
        return not told
