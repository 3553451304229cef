"""The TTS service by itself: one voice engine, its routes on one web application, readiness."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from loguru import logger

from pipeline.access import guard
from pipeline.budget import ThreadBudget
from pipeline.config_schema import Config
from pipeline.service_metrics import ServiceMetrics
from pipeline.speech_desk import make_desk, service_context
from pipeline.voice import build_voice, with_default_first
from services.access.router import make_router as make_certificate_router
from services.api_errors import install_errors
from services.audio_api.router import make_router as make_speech_router
from services.models.store import ModelStore
from tts_engine.errors import DuplexdError, UnknownVoice
from tts_engine.service.cloner import VoiceCloner
from tts_engine.service.router import make_router
from tts_engine.service.voices import sweep

_ROUTES = (
    "This service has POST /tts, WS /ws/tts, GET /list-voice, POST /register-voice, "
    "DELETE /voices/{id}, and of OpenAI's API POST /v1/audio/speech and GET /v1/models"
)


class TtsService:
    """The voice engine and its readiness."""

    def __init__(self, *, config: Config, store: ModelStore) -> None:
        self.config = config
        self.metrics = ServiceMetrics()
        threads = ThreadBudget.of(config.threads).tts
        self.voice = build_voice(config, store, threads=threads, needs_voice=False)
        self.failure: DuplexdError | None = None
        self.ready = False
        self._lag: asyncio.Task[None] | None = None

    @property
    def voices(self) -> tuple[str, ...]:
        """Voices of the engine, the configured one first."""
        return with_default_first(self.config.tts.voice, self.voice.voices)

    @property
    def models(self) -> tuple[str, ...]:
        """Names for clients that insist on a list."""
        return ("duplexd", self.config.tts.provider)

    async def start(self) -> None:
        """Warms the engine.

        Raises:
            DuplexdError: it cannot be started, or has no such voice as the configuration wants.
        """
        self.metrics.watch("tts", self.voice.stats)
        try:
            self._check_voice()
            await self.voice.start()
            await sweep(self.voice)
        except DuplexdError as error:
            self.failure = error
            raise
        # What lives as long as the process is no business of the collector's.
        gc.collect()
        gc.freeze()
        self.metrics.watch_collector(busy=lambda: self.voice.stats.depth > 0)
        self.ready = True
        self._lag = asyncio.create_task(self.metrics.watch_loop(), name="loop lag")

    def _check_voice(self) -> None:
        """A wrong name is told before anything slow is done. Voices that are registered may come
        later, and scripted engines have names of their own.
        """
        tts, known = self.config.tts, self.voice.voices
        if isinstance(self.voice, VoiceCloner) or tts.provider == "scripted":
            return
        if tts.voice is not None and tts.voice not in known:
            raise UnknownVoice(
                f"There is no voice {tts.voice!r}", mend=f"Choose among {', '.join(known)}"
            )

    async def close(self) -> None:
        """Closes the engine. Idempotent."""
        self.ready = False
        self.metrics.forget_collector()
        if self._lag is not None:
            self._lag.cancel()
            await asyncio.gather(self._lag, return_exceptions=True)
        await self.voice.close()


def _nothing() -> None:
    """Nobody wants to know."""


def create_app(
    service: TtsService,
    *,
    on_ready: Callable[[], None] = _nothing,
    on_failure: Callable[[], None] = _nothing,
    ca_certificate: Path | None = None,
) -> FastAPI:
    """Builds the web application; its lifespan warms the engine while it already answers.

    Args:
        service: the engine.
        on_ready: called when it is warm.
        on_failure: called when it cannot be started; the server should then end.
        ca_certificate: what phones are to trust, in PEM; None: nothing of ours.

    Raises:
        DuplexdError: a key is required, and the keys cannot be read; or the blocked words cannot.
    """

    async def warm_up() -> None:
        try:
            await service.start()
            logger.info("the voice is warm")
            on_ready()
        except DuplexdError:
            on_failure()  # the server ends, and its starter shows `service.failure`

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        warming = asyncio.create_task(warm_up(), name="warm up")
        try:
            yield
        finally:
            if not warming.done():
                warming.cancel()
            with suppress(asyncio.CancelledError):
                await warming
            await service.close()

    app = FastAPI(title="duplexd tts", lifespan=lifespan, docs_url=None, redoc_url=None)

    @app.get("/")
    async def index() -> JSONResponse:
        """What there is; also where a link with a key leads to."""
        return JSONResponse({"service": "duplexd tts", "about": _ROUTES})

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process lives."""
        return {"status": "ok", "service": "duplexd tts"}

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        """200 once the engine is warm."""
        if service.ready:
            return JSONResponse({"status": "ready"})
        if service.failure is not None:
            return JSONResponse({"status": "failed", "error": str(service.failure)}, 503)
        return JSONResponse({"status": "warming"}, 503, headers={"Retry-After": "1"})

    @app.get("/metrics")
    async def metrics() -> Response:
        """Prometheus exposition."""
        return Response(service.metrics.page(), media_type="text/plain; version=0.0.4")

    config = service.config
    desk = make_desk(
        config,
        engine=service.voice,
        accounts=service.metrics,
        ready=lambda: service.ready,
        voices=lambda: service.voices,
        jobs=config.speech.parallel,
    )
    app.include_router(make_router(service_context(config, desk)))
    app.include_router(make_speech_router(desk, models=lambda: service.models))
    if ca_certificate is not None:
        app.include_router(make_certificate_router(ca_certificate))
    install_errors(app, routes=_ROUTES)
    guard(app, config.server, count=service.metrics.count)
    return app
