"""Marks ascend strictly in both fields, lie inside the audio, and none is lost between chunks."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tts_engine.engine import Mark
from tts_engine.kokoro.align import marks, within
from tts_engine.kokoro.phonemes import Phonemes, join, spread


@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(0, 3000)), max_size=40),
    st.integers(0, 2000),
    st.integers(0, 90_000),
    st.integers(1, 9000),
)
def test_total_and_monotone(
    steps: list[tuple[int, float]], first: int, length: int, chunk: int
) -> None:
    ends = list(itertools.accumulate(chars for chars, _ in steps))
    stops = list(itertools.accumulate(samples for _, samples in steps))
    last = first + length
    found = marks(ends, stops, first=first, last=last)
    for one, two in itertools.pairwise(found):
        assert one.sample < two.sample
        assert one.chars < two.chars
    assert all(first <= mark.sample <= last for mark in found)
    spoken = ends[-1] if ends else 0
    assert (found[-1].chars if found else 0) == spoken
    bounds = [*range(0, last, chunk), last]
    pieces = [within(found, low, high) for low, high in itertools.pairwise(bounds)]
    if last:
        assert [mark for piece in pieces for mark in piece] == found


def test_marks_of_syllables() -> None:
    found = marks([0, 1, 1, 2], [100, 250.4, 300, 900], first=0, last=800)
    assert found == [Mark(250, 1), Mark(800, 2)]


def test_characters_at_the_same_time_are_one_mark() -> None:
    assert marks([1, 2, 3], [50, 50, 40], first=10, last=100) == [Mark(50, 3)]


@given(st.text("ab", max_size=12), st.integers(1, 8), st.integers(0, 9))
def test_spread_is_even(symbols: str, chars: int, before: int) -> None:
    ends = tuple(range(before + 1, before + chars + 1))
    piece = spread(symbols, ends, before)
    assert len(piece.ends) == len(symbols)
    assert list(piece.ends) == sorted(piece.ends)
    if symbols:
        assert piece.ends[-1] == ends[-1]


def test_phonemes() -> None:
    whole = join([Phonemes("ab", (1, 2)), Phonemes(), Phonemes(".", (3,))])
    assert whole == Phonemes("ab.", (1, 2, 3))
    assert len(whole) == 3
    assert whole.part(1, 3) == Phonemes("b.", (2, 3))
    assert whole.audible
    assert not Phonemes(" .", (1, 2)).audible
