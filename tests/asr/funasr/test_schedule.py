"""Finals go first, nobody waits for ever, and strides grow only while partials are late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.asr.funasr.schedule import (
    LONGEST_STRIDE,
    GoOn,
    Limits,
    PieceNeed,
    Recognise,
    StreamNeed,
    Stride,
    plan,
)

PIECES = st.lists(
    st.builds(
        PieceNeed,
        job=st.integers(0, 9),
        place=st.integers(0, 3),
        came=st.floats(0, 10),
        before_s=st.floats(0, 60),
        seconds=st.floats(0.1, 15),
    ),
    max_size=8,
    unique_by=lambda need: (need.job, need.place),
)
STREAMS = st.lists(
    st.builds(
        StreamNeed,
        id=st.integers(0, 20),
        ready_at=st.floats(0, 10),
        asked=st.booleans(),
        alone=st.booleans(),
    ),
    max_size=8,
    unique_by=lambda need: need.id,
)
LIMITS = st.builds(Limits, pieces=st.integers(1, 4), chunks=st.integers(1, 4))


def urgency(need: PieceNeed) -> float:
    return need.came + need.before_s


@given(PIECES, STREAMS, LIMITS)
def test_what_comes_next(
    pieces: list[PieceNeed], streams: list[StreamNeed], limits: Limits
) -> None:
    work = plan(pieces, streams, limits)
    if not pieces and not streams:
        assert work is None
    elif pieces:
        assert isinstance(work, Recognise)
        chosen = [
            next(each for each in pieces if (each.job, each.place) == key) for key in work.pieces
        ]
        assert 1 <= len(chosen) <= limits.pieces
        assert len({*work.pieces}) == len(work.pieces)
        assert urgency(chosen[0]) == min(urgency(each) for each in pieces)
        assert all(each.seconds <= chosen[0].seconds * limits.spread for each in chosen[1:])
    else:
        assert isinstance(work, GoOn)
        members = [next(each for each in streams if each.id == id) for id in work.ids]
        assert 1 <= len(members) <= limits.chunks
        first = members[0]
        assert (not first.asked, first.ready_at) == min(
            (not each.asked, each.ready_at) for each in streams
        )
        assert len(members) == 1 or not any(each.alone for each in members)


@given(PIECES.filter(bool), LIMITS)
def test_every_piece_has_its_turn(pieces: list[PieceNeed], limits: Limits) -> None:
    left = list(pieces)
    for _ in pieces:
        work = plan(left, [], limits)
        if work is None:
            break
        assert isinstance(work, Recognise)
        left = [each for each in left if (each.job, each.place) not in work.pieces]
    assert not left


def test_a_long_turn_does_not_hold_up_the_others() -> None:
    long = [
        PieceNeed(job=0, place=place, came=0.0, before_s=10.0 * place, seconds=10.0)
        for place in range(4)
    ]
    short = PieceNeed(job=1, place=0, came=1.0, before_s=0.0, seconds=2.0)
    order: list[tuple[int, int]] = []
    left = [*long, short]
    while (work := plan(left, [], Limits())) is not None:
        assert isinstance(work, Recognise)
        order += work.pieces
        left = [each for each in left if (each.job, each.place) not in work.pieces]
    assert order == [(0, 0), (1, 0), (0, 1), (0, 2), (0, 3)]


@given(
    st.lists(st.tuples(st.floats(0, 5), st.floats(0, 20)), max_size=40),
    st.sampled_from([1, 2, LONGEST_STRIDE]),
)
def test_a_stride_is_a_power_of_two_within_bounds(
    seen: list[tuple[float, float]], longest: int
) -> None:
    stride = Stride(chunk_s=0.6, longest=longest)
    now = 0.0
    for later, late in seen:
        before, now = stride.chunks, now + later
        stride.went_on(now, late_s=late)
        assert stride.chunks & (stride.chunks - 1) == 0
        assert 1 <= stride.chunks <= longest
        assert stride.chunks <= 2 * before
        assert stride.seconds == stride.chunks * 0.6
        if late <= 0.5 * before * 0.6:
            assert stride.chunks <= before


def test_a_stride_grows_while_partials_are_late_and_shrinks_when_they_are_not() -> None:
    stride = Stride(chunk_s=0.6)
    for now in range(60):
        stride.went_on(float(now), late_s=30.0)
    assert stride.chunks == LONGEST_STRIDE
    stride.went_on(60.0, late_s=2.0)  # not late for a stride of 9.6 s, nor hardly late at all
    stride.went_on(60.0 + 70.0, late_s=0.0)
    assert stride.chunks == LONGEST_STRIDE
    stride.went_on(60.0 + 80.0, late_s=0.0)
    assert stride.chunks == LONGEST_STRIDE // 2
    stride.went_on(1_000.0, late_s=0.0)
    assert stride.chunks == 1


def test_a_stride_waits_to_see_what_its_growth_has_changed() -> None:
    stride = Stride(chunk_s=0.6)
    for now, chunks in ((0.0, 1), (1.1, 1), (1.2, 2), (3.5, 2), (3.6, 4)):
        stride.went_on(now, late_s=5.0)
        assert stride.chunks == chunks


def test_a_stride_does_not_grow_where_all_are_late_for_a_moment() -> None:
    stride = Stride(chunk_s=0.6)
    for now in range(100):
        stride.went_on(float(now), late_s=2.0)
        stride.went_on(now + 0.5, late_s=0.2)
    assert stride.chunks == 1
