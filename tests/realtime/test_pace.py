"""Invariants: a client that keeps the rate never waits; one that does not is told once, until it
has slowed down; what waits is no more than what it sent too fast.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.pace import AUDIO_BURST_S, AUDIO_S_PER_S, BURST, EVENTS_PER_S, Pace


def test_a_burst_is_taken_at_once():
    pace = Pace(now=10.0)
    assert [pace.take(10.0) for _ in range(BURST)] == [0.0] * BURST
    assert pace.take(10.0) == pytest.approx(1 / EVENTS_PER_S)


@given(st.lists(st.floats(1 / EVENTS_PER_S, 1), max_size=200))
def test_who_keeps_the_rate_never_waits(gaps: list[float]):
    pace, now = Pace(now=0.0), 0.0
    for gap in gaps:
        now += gap
        assert pace.take(now) == 0


def test_the_rate_is_kept_by_waiting():
    pace, now, count = Pace(now=0.0), 0.0, 0
    while now < 1:
        now += pace.take(now)
        count += 1
    assert count == pytest.approx(BURST + EVENTS_PER_S, rel=0.01)


def test_it_is_told_once_until_it_has_slowed_down():
    pace = Pace(now=0.0)
    assert pace.first()
    pace.take(0.0)
    assert pace.first()
    for _ in range(BURST):
        pace.take(0.0)
    assert pace.first()
    pace.take(0.1)
    assert not pace.first()
    pace.take(5.0)
    assert pace.first()


def test_audio_has_a_bucket_of_its_own():
    pace = Pace(now=0.0, per_s=AUDIO_S_PER_S, burst=AUDIO_BURST_S)
    assert [pace.take(0.0, 1.0) for _ in range(AUDIO_BURST_S)] == [0.0] * AUDIO_BURST_S
    assert pace.take(0.0, 1.0) == pytest.approx(1 / AUDIO_S_PER_S)
