"""What `/metrics` shows of recordings that are transcribed; docs/metrics.md explains it."""

from __future__ import annotations

from typing import get_args

from prometheus_client import Counter, Histogram

from pipeline.service_metrics import ServiceMetrics
from services.audio_api.transcription_desk import TranscriptionOutcome
from tts_engine.errors import DuplexdError

_BUCKETS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 180.0, 600.0, 1800.0, 3600.0)


class TranscriptionMetrics:
    """Accounts on a service's page; implements `TranscriptionAccounts`.

    Parameters:
        service: whose page.
    """

    def __init__(self, service: ServiceMetrics) -> None:
        self._service = service
        self._requests = Counter(
            "duplexd_transcription_requests",
            "Requests to transcribe a recording by outcome",
            ["outcome"],
            registry=service.registry,
        )
        self._took = Histogram(
            "duplexd_transcription_seconds",
            "A request to transcribe a recording is there, to its answer was handed to the socket",
            buckets=_BUCKETS_S,
            registry=service.registry,
        )
        self._audio = Histogram(
            "duplexd_transcription_audio_seconds",
            "Length of a recording that was transcribed to its end",
            buckets=_BUCKETS_S,
            registry=service.registry,
        )
        # Known before they happen: a rate has to see the step from 0 to 1.
        for outcome in get_args(TranscriptionOutcome):
            self._requests.labels(outcome)

    def transcription(self, outcome: TranscriptionOutcome) -> None:
        """Counts a request, which its face has logged."""
        self._requests.labels(outcome).inc()

    def transcribed(self, *, audio_s: float, took_s: float) -> None:
        """Notes a recording that was transcribed to its end."""
        self._audio.observe(audio_s)
        self._took.observe(took_s)

    def count(self, error: DuplexdError) -> None:
        """Counts a failure by its class."""
        self._service.count(error)
