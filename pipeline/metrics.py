"""What `/metrics` shows: counted once, by the definitions of `pipeline.latency`.

docs/metrics.md explains each to whoever reads them.
"""

from __future__ import annotations

import asyncio
import gc
import platform
import time
from typing import get_args

from loguru import logger
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from pipeline.answers import Guessed
from pipeline.latency import BUCKETS_S, PARTS, TurnReport
from pipeline.turns.actions import Reason
from pipeline.version import version
from services.audio_api.context import SpeechOutcome
from services.face import Outcome
from tts_engine.engine import EngineStats
from tts_engine.errors import DuplexdError

#: how often the event loop's lag is sampled, seconds
LAG_EVERY_S = 0.5
_LAG_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_WAIT_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The daemon's accounts.

    Implements `pipeline.answers.Accounts` and `services.audio_api.context.SpeechAccounts`.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        build = Gauge(
            "duplexd_build_info",
            "Always 1; what runs is in the labels",
            ["version", "python"],
            registry=self.registry,
        )
        build.labels(version(), platform.python_version()).set(1)
        self._turns = Counter(
            "duplexd_turns", "Turns by outcome", ["outcome"], registry=self.registry
        )
        self._guesses = Counter(
            "duplexd_speculations",
            "Answers that were begun before the turn had ended, by outcome",
            ["outcome"],
            registry=self.registry,
        )
        self._dismissed = Counter(
            "duplexd_dismissed",
            "Sounds over an answer that were no turn, by reason",
            ["reason"],
            registry=self.registry,
        )
        self._v2v = Histogram(
            "duplexd_v2v_server_seconds",
            "Last voiced sample received to first audible sample due",
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self._parts = Histogram(
            "duplexd_v2v_part_seconds",
            "Parts of voice to voice along the critical path",
            ["part"],
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self._work = Histogram(
            "duplexd_work_seconds",
            "Work of a turn wherever it lay, which overlaps and is not in the sum",
            ["work"],
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self._errors = Counter(
            "duplexd_errors", "Expected failures by class", ["code"], registry=self.registry
        )
        self._underruns = Counter(
            "duplexd_underruns", "Times a client ran dry inside an answer", registry=self.registry
        )
        self.sessions = Gauge("duplexd_sessions", "Live conversations", registry=self.registry)
        self._lag = Histogram(
            "duplexd_event_loop_lag_seconds",
            "How late the event loop woke",
            buckets=_LAG_BUCKETS_S,
            registry=self.registry,
        )
        self._collection = Gauge(
            "duplexd_gc_pause_seconds_max",
            "Longest garbage collection since the engines were ready",
            registry=self.registry,
        )
        self._collecting_since = self._longest_collection_s = 0.0
        self._depth = Gauge(
            "duplexd_engine_queue", "Jobs waiting or running", ["engine"], registry=self.registry
        )
        self._waited = Histogram(
            "duplexd_engine_wait_seconds",
            "How long a job waited for its engine",
            ["engine"],
            buckets=_WAIT_BUCKETS_S,
            registry=self.registry,
        )
        self._speech = Counter(
            "duplexd_speech_requests",
            "Requests to speak a text by outcome",
            ["outcome"],
            registry=self.registry,
        )
        self._first_byte = Histogram(
            "duplexd_speech_first_byte_seconds",
            "A request to speak a text is whole, to its first audio on the socket",
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        # Known before they happen: a rate has to see the step from 0 to 1.
        for outcome in get_args(Outcome):
            self._turns.labels(outcome)
        for outcome in get_args(SpeechOutcome):
            self._speech.labels(outcome)
        for outcome in get_args(Guessed):
            self._guesses.labels(outcome)
        for reason in Reason:
            self._dismissed.labels(reason.value)

    def watch(self, engine: str, stats: EngineStats) -> None:
        """Shows an engine's queue; read when the page is asked for."""
        self._depth.labels(engine).set_function(lambda: stats.depth)
        stats.on_wait = self._waited.labels(engine).observe

    def turn(self, session: str, report: TurnReport) -> None:
        """Counts a finished turn and writes its one log line."""
        self._turns.labels(report.outcome).inc()
        self._underruns.inc(report.underruns)
        v2v_ms = report.v2v_server_ms
        # An apology is quick: counted, it would make a dead language model look good.
        if v2v_ms is not None and report.outcome != "failed":
            self._v2v.observe(v2v_ms / 1e3)
            for part, ms in report.parts_ms.items():
                self._parts.labels(part).observe(ms / 1e3)
            for work, ms in report.work_ms.items():
                self._work.labels(work).observe(ms / 1e3)
        parts = " ".join(f"{p}={report.parts_ms[p]:.0f}" for p in PARTS if p in report.parts_ms)
        logger.info(
            "{} turn {} {}: v2v_server={} ms {}",
            session,
            report.turn,
            report.outcome,
            "-" if v2v_ms is None else round(v2v_ms),
            parts,
        )
        # What was said is nobody's business who only watches how the daemon does.
        logger.debug(
            "{} turn {}: {!r} -> {!r}", session, report.turn, report.transcript, report.answer
        )

    def dismissed(self, session: str, reason: Reason, text: str) -> None:
        """Counts sounds over an answer that were no turn."""
        self._dismissed.labels(reason.value).inc()
        logger.info("{} no turn: {}", session, reason.value)
        logger.debug("{} no turn: {!r}", session, text)

    def guessed(self, outcome: Guessed) -> None:
        """Counts a speculation."""
        self._guesses.labels(outcome).inc()

    def count(self, error: DuplexdError) -> None:
        """Counts a failure that its face has logged, as loudly as it deserves."""
        self._errors.labels(error.code).inc()

    def error(self, session: str, error: DuplexdError) -> None:
        """Counts a failure and writes its one log line."""
        self.count(error)
        logger.warning("{} {}: {}", session, error.code, error)

    def speech(self, outcome: SpeechOutcome) -> None:
        """Counts a request to speak a text, which its face has logged."""
        self._speech.labels(outcome).inc()

    def speech_began(self, first_byte_s: float) -> None:
        """Notes how long a client waited for the first audio of its text."""
        self._first_byte.observe(first_byte_s)

    def watch_collector(self) -> None:
        """Times the garbage collections of the process from now on, until `forget_collector`."""
        gc.callbacks.append(self._on_collection)

    def forget_collector(self) -> None:
        """Idempotent."""
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, _: dict[str, int]) -> None:
        now = time.perf_counter()
        if phase == "start":
            self._collecting_since = now
            return
        self._longest_collection_s = max(self._longest_collection_s, now - self._collecting_since)
        self._collection.set(self._longest_collection_s)

    async def watch_loop(self) -> None:
        """Samples the event loop's lag until cancelled."""
        while True:
            due = time.monotonic() + LAG_EVERY_S
            await asyncio.sleep(LAG_EVERY_S)
            self._lag.observe(max(0.0, time.monotonic() - due))

    def page(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)
