# pyright: strict
"""Texts that can be sent: JSON can spell halves of surrogate pairs, UTF-8 cannot."""

from __future__ import annotations

import re
from typing import Any, cast

_SURROGATE = re.compile(r"[\ud800-\udfff]")


def well_formed(text: str) -> str:
    """Joins halves of a surrogate pair, and puts U+FFFD for a half that stands alone.

    JSON can spell such halves; UTF-8 cannot, so that they could never be sent to anybody.
    """
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class SurrogateJoiner:
    """Makes the pieces of a text well-formed where a pair may be cut in two."""

    def __init__(self) -> None:
        self._half = ""

    def push(self, text: str) -> str:
        """The next piece, without a first half at its end: its second may be still to come."""
        text, self._half = self._half + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return well_formed(text)

    def finish(self) -> str:
        """The end of the text."""
        half, self._half = self._half, ""
        return well_formed(half)


def all_well_formed(value: Any) -> Any:
    """Makes every text in a JSON value well-formed."""
    match value:
        case str():
            return well_formed(value)
        case dict():
            items = cast("dict[Any, Any]", value)
            return {all_well_formed(key): all_well_formed(item) for key, item in items.items()}
        case list():
            return [all_well_formed(item) for item in cast("list[Any]", value)]
        case _:
            return value
