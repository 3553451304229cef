"""Marks ascend, lie within what was made, and cover the text, whatever the estimates were."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts_engine.cosyvoice.marks import Alignment, Pace, audible, weight
from tts_engine.cosyvoice.pieces import CHUNK, pieces
from tts_engine.cosyvoice.wire import Audio
from tts_engine.engine import Mark

texts = st.text(min_size=1, max_size=40)
steps = st.lists(
    st.tuples(st.integers(0, 30_000), st.floats(min_value=0, max_value=2e5)), max_size=8
)


@given(texts, steps, st.integers(0, 30_000))
def test_marks_cover_the_text(text: str, made: list[tuple[int, float]], rest: int) -> None:
    alignment = Alignment(text)
    marks: list[Mark] = []
    total = 0
    for samples, expected in made:
        first, total = total, total + samples
        new = alignment.to(total, expected=expected)
        assert all(first <= mark.sample < total for mark in new)
        assert all(mark.chars < len(text) for mark in new)
        marks += new
    total += rest
    marks += alignment.end(total)
    assert marks[-1] == Mark(total, len(text))
    for one, two in itertools.pairwise(marks):
        assert one.sample < two.sample
        assert one.chars < two.chars


def test_characters_share_the_time_by_their_weight() -> None:
    marks = Alignment("好的ab").to(2_600, expected=2_600)
    assert [mark.chars for mark in marks] == [1, 2, 3]
    assert [mark.sample for mark in marks] == pytest.approx([1_000, 2_000, 2_300], abs=1)


def test_a_wrong_estimate_is_made_good_over_the_rest() -> None:
    alignment = Alignment("一二三四五六七八")
    # Half of what was expected turns out to be a quarter of the whole.
    assert alignment.to(4_000, expected=8_000)[-1] == Mark(3_999, 4)
    assert [mark.sample for mark in alignment.end(16_000)] == [7_000, 10_000, 13_000, 16_000]


@pytest.mark.parametrize(("char", "least", "most"), [("好", 1, 1), ("a", 0.2, 0.4), (" ", 0, 0.2)])
def test_weights(char: str, least: float, most: float) -> None:
    assert least <= weight(char) <= most


def test_what_is_audible() -> None:
    assert [audible(text) for text in ("好", "a.", "3", "", "。", "🙂")] == [True] * 3 + [False] * 3


def test_the_pace_is_learned() -> None:
    pace = Pace()
    before = pace.expect("你好")
    assert 8 <= before <= 16
    for _ in range(40):
        pace.learn("你好吗", 30)
    assert pace.expect("你好") == pytest.approx(20, rel=0.01)


@given(st.integers(0, 12_000), st.integers(0, 50_000), st.data())
def test_pieces_keep_everything_in_order(count: int, start: int, data: st.DataObject) -> None:
    low = start if not start or not count else start + 1  # on a seam it belongs to what it ends
    places = sorted(data.draw(st.sets(st.integers(low, start + count), max_size=10)))
    marks = [(place, chars) for chars, place in enumerate(places, start=1)]
    audio = Audio(id=1, marks=marks, payload=bytes(range(256)) * (2 * count // 256 + 1))
    audio = Audio(id=1, marks=marks, payload=audio.payload[: 2 * count])
    chunks = list(pieces(audio, start))
    assert b"".join(chunk.pcm for chunk in chunks) == audio.payload
    assert [(m.sample, m.chars) for chunk in chunks for m in chunk.marks] == marks
    assert all(len(chunk.pcm) <= 2 * CHUNK for chunk in chunks)
