"""The search ends with the largest number that holds, and a bench leaves no server behind."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.bench.sessions import SessionsResult, run_sessions
from pipeline.bench.sessions_report import build, sessions_table, write_report
from pipeline.bench.sessions_search import Steps, search
from pipeline.bench.sessions_step import SessionsStep
from pipeline.bench.sessions_talk import ANSWER_S, Talk, answer_of
from pipeline.config import load_config
from services.scripted.speech import synthetic_speech
from tts_engine.errors import BadRequest


@given(st.integers(0, 300), st.integers(1, 50), st.integers(1, 200))
def test_the_search_comes_near_the_largest_that_holds(limit: int, start: int, most: int) -> None:
    tried = [*search(lambda n: n <= limit, start=start, most=most)]
    held = max((n for n in tried if n <= limit), default=0)
    assert len(set(tried)) == len(tried) <= 20
    assert max(tried) <= most
    largest = min(limit, most)
    assert held <= largest <= held + max(1, 0.08 * held) + 1


def test_given_steps_are_all_tried() -> None:
    seen: list[int] = []
    steps = Steps(counts=[3, 1], start=10, most=20)
    assert [*steps.tried(lambda n: bool(seen.append(n)))] == seen == [3, 1]
    assert steps.about == 2
    assert Steps(counts=None, start=1, most=4).about > 2
    assert [*Steps(counts=None, start=1, most=4).tried(lambda _: True)] == [1, 2, 4]


def step(n: int, *, late_rate: float = 0.0, answered_rate: float = 1.0) -> SessionsStep:
    return SessionsStep(
        n=n,
        cpu_core=0.01 * n,
        late_rate=late_rate,
        dry_rate=0.0,
        answered_rate=answered_rate,
        v2v_ms=300.0,
        v2v_p95_ms=300.0 + n,
        memory_mb=200.0,
        behind_ms=1.0,
        failures=0,
    )


def test_only_steps_below_the_first_failure_count() -> None:
    steps = [step(10), step(20), step(40, late_rate=0.02), step(80)]
    assert SessionsResult(steps=steps).max_real_time == 20
    assert SessionsResult(steps=steps[:2]).max_real_time == 20
    assert SessionsResult(steps=[step(5, answered_rate=0.9)]).max_real_time == 0
    assert SessionsResult(steps=steps, alone=step(1)).beyond_alone_ms == 19.0
    assert SessionsResult(steps=steps).beyond_alone_ms is None
    assert SessionsResult(alone=step(1)).beyond_alone_ms is None


def test_the_page_and_the_table(tmp_path: Path) -> None:
    result = SessionsResult(
        steps=[step(10), step(20, late_rate=0.5)], mb_per_session=1.234, growth_mb=-1.0
    )
    result.peer = SessionsResult(steps=[step(3)])
    page = write_report(result, tmp_path, {"machine": "2 cores"})
    assert "pipecat" in page.read_text()
    assert '"mb_per_session": 1.23' in page.with_suffix(".json").read_text()
    assert "gc_pause_ms_max" in page.with_suffix(".json").read_text()
    assert len([*sessions_table(result)]) > 4
    assert "In figures" in build(SessionsResult(), {}).html()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "sessions.json").mkdir()
    with pytest.raises(BadRequest, match="Cannot write"):
        write_report(result, tmp_path / "taken", {})


def talk() -> Talk:
    """A short cycle, with nothing that needs a model."""
    return Talk(
        speech=synthetic_speech(seconds=0.5), answer=answer_of(0.8), cycle_s=3.0, detector="energy"
    )


def test_the_answer_is_about_as_long_as_it_should_be() -> None:
    assert answer_of(ANSWER_S).endswith("。")
    made = Talk(speech=synthetic_speech(seconds=0.5), answer=answer_of(ANSWER_S))
    assert made.answer_s == pytest.approx(ANSWER_S, abs=0.3)
    assert made.speech_s == 0.5
    assert len(made.microphone()) == 9 * 32_000


def test_wrong_questions() -> None:
    config = load_config(None, [], environ={})
    with pytest.raises(BadRequest, match="do not fill 3 s"):
        run_sessions(config, talk=talk(), frame_ms=70)
    with pytest.raises(BadRequest, match="There is no core 9999"):
        run_sessions(config, talk=talk(), frame_ms=60, core=9999)
    with pytest.raises(BadRequest, match="does not speak the device protocol"):
        run_sessions(config, talk=talk(), face="xiaozhi", peer=True)
    with pytest.raises(BadRequest, match="frames of 50 ms"):
        run_sessions(config, talk=talk(), face="xiaozhi", frame_ms=50)


@pytest.mark.alone
@pytest.mark.timeout(300)
def test_a_whole_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.bench.sessions.MEMORY_SESSIONS", 2)
    monkeypatch.setattr("pipeline.bench.sessions.CLOSED_SESSIONS", 30)
    told: list[float] = []
    before = os.sched_getaffinity(0)
    result = run_sessions(
        load_config(None, [], environ={}),
        talk=talk(),
        frame_ms=60,
        counts=[2],
        quick=True,
        peer=True,
        on_progress=lambda share, _: told.append(share),
    )
    assert os.sched_getaffinity(0) == before
    assert [child.name() for child in psutil.Process().children()] == []
    [ours] = result.steps
    assert (ours.n, ours.answered_rate, ours.failures) == (2, 1.0, 0)
    assert ours.cpu_core > 0
    assert result.mb_per_session is not None
    assert result.growth_mb is not None
    assert result.peer is not None
    [theirs] = result.peer.steps
    assert theirs.failures == 0
    assert told == sorted(told)
    assert set(result.to_json()) == {
        "steps",
        "max_real_time",
        "alone",
        "beyond_alone_ms",
        "mb_per_session",
        "growth_mb",
        "gc_pause_ms_max",
        "gc_idle_ms_max",
        "peer",
    }


@pytest.mark.alone
@pytest.mark.timeout(300)
def test_devices() -> None:
    result = run_sessions(
        load_config(None, [], environ={}),
        talk=talk(),
        face="xiaozhi",
        counts=[3],
        quick=True,
        memory=False,
    )
    [step] = result.steps
    assert (step.n, step.answered_rate, step.failures) == (3, 1.0, 0)
    assert result.alone is not None
    assert (result.alone.n, result.alone.answered_rate) == (1, 1.0)
    assert result.beyond_alone_ms is not None
