"""Every turn that is spoken is counted, whatever becomes of it, and no conversation hangs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from pipeline.bench.rig import Server
from pipeline.bench.sessions_load import LoadPlan, LoadResult, hold
from pipeline.bench.sessions_step import MOST_LATE, measure
from pipeline.talk.endpoint import Endpoint
from tests.bench.speaker import Speaker, speaking, speaking_beside
from tts_engine.errors import EngineFailed

FRAME_MS, FRAMES = 20, 20
CYCLE = bytes(16_000 * 2 * FRAME_MS // 1000 * FRAMES)


def plan(port: int, numbers: Sequence[int] = (0, 1), **changes: object) -> LoadPlan:
    found = LoadPlan(
        host="127.0.0.1",
        port=port,
        path="/v1/realtime",
        headers=[["X-Test", "1"]],
        dialect="realtime",
        lead_ms=200.0,
        cycle="",
        frame_ms=FRAME_MS,
        speech_s=0.1,
        answer_s=0.1,
        cycles=2,
        numbers=list(numbers),
        total=len(numbers),
        spread_s=0.1,
        window_s=[0.0, 60.0],
    )
    return replace(found, **changes)


async def held(speaker: Speaker, **changes: object) -> LoadResult:
    async with speaking(speaker) as port:
        return await hold(plan(port, **changes), CYCLE, time.monotonic())  # type: ignore[arg-type]


async def test_every_turn_is_answered() -> None:
    speaker = Speaker(after=6, cycle=FRAMES)
    result = await held(speaker)
    assert (result.asked, result.answered, result.frames) == (4, 4, 20)
    assert result.failures == []
    assert len(result.v2v_ms) == 4
    assert result.dry == 0
    assert all("session.update" in opening for opening in speaker.openings)


async def test_a_late_frame_is_late_and_the_client_was_dry() -> None:
    result = await held(Speaker(after=6, cycle=FRAMES, delay_s=0.15), numbers=[0])
    assert (result.asked, result.answered) == (2, 2)
    assert result.late >= 2
    assert result.dry >= 2
    assert result.worst_ms > 100


async def test_what_comes_outside_the_window_does_not_count() -> None:
    result = await held(Speaker(after=6, cycle=FRAMES), window_s=[50.0, 60.0])
    assert (result.answered, result.frames) == (4, 0)


async def test_an_answer_that_is_cut_short_is_none() -> None:
    result = await held(Speaker(after=6, cycle=FRAMES, frames=2))
    assert (result.asked, result.answered) == (4, 0)
    assert result.v2v_ms == []


async def test_a_server_that_hangs_up_fails_its_conversations() -> None:
    result = await held(Speaker(after=6, cycle=FRAMES, refuse=True))
    assert (result.asked, result.answered) == (4, 0)
    assert result.failures == ["closed by the server: no more"] * 2


async def test_nobody_there() -> None:
    async with speaking(Speaker(after=1, cycle=2)) as port:
        pass
    result = await hold(plan(port), CYCLE, time.monotonic())
    assert result.asked == 4
    assert len(result.failures) == 2


async def test_a_server_that_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.bench.sessions_load._BACKLOG", -1)
    result = await held(Speaker(after=6, cycle=FRAMES), numbers=[0])
    assert result.failures == ["the server does not read"]


def test_a_step_is_measured_from_processes_of_their_own(tmp_path: Path) -> None:
    cycle = tmp_path / "cycle.pcm"
    cycle.write_bytes(CYCLE)
    with speaking_beside(Speaker(after=6, cycle=FRAMES)) as port:
        server = Server(endpoint=Endpoint.of(f"127.0.0.1:{port}"), process=psutil.Process())
        step = measure(server, plan(port, cycle=str(cycle), total=3, window_s=[0.1, 0.8]), cores=[])
    assert step.n == 3
    assert step.answered_rate == 1.0
    assert step.memory_mb > 1
    assert step.failures == 0
    assert step.to_json()["real_time"] == (step.late_rate < MOST_LATE)


def test_clients_that_fail_are_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    server = Server(endpoint=Endpoint.of("127.0.0.1:1"), process=psutil.Process())
    with pytest.raises(EngineFailed, match="clients of the bench failed"):
        measure(server, plan(1, cycle=str(tmp_path / "nothing"), window_s=[0.0, 0.1]), cores=[])
    assert "FileNotFoundError" in capfd.readouterr().err


def test_processes_are_taken_together() -> None:
    parts = [
        LoadResult(frames=1, late=1, asked=2, answered=1, v2v_ms=[5.0], worst_ms=3.0),
        LoadResult(frames=2, dry=1, asked=1, failures=["gone"], behind_ms=4.0),
    ]
    both = LoadResult.merged(parts)
    assert (both.frames, both.late, both.dry, both.asked, both.answered) == (3, 1, 1, 3, 1)
    assert (both.v2v_ms, both.worst_ms, both.behind_ms, both.failures) == (
        [5.0],
        3.0,
        4.0,
        ["gone"],
    )
    assert LoadResult.merged([]) == LoadResult()
