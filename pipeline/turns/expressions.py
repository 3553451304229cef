"""Tables of expressions, and how they are found in what was said."""
# pyright: strict

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.turns.levels import LIKELY


def expressions(rows: str) -> frozenset[str]:
    """What a table lists, apart by bars, or by space if there is none."""
    return frozenset(rows.split() if "|" not in rows else map(str.strip, rows.split("|")))


def by_expression(rows: Mapping[float, str]) -> dict[str, float]:
    """The level of each expression, from the tables by level."""
    return {each: level for level, row in rows.items() for each in expressions(row)}


def longest_ending(
    units: Sequence[str], levels: Mapping[str, float], *, joint: str, longest: int
) -> float:
    """The level of the longest listed expression at the end; LIKELY if none is.

    Args:
        units: characters of Chinese, or words.
        levels: by expression.
        joint: stands between the units of an expression.
        longest: units of the longest expression.
    """
    for size in range(min(longest, len(units)), 0, -1):
        level = levels.get(joint.join(units[-size:]))
        if level is not None:
            return level
    return LIKELY


def is_hanzi(character: str) -> bool:
    """A Chinese character, of those that recognisers write."""
    return "\u3400" <= character <= "\u9fff"
