"""Text as it is compared: without case, punctuation, and ways of writing the same character."""
# pyright: strict

from __future__ import annotations

import re
import unicodedata

_APOSTROPHES = re.compile(r"(?<=\w)['\u2018\u2019`](?=\w)")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")
#: what is neither a word nor changes what is said; marks of numbers are looked at next
_MARKS = re.compile(r"[^\w%#&@+=$\u20ac\u00a3\u00a5\u00b0.:/,-]+|_+")
#: a mark belongs to a number only inside it: 3.5, 10:30, 1/2; and a sign before it: -5
_LOOSE = re.compile(r"(?<!\d)[.:/,]|[.:/,](?!\d)|(?<=\w)-|-(?!\d)")


def plain(text: str) -> str:
    """`text` in NFKC and lower case, its words apart by single spaces, without punctuation.

    Signs that are spoken stay: those of numbers (3.5, -5, 10:30), and % # & @ + = and currencies.
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    text = _THOUSANDS.sub("", _APOSTROPHES.sub("", text))
    return " ".join(_LOOSE.sub(" ", _MARKS.sub(" ", text)).split())
