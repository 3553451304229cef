"""Cuts long speech into parts, so that its beginning can be heard while the rest is made."""

from __future__ import annotations

from tts_engine.kokoro.phonemes import PAUSES, Phonemes

#: About 60 Hanzi. Up to here one run sounds best and is soon done.
WHOLE = 250
#: The first part: about 20 Hanzi.
FIRST = 90
#: Each part may be longer than the one before by this, because that one's playing covers its
#: making; more would risk a gap on a slow machine.
GROWTH = 1.5
#: No part is shorter than this, because short runs sound clipped.
SHORTEST = 30


def split(phonemes: Phonemes) -> list[Phonemes]:
    """Parts of at most WHOLE phonemes, cut behind punctuation, else at a space, else anywhere.

    Joined, they are the whole. What is short enough stays in one piece.
    """
    if len(phonemes) <= WHOLE:
        return [phonemes]
    parts: list[Phonemes] = []
    start = 0
    limit = FIRST
    while start < len(phonemes):
        stop = _cut(phonemes.symbols, start, limit)
        parts.append(phonemes.part(start, stop))
        limit = min(WHOLE, max(FIRST, round((stop - start) * GROWTH)))
        start = stop
    return parts


def _cut(symbols: str, start: int, limit: int) -> int:
    """Where the part that begins at `start` ends."""
    if len(symbols) - start <= limit + SHORTEST:
        return min(len(symbols), start + WHOLE)
    window = range(start + limit, start + SHORTEST, -1)
    for wanted in (PAUSES, frozenset(" ")):
        for stop in window:
            if symbols[stop - 1] in wanted and symbols[stop] not in wanted:
                return stop
    return start + limit
