"""Where the words lie in the audio: durations of phonemes to marks on characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tts_engine.engine import Mark


def marks(
    ends: Sequence[int],
    stops: Iterable[float],
    *,
    first: int,
    last: int,
) -> list[Mark]:
    """Marks from phonemes, strictly ascending in both fields.

    Args:
        ends: for each phoneme, the characters spoken once it is over; ascending.
        stops: for each phoneme, the sample at which it is over; ascending.
        first: no mark lies before this sample.
        last: no mark lies behind this sample.
    """
    result: list[Mark] = []
    for chars, stop in zip(ends, stops, strict=True):
        sample = min(max(round(stop), first), last)
        if result and sample <= result[-1].sample:
            sample = result[-1].sample
            if chars > result[-1].chars:
                result[-1] = Mark(sample, chars)
        elif chars > (result[-1].chars if result else 0):
            result.append(Mark(sample, chars))
    return result


def within(alignment: Sequence[Mark], start: int, stop: int) -> tuple[Mark, ...]:
    """The marks of the samples (start, stop]; at start 0 also those at 0."""
    low = start if start else -1
    return tuple(mark for mark in alignment if low < mark.sample <= stop)
