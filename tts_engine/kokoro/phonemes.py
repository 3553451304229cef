"""Phonemes that remember which characters they come from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

#: phonemes that stand for a pause
PAUSES = frozenset(";:,.!?—…")
#: phonemes that sound like nothing
SILENT = PAUSES | frozenset(' "()“”')


@dataclass(frozen=True, slots=True)
class Phonemes:
    """A piece of speech as the model reads it.

    Parameters:
        symbols: one character of the model's vocabulary per phoneme.
        ends: for each phoneme, how many characters of the text have been spoken once it has been
            spoken; ascending.
    """

    symbols: str = ""
    ends: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def audible(self) -> bool:
        """Something of it can be heard."""
        return any(symbol not in SILENT for symbol in self.symbols)

    def part(self, start: int, stop: int) -> Phonemes:
        """The phonemes [start, stop)."""
        return Phonemes(self.symbols[start:stop], self.ends[start:stop])


def join(pieces: Iterable[Phonemes]) -> Phonemes:
    """One piece after the other."""
    symbols: list[str] = []
    ends: list[int] = []
    for piece in pieces:
        symbols.append(piece.symbols)
        ends.extend(piece.ends)
    return Phonemes("".join(symbols), tuple(ends))


def spread(symbols: str, ends: tuple[int, ...], before: int) -> Phonemes:
    """Phonemes of a word, as even over its characters as can be.

    Args:
        symbols: the word's phonemes.
        ends: for each character of the word, the characters of the text spoken with it.
        before: the same before the word.
    """
    steps = (before, *ends)
    count = len(symbols)
    return Phonemes(symbols, tuple(steps[(i + 1) * len(ends) // count] for i in range(count)))
