"""What `/metrics` shows of conversations: counted once, by the definitions of `pipeline.latency`.

docs/metrics.md explains each to whoever reads them.
"""

from __future__ import annotations

from typing import get_args

from loguru import logger
from prometheus_client import Counter, Gauge, Histogram

from pipeline.answers import Guessed
from pipeline.latency import BUCKETS_S, PARTS, TurnReport
from pipeline.service_metrics import ServiceMetrics
from pipeline.turns.actions import Reason
from services.face import Outcome
from tts_engine.errors import DuplexdError


class Metrics(ServiceMetrics):
    """The daemon's accounts; implements `pipeline.answers.Accounts`."""

    def __init__(self) -> None:
        super().__init__()
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
        self._underruns = Counter(
            "duplexd_underruns", "Times a client ran dry inside an answer", registry=self.registry
        )
        self.sessions = Gauge("duplexd_sessions", "Live conversations", registry=self.registry)
        # Known before they happen: a rate has to see the step from 0 to 1.
        for outcome in get_args(Outcome):
            self._turns.labels(outcome)
        for outcome in get_args(Guessed):
            self._guesses.labels(outcome)
        for reason in Reason:
            self._dismissed.labels(reason.value)

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

    def error(self, session: str, error: DuplexdError) -> None:
        """Counts a failure and writes its one log line."""
        self.count(error)
        logger.warning("{} {}: {}", session, error.code, error)
