"""Invariants: played audio never shrinks and never exceeds what was sent; no more than the lead is
ever with the client; a pause costs neither an underrun nor, with a client that keeps what it has,
a sample of the play head.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.pacing import PlaybackClock
from services.face import PacingProfile

PROFILE = PacingProfile(frame_ms=20, lead_ms=100)


def playing(now: float, *, frames: int = 6, profile: PacingProfile = PROFILE) -> PlaybackClock:
    """A clock whose lead was filled at `now`: 120 ms are sent with six frames."""
    clock = PlaybackClock(profile)
    for _ in range(frames):
        assert clock.due() <= now
        clock.sending(now)
        clock.sent(profile.frame_ms)
    return clock


def test_the_first_frame_waits_for_the_gap_of_the_face() -> None:
    clock = PlaybackClock(PROFILE, starts=7.5)
    assert clock.due() == 7.5
    assert not clock.started
    assert clock.sending(8.0)
    clock.sent(20)
    assert clock.started
    assert clock.due() == pytest.approx(8.02 - 0.1)


def test_deadlines_are_absolute() -> None:
    clock = playing(10.0)
    for number in range(20):
        due = clock.due()
        assert due == pytest.approx(10.02 + number * 0.02)
        assert not clock.sending(due + 0.013)  # late by a timer's whim: it does not add up
        clock.sent(20)
    assert clock.underruns == 0


def test_a_starved_client_is_anchored_anew_and_its_lead_filled_again() -> None:
    clock = playing(10.0)
    assert clock.sending(10.5)
    clock.sent(20)
    assert clock.underruns == 1
    assert clock.played_ms(10.51) == pytest.approx(130)
    for _ in range(5):
        assert clock.due() <= 10.5 + 1e-6
        assert not clock.sending(10.5)
        clock.sent(20)
    assert clock.due() == pytest.approx(10.52)


def test_without_a_lead_a_late_timer_is_no_underrun() -> None:
    clock = PlaybackClock(PacingProfile(frame_ms=20, lead_ms=0))
    clock.sending(1.0)
    clock.sent(20)
    clock.sending(1.022)
    clock.sent(20)
    assert clock.underruns == 0
    assert clock.ends() == pytest.approx(1.042)
    clock.sending(1.1)
    assert clock.underruns == 1


def test_a_client_that_keeps_what_it_has_goes_on_from_there() -> None:
    clock = playing(10.0)
    clock.pause(10.05, keeps=True)
    assert clock.paused
    assert clock.due() == clock.ends() == math.inf
    assert clock.played_ms(13.0) == pytest.approx(50)
    clock.resume(13.0)
    assert not clock.paused
    assert clock.played_ms(13.0) == pytest.approx(50)
    assert clock.due() == pytest.approx(12.97)  # 70 ms are with the client, of 100
    assert clock.ends() == pytest.approx(13.07)
    assert not clock.sending(13.0)
    assert clock.underruns == 0


def test_another_client_plays_out_its_lead_which_is_filled_again() -> None:
    clock = playing(10.0)
    clock.pause(10.05, keeps=False)
    assert clock.played_ms(10.1) == pytest.approx(100)
    assert clock.played_ms(13.0) == 120
    clock.resume(13.0)
    for _ in range(6):
        assert clock.due() <= 13.0 + 1e-6
        clock.sending(13.0)
        clock.sent(20)
    assert clock.underruns == 0
    assert clock.due() == pytest.approx(13.02)
    assert clock.played_ms(13.05) == pytest.approx(170)


def test_a_short_pause_of_such_a_client_only_delays_what_is_sent() -> None:
    clock = playing(10.0)
    clock.pause(10.02, keeps=False)
    clock.resume(10.08)
    assert clock.due() == pytest.approx(10.02)
    assert not clock.sending(10.08)
    assert clock.ends() == pytest.approx(10.12)


@pytest.mark.parametrize("keeps", [True, False])
def test_who_was_dry_before_the_pause_had_run_dry(keeps: bool) -> None:
    clock = playing(10.0)
    clock.pause(10.5, keeps=keeps)
    clock.resume(11.0)
    clock.sending(11.5)
    assert clock.underruns == 1


def test_pauses_in_a_row_are_excused_together() -> None:
    clock = playing(10.0)
    clock.pause(10.05, keeps=False)
    clock.pause(10.06, keeps=True)  # it is paused already
    clock.resume(11.0)
    clock.resume(11.5)
    clock.pause(12.0, keeps=False)
    clock.resume(13.0)
    clock.sending(13.0)
    assert clock.underruns == 0


def test_a_frame_on_its_way_counts_also_when_a_pause_comes_between() -> None:
    clock = PlaybackClock(PROFILE)
    clock.sending(5.0)
    clock.pause(5.001, keeps=True)
    clock.sent(20)
    assert clock.sent_ms == 20
    assert clock.played_ms(9.0) == 0
    clock.resume(9.0)
    assert clock.played_ms(9.01) == pytest.approx(10)


def test_a_pause_before_the_first_frame_leaves_nothing_behind() -> None:
    clock = PlaybackClock(PROFILE, starts=3.0)
    clock.pause(2.0, keeps=True)
    assert clock.due() == math.inf
    clock.resume(4.0)
    assert clock.due() == 3.0
    assert clock.played_ms(4.0) == 0


def test_when_to_look_whether_a_position_was_played() -> None:
    fresh = PlaybackClock(PROFILE)
    assert fresh.reaches(10, 1.0) == math.inf
    clock = playing(10.0)
    assert clock.reaches(60, 10.01) == pytest.approx(10.06)
    assert clock.reaches(500, 10.01) == pytest.approx(10.5)  # it will have been sent by then
    assert clock.reaches(500, 10.2) == math.inf  # the client is dry: a frame has to come first
    clock.pause(10.01, keeps=False)
    assert clock.reaches(60, 10.02) == pytest.approx(10.06)
    assert clock.reaches(500, 10.02) == math.inf
    clock.resume(10.03)
    clock.pause(10.04, keeps=True)
    assert clock.reaches(60, 10.05) == math.inf


#: what happens next to a clock, and how long after the last thing
STEPS = st.lists(
    st.tuples(
        st.floats(0, 0.3),
        st.sampled_from(["send", "send", "send", "keep", "play out", "resume", "look"]),
    ),
    max_size=80,
)


@settings(deadline=None)
@given(STEPS, st.integers(0, 300))
def test_any_number_of_pauses(steps: list[tuple[float, str]], lead_ms: int) -> None:
    profile = PacingProfile(frame_ms=20, lead_ms=lead_ms)
    clock, now, played = PlaybackClock(profile), 1.0, 0.0
    kept: float | None = None

    def act(name: str) -> Any:
        nonlocal kept
        match name:
            case "send" if clock.due() <= now:
                clock.sending(now)
                clock.sent(20)
            case "keep" if not clock.paused:
                clock.pause(now, keeps=True)
                kept = clock.played_ms(now)
            case "play out":
                clock.pause(now, keeps=False)
            case "resume":
                clock.resume(now)
                kept = None
            case _:
                pass

    for wait, name in steps:
        now += wait
        before = clock.played_ms(now)
        act(name)
        after = clock.played_ms(now)
        assert after == pytest.approx(before, abs=1e-6)  # nothing that is done moves the play head
        assert played - 1e-6 <= after <= clock.sent_ms
        assert clock.sent_ms - after <= lead_ms + 20 + 1e-6
        if kept is not None:
            assert after == kept
        if not clock.paused and clock.started:
            assert clock.ends() == pytest.approx(clock.due() + lead_ms / 1000)
        played = after
