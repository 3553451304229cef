"""What is not read aloud, and the rule that says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True)
class Dropped:
    """A part of an answer that is not read aloud.

    Parameters:
        start: offset of its first character.
        end: offset behind its last one.
        rule: the name of what drops it: "think", "emoji", "emphasis".
    """

    start: int
    end: int
    rule: str


class Drops:
    """Collects them in order; neighbours that one rule drops are one entry."""

    def __init__(self) -> None:
        self._list: list[Dropped] = []

    def add(self, start: int, end: int, rule: str) -> None:
        """Notes a part that is not empty."""
        last = self._list[-1] if self._list else None
        if last and last.end == start and last.rule == rule:
            self._list[-1] = Dropped(last.start, end, rule)
        else:
            self._list.append(Dropped(start, end, rule))

    def __iter__(self) -> Iterator[Dropped]:
        return iter(self._list)


def in_order(drops: Iterable[Dropped], length: int) -> tuple[Dropped, ...]:
    """All of a text's parts, in the order of the text; where two overlap, the first given counts.

    Args:
        drops: the parts, in the order of the rules.
        length: of the text.
    """
    rules = [""] * length
    for drop in reversed(list(drops)):
        rules[drop.start : drop.end] = [drop.rule] * (drop.end - drop.start)
    runs = groupby(range(length), rules.__getitem__)
    edges = [(rule, list(run)) for rule, run in runs if rule]
    return tuple(Dropped(run[0], run[-1] + 1, rule) for rule, run in edges)
