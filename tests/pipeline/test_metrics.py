"""Invariants: every metric is explained, and counts what `pipeline.latency` defines."""

from __future__ import annotations

import asyncio
import gc
import re
from pathlib import Path

import pytest
from loguru import logger
from prometheus_client.parser import text_string_to_metric_families

from pipeline.latency import TurnReport
from pipeline.metrics import Metrics
from pipeline.transcription_metrics import TranscriptionMetrics
from pipeline.version import version
from services.asr.funasr.stats import RecognitionStats
from services.scripted.tts import ScriptedVoice
from tests.daemon.inside import inside, settled
from tts_engine.engine import EngineStats
from tts_engine.errors import AtCapacity

DOCUMENT = Path(__file__).parents[2] / "docs/metrics.md"
#: name, type, labels
Family = tuple[str, str, tuple[str, ...]]


def report(outcome: str = "answered", **more: object) -> TurnReport:
    stamps = {"received": 10.0, "vad": 10.1, "endpoint": 10.4, "sent": 11.2, "audible": 11.25}
    return TurnReport(turn=1, outcome=outcome, stamps=stamps, **more)  # type: ignore[arg-type]


def told() -> Metrics:
    """Metrics that have seen something of everything, so that all labels show."""
    metrics = Metrics()
    stats = EngineStats()
    metrics.watch("tts", stats)
    stats.on_wait(0.1)
    metrics.watch("asr", RecognitionStats())
    metrics.turn("s1", report(work_ms={"asr_decode": 275.0}))
    metrics.error("s1", AtCapacity("full"))
    metrics.speech("done")
    metrics.speech_began(0.2)
    metrics.speech_ended(chars=10, audio_s=2.0, took_s=1.0)
    TranscriptionMetrics(metrics).transcription("done")
    return metrics


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"duplexd_{name}", labels)


def families(metrics: Metrics) -> set[Family]:
    """What is on the page."""
    return {
        (
            each.name + ("_total" if each.type == "counter" else ""),
            each.type,
            tuple(sorted({key for sample in each.samples for key in sample.labels} - {"le"})),
        )
        for each in metrics.registry.collect()
    }


def documented() -> set[Family]:
    """What the tables list."""
    row = re.compile(r"^\| `(\w+)` \| (\w+) \|([^|]*)\|[^|]*\| [^|]+ \|$", re.MULTILINE)
    return {
        (name, kind, tuple(sorted(re.findall(r"`(\w+)`", labels))))
        for name, kind, labels in row.findall(DOCUMENT.read_text(encoding="utf-8"))
    }


def test_the_document_lists_every_metric_and_no_other():
    assert families(told()) == documented()


def test_the_page_is_what_prometheus_reads():
    page = told().page().decode()
    names = {family.name for family in text_string_to_metric_families(page)}
    assert {"duplexd_turns", "duplexd_v2v_server_seconds", "process_open_fds"} <= names
    assert f'version="{version()}"' in page


def test_a_turn_is_counted_with_its_parts():
    metrics = Metrics()
    metrics.turn("s1", report(underruns=2, work_ms={"asr_decode": 275.0}))
    assert value(metrics, "turns_total", outcome="answered") == 1
    assert value(metrics, "underruns_total") == 2
    assert value(metrics, "v2v_server_seconds_sum") == pytest.approx(1.25)
    parts = [
        sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "duplexd_v2v_part_seconds_sum"
    ]
    assert sum(parts) == pytest.approx(1.25)
    assert value(metrics, "work_seconds_sum", work="asr_decode") == pytest.approx(0.275)


def test_what_was_said_is_in_no_log_but_that_of_debug():
    lines: list[tuple[str, str]] = []
    sink = logger.add(
        lambda line: lines.append((line.record["level"].name, line.record["message"])),
        level="DEBUG",
    )
    try:
        Metrics().turn("s1", report(transcript="我的秘密", answer="好的。"))
    finally:
        logger.remove(sink)
    [shown, hidden] = lines
    assert shown[0] == "INFO"
    assert shown[1].startswith("s1 turn 1 answered: v2v_server=1250 ms ")
    assert "秘密" not in shown[1]
    assert "好的" not in shown[1]
    assert hidden == ("DEBUG", "s1 turn 1: '我的秘密' -> '好的。'")


@pytest.mark.parametrize("outcome", ["failed", "interrupted"])
def test_an_apology_does_not_look_like_a_quick_answer(outcome: str):
    metrics = Metrics()
    metrics.turn("s1", report(outcome))
    assert value(metrics, "turns_total", outcome=outcome) == 1
    assert value(metrics, "v2v_server_seconds_count") == (0 if outcome == "failed" else 1)


def test_a_turn_without_an_answer_has_no_latency():
    metrics = Metrics()
    metrics.turn("s1", TurnReport(turn=1, outcome="interrupted", stamps={"received": 1.0}))
    assert value(metrics, "turns_total", outcome="interrupted") == 1
    assert value(metrics, "v2v_server_seconds_count") == 0


def test_outcomes_are_there_before_they_happen():
    metrics = Metrics()
    for outcome in ("answered", "interrupted", "failed"):
        assert value(metrics, "turns_total", outcome=outcome) == 0
    for outcome in ("done", "refused", "failed", "gone", "stalled", "cancelled"):
        assert value(metrics, "speech_requests_total", outcome=outcome) == 0


def test_an_engines_queue_is_read_and_its_waits_are_gathered():
    metrics, stats = Metrics(), EngineStats()
    stats.on_wait(9.0)  # nobody watches yet
    metrics.watch("asr", stats)
    stats.depth = 3
    stats.on_wait(0.2)
    stats.on_wait(0.3)
    assert value(metrics, "engine_queue", engine="asr") == 3
    assert value(metrics, "engine_wait_seconds_count", engine="asr") == 2
    assert value(metrics, "engine_wait_seconds_sum", engine="asr") == pytest.approx(0.5)


async def test_the_loops_lag_is_sampled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipeline.service_metrics.LAG_EVERY_S", 0.01)
    metrics = Metrics()
    task = asyncio.create_task(metrics.watch_loop())
    await settled(lambda: value(metrics, "event_loop_lag_seconds_count") == 3, "not sampled")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_daemon_watches_the_engines_that_it_runs():
    voice = ScriptedVoice()
    async with inside(voice=voice) as served:
        voice.stats.depth = 2
        assert served.count("engine_queue", engine="tts") == 2
        assert served.count("engine_queue", engine="asr") == 0


def test_the_longest_collection_is_told():
    metrics = Metrics()
    talking = True
    metrics.watch_collector(busy=lambda: talking)
    assert value(metrics, "gc_pause_seconds_max", during="talk") == 0
    gc.collect()
    longest = value(metrics, "gc_pause_seconds_max", during="talk")
    assert longest
    gc.collect(0)
    assert value(metrics, "gc_pause_seconds_max", during="talk") == longest
    assert value(metrics, "gc_pause_seconds_max", during="idle") == 0
    talking = False
    gc.collect()
    assert value(metrics, "gc_pause_seconds_max", during="idle")
    metrics.forget_collector()
    metrics.forget_collector()
    assert not [each for each in gc.callbacks if getattr(each, "__self__", None) is metrics]
