"""When to start a child process again after it died: pure, no clock of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """Exponential back-off with a memory for quick deaths.

    Parameters:
        first_s: wait after the first death, seconds; it doubles with every quick death.
        longest_s: the longest wait, seconds.
        healthy_s: a child that served this long was healthy: its death counts as the first again.
        give_up_after: quick deaths in a row after which the service is called failed.
    """

    first_s: float = 0.5
    longest_s: float = 30.0
    healthy_s: float = 60.0
    give_up_after: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What follows from a death.

    Parameters:
        delay_s: start again after this many seconds.
        failed: too many quick deaths; starting again is a hope, no longer an expectation.
    """

    delay_s: float
    failed: bool


class Backoff:
    """Counts the deaths in a row of one child."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._quick = 0

    def died(self, *, served_s: float) -> Verdict:
        """Records a death.

        Args:
            served_s: how long the child had been ready; 0 when it never was.
        """
        policy = self._policy
        self._quick = 1 if served_s >= policy.healthy_s else self._quick + 1
        if self._quick >= policy.give_up_after:
            return Verdict(delay_s=policy.longest_s, failed=True)
        delay = policy.first_s * 2 ** (self._quick - 1)
        return Verdict(delay_s=min(delay, policy.longest_s), failed=False)
