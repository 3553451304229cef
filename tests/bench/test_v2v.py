"""Invariant: one run, one object: the daemon's figures, its peer's, and what they were made of."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipeline.bench import v2v as module
from pipeline.bench.analysis import Measured
from pipeline.bench.contest import Outcome, Rules
from pipeline.bench.speech import Clip
from pipeline.bench.v2v import OWN, FirstTurn, SweepPoint, V2vPlan, V2vResult, run_v2v
from pipeline.bench.v2v_report import build, write_report
from pipeline.bench.v2v_text import v2v_table
from services.scripted.spec import ScriptedSpec, parse_spec
from tests.bench.made import clip
from tts_engine.errors import BadRequest, EngineFailed

ENGINES = "scripted:asr=10,llm=10@200,tts=10"
CLIPS = (clip("打开灯", seconds=0.4), clip("关上门", seconds=0.5))


def plan(**options: Any) -> V2vPlan:
    given: dict[str, Any] = {
        "options": ("--engines", ENGINES),
        "spec": parse_spec(ENGINES),
        "clips": CLIPS,
        "rules": Rules(timeout_s=20),
    }
    return V2vPlan(**given | options)


class Energetic(V2vPlan):
    """Tones are no speech to a neural detector."""

    @property
    def sets(self) -> dict[str, str]:
        return {**super().sets, "vad.provider": "energy"}


@pytest.mark.timeout(300)  # several processes start and talk in real time
def test_a_run_with_a_daemon_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLOORS", (200,))
    monkeypatch.setattr(module, "CEILINGS", (600,))
    told: list[float] = []
    spec = parse_spec(ENGINES)
    result = run_v2v(
        Energetic(
            options=("--engines", ENGINES),
            spec=spec,
            clips=CLIPS,
            repeat=2,
            rules=Rules(timeout_s=20),
            sweep=True,
            log=tmp_path / "log",
        ),
        on_progress=lambda share, _: told.append(share),
    )
    assert told == sorted(told)
    assert told[-1] == 1.0
    found = result.to_json()
    assert found["turns"] == 4
    assert found["missed_rate"] == found["false_cutoff_rate"] == 0
    assert found["v2v"]["p50"] > 100
    assert found["bound_excess_ms"]["p95"] is not None
    assert set(found["first_turn"]) == {"v2v_ms", "again_ms", "excess_ms"}
    assert found["first_turn"]["again_ms"] > 100
    assert found["peer"] == {}
    assert found["ratio_p50"] == {}
    [point] = found["sweep"]
    assert (point["floor_ms"], point["ceiling_ms"], point["missed_rate"]) == (200, 600, 0)
    page = write_report(result, tmp_path / "page", {"date": "today"})
    everything = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert everything["date"] == "today"
    assert [turn["clip"] for turn in everything["details"][OWN]] == ["打开灯", "关上门"] * 2


@pytest.mark.timeout(300)
@pytest.mark.parametrize("spec", [parse_spec(ENGINES), None])
def test_devices(spec: ScriptedSpec | None) -> None:
    """Scripted recognisers read marks in raw samples; without any, the device sends Opus."""
    result = run_v2v(
        Energetic(
            options=("--engines", ENGINES),
            spec=spec,
            clips=CLIPS[:1],
            face="xiaozhi",
            rules=Rules(frame_ms=60, timeout_s=20),
        )
    )
    found = result.to_json()
    assert (found["face"], found["turns"], found["missed_rate"]) == ("xiaozhi", 1, 0)
    assert found["v2v"]["p50"] > 100
    assert found["bound_excess_ms"]["p95"] is None  # a device is told of no stamps
    if spec is not None:
        assert result.own.turns[0].heard == ("打开灯",)


def test_what_devices_do_not_do() -> None:
    with pytest.raises(BadRequest, match="does not speak the device protocol"):
        plan(face="xiaozhi", peer=True, rules=Rules(frame_ms=60))
    with pytest.raises(BadRequest, match="frames of 25 ms"):
        plan(face="xiaozhi", rules=Rules(frame_ms=25))


def test_a_server_that_does_not_start_ends_the_run() -> None:
    with pytest.raises(EngineFailed, match="no_such_key"):
        run_v2v(plan(options=("--set", "server.no_such_key=1")))


def test_the_peer_hears_what_the_daemon_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, tuple[str, ...], dict[str, str]]] = []

    def starts(name: str) -> Any:
        @contextmanager
        def start(
            options: Sequence[str], *, sets: dict[str, str], log: Path | None = None
        ) -> Iterator[Any]:
            started.append((name, tuple(options), sets))
            yield FakeServer()

        return start

    met: list[list[Any]] = []

    class FakeServer:
        endpoint = "own"

        def at(self, path: str) -> str:
            return path

    async def contest(contestants: Any, clips: Any, rules: Any, *, advance: Any) -> Any:
        met.append([each.endpoint for each in contestants])
        return {each.name: Outcome(turns=[turn(500.0)], client_late_ms=[]) for each in contestants}

    monkeypatch.setattr(module.rig, "daemon", starts("own"))
    monkeypatch.setattr(module.rig, "peer", starts("peer"))
    monkeypatch.setattr(module, "contest", contest)
    result = run_v2v(plan(peer=True, rules=Rules(frame_ms=60)))
    assert met == [["own", "/default?frame_ms=60", "/timeout?frame_ms=60"], *[["own"]] * 3]
    assert [name for name, _, _ in started] == ["own", "peer"]
    assert started[0][1:] == started[1][1:]
    assert started[0][2]["vad.provider"] == "silero"
    assert json.loads(started[0][2]["scripted.transcripts"]) == ["打开灯", "关上门"]
    assert result.to_json()["ratio_p50"] == {"default": 1.0, "timeout": 1.0}


def test_real_engines_are_told_nothing() -> None:
    nobody_knows = Clip(
        name="x.wav", text="", samples=CLIPS[0].samples, start=0.05, end=0.45, kind="real"
    )
    real = plan(spec=None, clips=(nobody_knows,), speculation=False)
    assert real.sets == {"vad.provider": "silero", "turns.speculate": "false"}
    assert real.spoken() == [nobody_knows]
    half = plan(spec=parse_spec("scripted:llm=150@50"), clips=(nobody_knows,))
    assert "scripted.replies" in half.sets
    assert "scripted.transcripts" not in half.sets
    with pytest.raises(BadRequest, match="told what is said"):
        plan(clips=(nobody_knows,))
    with pytest.raises(BadRequest, match="nothing to say"):
        plan(clips=())


def turn(v2v_ms: float | None, *, cutoff: bool = False, stamps: bool = False) -> Measured:
    times = {"voiced_end": 1.0, "endpoint": 1.3, "sent": 1.5, "heard": 1.51} if stamps else {}
    return Measured(clip="c", kind="command", v2v_ms=v2v_ms, cutoff=cutoff, stamps=times)


def outcome(*turns: Measured) -> Outcome:
    return Outcome(turns=[*turns], client_late_ms=[0.5])


@pytest.fixture
def result() -> V2vResult:
    point = {"v2v": {"p50": 400.0}, "false_cutoff_rate": 0.1, "missed_rate": 0.0}
    empty = {"v2v": {"p50": None}, "false_cutoff_rate": 0.0, "missed_rate": 1.0}
    return V2vResult(
        plan=plan(),
        own=outcome(turn(510.0, stamps=True), turn(None)),
        first=FirstTurn(v2v_ms=510.0, again_ms=500.0),
        peers={"default": outcome(turn(900.0), turn(3000.0, cutoff=True))},
        sweep=[
            SweepPoint(floor_ms=200, ceiling_ms=600, **point),
            SweepPoint(floor_ms=400, ceiling_ms=2000, **empty),
        ],
    )


def test_the_page_shows_every_turn_of_everybody(result: V2vResult) -> None:
    html = build(result, result.to_json(), {}).html()
    for shown in ("missed", "3000 ✂", "pipecat, default", "200–600", "Floor and ceiling"):
        assert shown in html
    missed = FirstTurn.of(turn(None), [turn(None)])
    nothing = V2vResult(plan=plan(), own=outcome(turn(None)), first=missed)
    page = build(nothing, nothing.to_json(), {}).html()
    assert "Where the time goes" not in page
    assert "Floor and ceiling" not in page


def test_the_terminal_shows_ratio_and_rates(result: V2vResult) -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    for part in v2v_table(result):
        console.print(part)
    text = console.export_text()
    assert "pipecat default" in text
    assert "0.26" in text  # 510 against the median of 900 and 3000
    assert "50.0%" in text
    assert "floor 200 ms, ceiling  600 ms: v2v p50  400 ms, cut off 10.0%" in text


def test_a_page_that_cannot_be_written(result: V2vResult, tmp_path: Path) -> None:
    (tmp_path / "v2v.json").mkdir()
    with pytest.raises(BadRequest, match="Cannot write into"):
        write_report(result, tmp_path, {})
