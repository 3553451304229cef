"""Invariants: heard text is a prefix of the answer; a frame is never due before its deadline nor a
lead sent twice; only the live, open revision passes; latency parts sum to the whole.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.heard import SpokenText
from pipeline.latency import (
    PARTS,
    PATH,
    TurnReport,
    first_sound,
    last_sound,
    sounding,
)
from pipeline.pacing import PlaybackClock
from services.answer import AnswerPlan, AnswerPlans
from services.face import PacingProfile
from services.revision import RevisionBoard, Verdict
from tts_engine.engine import Mark
from tts_engine.text.clause import Clause


def _clause(text: str, raw: str | None = None) -> Clause:
    raw = text if raw is None else raw
    ends = (*(min(i + 1, len(raw)) for i in range(len(text) - 1)), len(raw))
    return Clause(text=text, raw=raw, ends=ends)


# --- heard text ------------------------------------------------------------------------------
def test_heard_text_is_cut_at_the_last_complete_character() -> None:
    spoken = SpokenText()
    spoken.begin(_clause("你好，"), at_ms=0)
    spoken.mark((Mark(2400, 1), Mark(4800, 2)), sample_rate=24_000)
    spoken.mark((Mark(7200, 3),), sample_rate=24_000)
    spoken.begin(_clause("再见。"), at_ms=300)
    spoken.mark((Mark(2400, 1), Mark(7200, 3)), sample_rate=24_000)
    assert [spoken.heard(ms) for ms in (0, 99, 100, 250, 300, 399, 400, 1000)] == [
        "", "", "你", "你好", "你好，", "你好，", "你好，再", "你好，再见。",
    ]  # fmt: skip


def test_text_without_a_voice_counts_as_heard_when_the_audio_is_over() -> None:
    spoken = SpokenText()
    spoken.begin(_clause("好。"), at_ms=0)
    spoken.mark((Mark(24, 2),), sample_rate=24_000)
    spoken.finish("```x```", at_ms=1)
    assert spoken.heard(0.9) == ""
    assert spoken.heard(1) == "好。```x```"


def test_an_apology_is_never_a_part_of_the_answer() -> None:
    spoken = SpokenText()
    spoken.begin(_clause("好。"), at_ms=0)
    spoken.mark((Mark(24, 2),), sample_rate=24_000)
    spoken.begin(Clause(text="抱歉", raw="", ends=(0, 0)), at_ms=1)
    spoken.mark((Mark(24, 2),), sample_rate=24_000)
    assert spoken.heard(float("inf")) == "好。"


@given(
    st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=8), max_size=5),
    st.floats(0, 10_000),
)
def test_heard_text_grows_with_the_play_head(durations: list[list[int]], played: float) -> None:
    spoken, at, answer = SpokenText(), 0.0, ""
    for number, lengths in enumerate(durations):
        text = "".join(chr(0x4E00 + number * 10 + i) for i in range(len(lengths)))
        spoken.begin(_clause(text), at_ms=at)
        ends = np.cumsum(lengths)
        spoken.mark(
            tuple(Mark(int(e), i + 1) for i, e in enumerate(ends)),
            sample_rate=1000,
        )
        at += float(ends[-1])
        answer += text
    heard = spoken.heard(played)
    assert answer.startswith(heard)
    assert spoken.heard(played + 1).startswith(heard)
    assert spoken.heard(at) == answer


# --- pacing ----------------------------------------------------------------------------------
def test_the_lead_is_filled_at_once_and_kept() -> None:
    clock = PlaybackClock(PacingProfile(frame_ms=20, lead_ms=100))
    now = 50.0
    assert clock.played_ms(now) == 0
    for _ in range(6):
        assert clock.due() <= now
        clock.sending(now)
        clock.sent(20)
    assert clock.due() == pytest.approx(now + 0.02)
    assert clock.ends() == pytest.approx(now + 0.12)
    assert clock.played_ms(now + 0.05) == pytest.approx(50)
    assert clock.played_ms(now + 9) == 120
    assert clock.plays_at(40) == pytest.approx(now + 0.04)


def test_a_starved_client_is_anchored_anew() -> None:
    clock = PlaybackClock(PacingProfile(frame_ms=20, lead_ms=100))
    clock.sending(10.0)
    clock.sent(20)
    clock.sending(10.5)
    clock.sent(20)
    assert clock.underruns == 1
    assert clock.played_ms(10.51) == pytest.approx(30)
    assert clock.ends() == pytest.approx(10.52)


@given(st.lists(st.floats(0, 0.2), min_size=1, max_size=60))
def test_never_more_than_the_lead_ahead(jitter: list[float]) -> None:
    profile = PacingProfile(frame_ms=20, lead_ms=100)
    clock, now = PlaybackClock(profile), 0.0
    for wait in jitter:
        now = max(now + wait, clock.due())
        clock.sending(now)
        clock.sent(profile.frame_ms)
        assert clock.sent_ms - clock.played_ms(now) <= profile.lead_ms + profile.frame_ms + 1e-6


# --- revisions -------------------------------------------------------------------------------
def test_only_the_live_open_revision_passes() -> None:
    changes: list[int] = []
    board = RevisionBoard(lambda: changes.append(board.live))
    assert board.verdict(0) is Verdict.DROP
    first = board.speculate()
    assert board.verdict(first) is Verdict.HOLD
    board.commit(first)
    assert board.is_open
    assert board.verdict(first) is Verdict.PASS
    second = board.open()
    assert board.verdict(first) is Verdict.DROP
    assert board.verdict(second) is Verdict.PASS
    assert board.revoke(first) == 0
    assert board.revoke(second) == second
    assert board.revoke() == 0
    assert board.live == 0
    assert not board.alive(second)
    with pytest.raises(ValueError, match="not live"):
        board.commit(second)
    assert changes == [1, 1, 2, 0]


def test_only_the_live_answer_has_a_plan() -> None:
    plans = AnswerPlans()
    assert plans.of(1) is None
    plan = AnswerPlan(temperature=0.5, max_tokens=9)
    plans.open(1, plan)
    assert plans.of(1) is plan
    plans.open(2, plan)
    assert plans.of(1) is None
    plans.close()
    assert plans.of(2) is None


# --- latency ---------------------------------------------------------------------------------
def test_the_energy_rule() -> None:
    rate = 16_000
    quiet = np.zeros(rate, np.int16)
    assert first_sound(quiet, rate) is None
    assert last_sound(quiet, rate) is None
    assert not len(sounding(quiet[:100], rate))
    sound = quiet.copy()
    sound[1600:4800] = 3000
    assert first_sound(sound, rate) == 1600
    assert last_sound(sound, rate) == 4800
    assert first_sound(sound.astype(np.float32) / 32768, rate) == 1600
    click = quiet.copy()
    click[1600:1920] = 3000  # two frames only
    assert first_sound(click, rate) is None
    assert not sounding(click[1600:1920], rate).any()


@given(st.dictionaries(st.sampled_from([name for name, _ in PATH]), st.floats(0, 100)))
def test_parts_sum_to_the_span(stamps: dict[str, float]) -> None:
    report = TurnReport(turn=1, stamps=stamps)
    parts = report.parts_ms
    assert all(value >= 0 for value in parts.values())
    assert set(parts) <= set(PARTS)
    present = [stamps[name] for name, _ in PATH if name in stamps]
    if present:
        assert sum(parts.values()) == pytest.approx((max(present) - present[0]) * 1e3, abs=1e-6)
    if "voiced_end" in stamps and "heard" in stamps:
        assert report.v2v_ms == pytest.approx(sum(parts.values()), abs=1e-6)
    else:
        assert report.v2v_ms is None


def test_a_report_as_json() -> None:
    report = TurnReport(turn=2, revision=3)
    assert report.v2v_server_ms is None
    for name, at in (("received", 1.0), ("endpoint", 1.3), ("final", 1.2), ("audible", 1.5)):
        report.mark(name, at)
    report.mark("received", 9.0)
    report.work_ms["asr_decode"] = 61.26
    shown = report.to_json()
    assert shown["v2v_server_ms"] == pytest.approx(500)
    assert shown["parts_ms"]["endpoint_wait"] == 300
    assert shown["parts_ms"]["asr_final"] == 0
    assert shown["work_ms"] == {"asr_decode": 61.3}
    assert shown["stamps"]["received"] == 1.0
