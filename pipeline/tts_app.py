"""The TTS service by itself: one voice engine, its routes on one web application, readiness."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from loguru import logger

from pipeline.access import guard
from pipeline.budget import ThreadBudget
from pipeline.config_schema import Config
from pipeline.lifespan import make_router as make_probes
from pipeline.lifespan import nothing, warming
from pipeline.service_metrics import ServiceMetrics
from pipeline.speech_desk import make_desk, service_context
from pipeline.voice import build_voice, with_default_first
from services.access.router import make_router as make_certificate_router
from services.api_errors import install_errors
from services.audio_api.router import make_router as make_speech_router
from services.models.store import ModelStore
from services.voices import resolve_voice
from tts_engine.errors import DuplexdError
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
        self._warm = False
        self._lag: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """The engine is warm, and takes jobs now."""
        return self._warm and self.voice.ready

    @property
    def waiting(self) -> tuple[str, ...]:
        """The engine, while it is not ready."""
        return () if self.ready else ("tts",)

    @property
    def voices(self) -> tuple[str, ...]:
        """Voices of the engine, the configured one first."""
        return with_default_first(self.config.tts.voice, self.voice.voices)

    @property
    def models(self) -> tuple[str, ...]:
        """What speaks."""
        return (self.config.tts.provider,)

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
        self._warm = True
        self._lag = asyncio.create_task(self.metrics.watch_loop(), name="loop lag")
        logger.info("the voice is warm")

    def _check_voice(self) -> None:
        """A wrong name is told before anything slow is done. Voices that are registered may come
        later, and scripted engines have names of their own.
        """
        tts, known = self.config.tts, self.voice.voices
        if isinstance(self.voice, VoiceCloner) or tts.provider == "scripted":
            return
        if tts.voice is not None:
            resolve_voice(tts.voice, known)

    async def close(self) -> None:
        """Closes the engine. Idempotent."""
        self._warm = False
        self.metrics.forget_collector()
        if self._lag is not None:
            self._lag.cancel()
            await asyncio.gather(self._lag, return_exceptions=True)
        await self.voice.close()


def create_app(
    service: TtsService,
    *,
    on_ready: Callable[[], None] = nothing,
    on_failure: Callable[[], None] = nothing,
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
    lifespan = warming(service, on_ready=on_ready, on_failure=on_failure)
    app = FastAPI(title="duplexd tts", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.include_router(make_probes(service, name="duplexd tts"))

    @app.get("/")
    async def index() -> JSONResponse:
        """What there is; also where a link with a key leads to."""
        return JSONResponse({"service": "duplexd tts", "about": _ROUTES})

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
