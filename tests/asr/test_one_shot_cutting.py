"""Invariant: pieces follow each other, none is long, and all that is voice is in one of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.asr.cutting import LEAST, LONGEST, PADDING, Cutter, Span

#: stretches of windows: how many, and how likely each is voice
STRETCHES = st.lists(
    st.tuples(st.integers(1, 300), st.sampled_from([0.0, 0.1, 0.4, 0.5, 0.9, 1.0])), max_size=30
)


def cut(probabilities: list[float]) -> list[Span]:
    cutter = Cutter(threshold=0.5)
    spans: list[Span] = []
    for at, probability in enumerate(probabilities):
        needed = cutter.needed
        assert needed <= at
        span = cutter.push(probability)
        if span is not None:
            assert span.start >= needed, "its audio may be gone"
            spans.append(span)
    last = cutter.finish()
    return spans if last is None else [*spans, last]


def windows(*stretches: tuple[int, float]) -> list[float]:
    return [probability for count, probability in stretches for _ in range(count)]


@given(STRETCHES)
def test_pieces_are_in_order_short_and_hold_all_voice(stretches: list[tuple[int, float]]):
    probabilities = windows(*stretches)
    spans = cut(probabilities)
    end = 0
    for span in spans:
        assert end <= span.start < span.end <= len(probabilities)
        assert span.end - span.start <= LONGEST
        end = span.end
    inside = {at for span in spans for at in range(span.start, span.end)}
    run: list[int] = []
    for at, probability in enumerate([*probabilities, 0.0]):
        if probability >= 0.5:
            run.append(at)
            continue
        # what is cut off at a border of pieces may be shorter than the least
        if len(run) >= 2 * LEAST:
            assert len(inside & set(run)) >= len(run) - LEAST
        run = []


@given(st.integers(0, 5_000))
def test_silence_is_in_no_piece(count: int):
    assert cut([0.0] * count) == []


def test_a_click_is_no_piece():
    assert cut(windows((50, 0.0), (LEAST - 1, 1.0), (100, 0.0))) == []
    assert len(cut(windows((50, 0.0), (LEAST, 1.0), (100, 0.0)))) == 1


def test_a_piece_has_a_little_silence_around_it():
    [span] = cut(windows((100, 0.0), (50, 1.0), (100, 0.0)))
    assert span == Span(100 - PADDING, 150 + PADDING)
    assert cut(windows((2, 0.0), (50, 1.0), (1, 0.0))) == [Span(0, 53)]


def test_a_pause_ends_a_piece_the_sooner_the_longer_it_is():
    seconds = 31
    # half a second does not end two seconds of voice, but four
    assert len(cut(windows((2 * seconds, 1.0), (20, 0.0), (2 * seconds, 1.0)))) == 1
    assert len(cut(windows((4 * seconds, 1.0), (20, 0.0), (2 * seconds, 1.0)))) == 2
    # and a fifth of a second ends nine
    assert len(cut(windows((4 * seconds, 1.0), (8, 0.0), (2 * seconds, 1.0)))) == 1
    assert len(cut(windows((9 * seconds, 1.0), (8, 0.0), (2 * seconds, 1.0)))) == 2


def test_without_a_pause_it_is_cut_where_it_sounds_least_like_voice():
    loud = windows((400, 1.0), (1, 0.6), (300, 1.0))
    first, second = cut(loud)
    assert first == Span(0, 400)
    assert second == Span(400, len(loud))


def test_voice_that_fades_goes_on():
    assert cut(windows((10, 0.6), (60, 0.4), (10, 0.6))) == [Span(0, 80)]
    assert cut(windows((60, 0.4))) == []
