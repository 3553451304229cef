"""Text that remembers which part of the raw answer each of its characters stands for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Piece(NamedTuple):
    """What the markup stage hands to the segmenter.

    Parameters:
        char: one character of spoken text (a newline ends a clause), or empty for a style.
        end: length of the prefix of the raw answer that the character completes.
        style: with an empty `char`: how to speak from here on.
    """

    char: str
    end: int
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """A text and its map to raw offsets.

    Parameters:
        text: the text.
        ends: for each character the raw offset at which what it stands for ends; ascending. Raw
            text that was dropped belongs to the character after it.
        start: raw offset at which the text starts.
    """

    text: str
    ends: tuple[int, ...]
    start: int = 0

    def begin(self, index: int) -> int:
        """The raw offset at which the character at `index` begins."""
        return self.ends[index - 1] if index else self.start

    def sub(
        self,
        pattern: re.Pattern[str],
        repl: Callable[[re.Match[str]], str | None],
        group: str | int = 0,
    ) -> Spans:
        """`pattern.sub` that keeps the map.

        A replacement is spread evenly over the raw text it replaces, because a voice needs about
        as long for each of its characters.

        Args:
            pattern: what to look for.
            repl: the new text of a match; None leaves the match as it is.
            group: the part of a match that is replaced.
        """
        texts: list[str] = []
        ends: list[int] = []
        done = 0
        for match in pattern.finditer(self.text):
            new = repl(match)
            first, last = match.span(group)
            if new is None or new == self.text[first:last]:
                continue
            texts += self.text[done:first], new
            ends += self.ends[done:first]
            low = self.begin(first)
            width = (self.ends[last - 1] if last > first else low) - low
            ends += [low + width * (i + 1) // len(new) for i in range(len(new))]
            done = last
        if not texts:
            return self
        texts.append(self.text[done:])
        ends += self.ends[done:]
        return Spans(text="".join(texts), ends=tuple(ends), start=self.start)
