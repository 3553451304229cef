"""Text that remembers which part of the raw answer each of its characters stands for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tts_engine.text.dropped import Dropped


class Piece(NamedTuple):
    """What the markup stage hands to the segmenter.

    Parameters:
        char: one character of spoken text (a newline ends a clause), or empty for a style.
        start: raw offset of the first character that it stands for.
        end: raw offset behind the last one; `start` again for a character that was added.
        style: with an empty `char`: how to speak from here on.
    """

    char: str
    start: int
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
        sources: for each character the raw range that it stands for, without what was dropped;
            the characters of a replacement share theirs. Empty: all of the text between `ends`.
        drops: what replacements took out of the text.
    """

    text: str
    ends: tuple[int, ...]
    start: int = 0
    sources: tuple[tuple[int, int], ...] = ()
    drops: tuple[Dropped, ...] = ()

    def begin(self, index: int) -> int:
        """The raw offset at which the character at `index` begins."""
        return self.ends[index - 1] if index else self.start

    def sub(
        self,
        pattern: re.Pattern[str],
        repl: Callable[[re.Match[str]], str | None],
        group: str | int = 0,
        rule: str = "",
    ) -> Spans:
        """`pattern.sub` that keeps the map.

        A replacement is spread evenly over the raw text it replaces, because a voice needs about
        as long for each of its characters. One of nothing but space drops what it replaces.

        Args:
            pattern: what to look for.
            repl: the new text of a match; None leaves the match as it is.
            group: the part of a match that is replaced.
            rule: the name that what is dropped gets.
        """
        texts: list[str] = []
        ends: list[int] = []
        sources: list[tuple[int, int]] = []
        drops: list[Dropped] = []
        done = 0
        old = self.sources
        for match in pattern.finditer(self.text):
            new = repl(match)
            first, last = match.span(group)
            if new is None or new == self.text[first:last]:
                continue
            old = old or self._whole()
            texts += self.text[done:first], new
            ends += self.ends[done:first]
            sources += old[done:first]
            low = self.begin(first)
            width = (self.ends[last - 1] if last > first else low) - low
            ends += [low + width * (i + 1) // len(new) for i in range(len(new))]
            source = (low + width, low + width)
            if new.strip():
                source = (old[first][0], old[last - 1][1]) if last > first else source
            elif new and self.text[first:last].isspace():
                source = old[first]
                drops += _dropped(old, first + 1, last, rule)
            else:  # space is silence, unless it stands for space
                drops += _dropped(old, first, last, rule)
            sources += [source] * len(new)
            done = last
        if not texts:
            return self
        texts.append(self.text[done:])
        ends += self.ends[done:]
        sources += old[done:]
        return Spans(
            text="".join(texts),
            ends=tuple(ends),
            start=self.start,
            sources=tuple(sources),
            drops=(*self.drops, *drops),
        )

    def _whole(self) -> tuple[tuple[int, int], ...]:
        return tuple(zip((self.start, *self.ends), self.ends, strict=False))


def _dropped(
    sources: tuple[tuple[int, int], ...], first: int, last: int, rule: str
) -> Iterator[Dropped]:
    """What the characters from `first` to `last` stand for, and their neighbours do not."""
    low = sources[first - 1][1] if first else 0
    high = sources[last][0] if last < len(sources) else sources[-1][1]
    for start, end in sources[first:last]:
        start, end = max(start, low), min(end, high)
        if start < end:
            yield Dropped(start, end, rule)
