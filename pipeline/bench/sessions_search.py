# pyright: strict
"""Which numbers of conversations `bench sessions` tries. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


def search(
    holds: Callable[[int], bool], *, start: int, most: int, precision: float = 0.08
) -> Iterator[int]:
    """Looks for the largest number that holds, by doubling, then by halving the interval.

    Args:
        holds: tried once for every number that is yielded.
        start: the first number.
        most: none larger is tried.
        precision: share of the number that is near enough.

    Yields:
        Each number as it was tried.
    """
    good, bad = 0, most + 1
    n = min(start, most)
    while bad - good > max(1, precision * good):
        if holds(n):
            good = n
        else:
            bad = n
        yield n
        n = min(2 * good, most) if bad > most else (good + bad) // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Which numbers of conversations are tried."""

    counts: Sequence[int] | None
    start: int
    most: int

    @property
    def about(self) -> int:
        """How many there will be, for a progress bar."""
        return len(self.counts) if self.counts is not None else 9

    def tried(self, holds: Callable[[int], bool]) -> Iterator[int]:
        """Tries each."""
        if self.counts is None:
            yield from search(holds, start=self.start, most=self.most)
            return
        for n in self.counts:
            holds(n)
            yield n
