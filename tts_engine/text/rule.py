"""A rewriting rule: what is found, and how it is said in Chinese and in English.

Its name stands beside what it takes out without a word (`tts_engine.text.dropped`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

#: A plain number. Thousands separators are gone when the rules that use it run.
NUM = r"[0-9]+(?:\.[0-9]+)?"
#: What follows does not continue a word, a number or an address.
START = r"(?<![A-Za-z0-9.])"


@dataclass(frozen=True, slots=True)
class Rule:
    """One step of the rewriting.

    Parameters:
        name: what it is about.
        pattern: what to find.
        say: the words for a match, in Chinese if the second argument is True; None leaves it.
        group: the part of the match that is replaced.
    """

    name: str
    pattern: re.Pattern[str]
    say: Callable[[re.Match[str], bool], str | None]
    group: str | int = 0


def rule(
    name: str,
    pattern: str,
    say: Callable[[re.Match[str], bool], str | None],
    group: str | int = 0,
) -> Rule:
    """A rule whose digits, letters and word bounds are those of ASCII: Hanzi end a word."""
    return Rule(name, re.compile(pattern, re.ASCII), say, group)


def words(name: str, pattern: str, zh: str, en: str, group: str | int = 0) -> Rule:
    """A rule with fixed words."""
    return rule(name, pattern, lambda _match, chinese: zh if chinese else en, group)
