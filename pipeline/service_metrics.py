"""What `/metrics` shows of any service of ours: engines, requests to speak, failures, the process.

docs/metrics.md explains each to whoever reads them.
"""

from __future__ import annotations

import asyncio
import gc
import platform
import time
from collections.abc import Callable
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from pipeline.latency import BUCKETS_S
from pipeline.version import version
from services.asr.funasr.stats import RecognitionStats
from tts_engine.engine import EngineStats
from tts_engine.errors import DuplexdError
from tts_engine.service.desk import SpeechOutcome

#: how often the event loop's lag is sampled, seconds
LAG_EVERY_S = 0.5
_LAG_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_WAIT_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SPEECH_BUCKETS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
_CHARS_BUCKETS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


class ServiceMetrics:
    """The accounts of a service that speaks; implements `SpeechAccounts` of tts_engine.service."""

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
        self._errors = Counter(
            "duplexd_errors", "Expected failures by class", ["code"], registry=self.registry
        )
        self._lag = Histogram(
            "duplexd_event_loop_lag_seconds",
            "How late the event loop woke",
            buckets=_LAG_BUCKETS_S,
            registry=self.registry,
        )
        self._collection = Gauge(
            "duplexd_gc_pause_seconds_max",
            "Longest garbage collection since the engines were ready",
            ["during"],
            registry=self.registry,
        )
        self._longest_collection_s: dict[str, float] = {"talk": 0.0, "idle": 0.0}
        for during in self._longest_collection_s:
            self._collection.labels(during)
        self._collecting_since = 0.0
        self._busy: Callable[[], bool] = lambda: True
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
        self._count_speech()

    def _count_speech(self) -> None:
        self._speech = Counter(
            "duplexd_speech_requests",
            "Requests to speak a text by outcome",
            ["outcome"],
            registry=self.registry,
        )
        self._first_byte = Histogram(
            "duplexd_speech_first_byte_seconds",
            "A request to speak a text is there, to its first audio on the socket",
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self._speech_took = Histogram(
            "duplexd_speech_seconds",
            "A request to speak a text is there, to its last audio on the socket",
            buckets=_SPEECH_BUCKETS_S,
            registry=self.registry,
        )
        self._speech_audio = Histogram(
            "duplexd_speech_audio_seconds",
            "Length of the audio of a text that was spoken to its end",
            buckets=_SPEECH_BUCKETS_S,
            registry=self.registry,
        )
        self._speech_chars = Histogram(
            "duplexd_speech_characters",
            "Length of a text that was spoken to its end",
            buckets=_CHARS_BUCKETS,
            registry=self.registry,
        )
        # Known before they happen: a rate has to see the step from 0 to 1.
        for outcome in get_args(SpeechOutcome):
            self._speech.labels(outcome)

    def watch(self, engine: str, stats: EngineStats) -> None:
        """Shows an engine's queue; read when the page is asked for."""
        self._depth.labels(engine).set_function(lambda: stats.depth)
        stats.on_wait = self._waited.labels(engine).observe
        if isinstance(stats, RecognitionStats):
            self._watch_partials(stats)

    def _watch_partials(self, stats: RecognitionStats) -> None:
        due = Gauge(
            "duplexd_asr_streams_due",
            "Turns whose partial text could go on and had no part in the last step",
            registry=self.registry,
        )
        due.set_function(lambda: stats.due)
        stride = Gauge(
            "duplexd_asr_partial_stride_seconds",
            "Audio that a turn gathers before its partial text goes on",
            registry=self.registry,
        )
        stride.set_function(lambda: stats.stride_s)
        waited = Histogram(
            "duplexd_asr_partial_wait_seconds",
            "How long a turn whose partial text could go on waited for it",
            buckets=_WAIT_BUCKETS_S,
            registry=self.registry,
        )
        stats.on_partial_wait = waited.observe

    def count(self, error: DuplexdError) -> None:
        """Counts a failure that its face has logged, as loudly as it deserves."""
        self._errors.labels(error.code).inc()

    def speech(self, outcome: SpeechOutcome) -> None:
        """Counts a request to speak a text, which its face has logged."""
        self._speech.labels(outcome).inc()

    def speech_began(self, first_byte_s: float) -> None:
        """Notes how long a client waited for the first audio of its text."""
        self._first_byte.observe(first_byte_s)

    def speech_ended(self, *, chars: int, audio_s: float, took_s: float) -> None:
        """Notes a text that was spoken to its end."""
        self._speech_chars.observe(chars)
        self._speech_audio.observe(audio_s)
        self._speech_took.observe(took_s)

    def watch_collector(self, *, busy: Callable[[], bool]) -> None:
        """Times the garbage collections of the process from now on, until `forget_collector`.

        Args:
            busy: whether there is anybody whom a pause would hold up.
        """
        self._busy = busy
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
        during, took_s = "talk" if self._busy() else "idle", now - self._collecting_since
        if took_s > self._longest_collection_s[during]:
            self._longest_collection_s[during] = took_s
            self._collection.labels(during).set(took_s)

    async def watch_loop(self) -> None:
        """Samples the event loop's lag until cancelled."""
        while True:
            due = time.monotonic() + LAG_EVERY_S
            await asyncio.sleep(LAG_EVERY_S)
            self._lag.observe(max(0.0, time.monotonic() - due))

    def page(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)
