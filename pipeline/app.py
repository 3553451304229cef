"""The composition root: shared engines, the faces mounted on one web application, readiness."""

from __future__ import annotations

import asyncio
import gc
import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from pipeline.access import guard
from pipeline.config_schema import Config
from pipeline.ear import EarSettings
from pipeline.engines import EngineRoom
from pipeline.lifespan import make_router as make_probes
from pipeline.lifespan import nothing, warming
from pipeline.metrics import Metrics
from pipeline.options import SessionSettings, check_options
from pipeline.session import Engines, Session
from pipeline.shelf import ToolShelf
from pipeline.speech_desk import make_desk, service_context
from pipeline.tool_runner import ToolSettings
from pipeline.transcription import make_transcription_desk
from pipeline.transcription_metrics import TranscriptionMetrics
from pipeline.turn_log import TurnLog
from pipeline.turns.settings import TurnSettings
from pipeline.version import version
from pipeline.voice import greetings_of, phrases_of, with_default_first
from pipeline.xiaozhi import make_xiaozhi_routers
from services.access.router import make_router as make_certificate_router
from services.api_errors import install_errors
from services.audio_api.router import make_router as make_speech_router
from services.audio_api.transcriptions import make_router as make_transcription_router
from services.face import FaceContext, PacingProfile, SessionOptions, Sink
from services.llm.service import AnswerSettings
from services.models.store import ModelStore
from services.realtime.router import make_router
from services.tts.phrases import PhraseBook
from services.web.router import About, Bilingual, PersonaChoice, Status, WebContext
from services.web.router import make_router as make_web_router
from tts_engine.errors import AtCapacity, DuplexdError, EngineFailed
from tts_engine.service.router import make_router as make_service_router
from tts_engine.service.voices import sweep

#: A full collection stops the loop for about a microsecond an object, the living ones included:
#: 50 ms with 40 conversations. What closed conversations leave, a few hundred objects each, waits
#: until nobody has talked for so long, seconds
_COLLECT_AFTER_S = 0.25
#: or until so many have closed: some 40 MB
_COLLECT_AT = 400
#: the collector's own full passes are as good as off, and its small ones are as they were
_THRESHOLDS = (700, 10, 1000)


class Daemon:
    """The engines and the conversations; implements `services.face.SessionFactory`."""

    def __init__(self, *, config: Config, store: ModelStore) -> None:
        self.config = config
        self.metrics = Metrics()
        self.room = EngineRoom(config=config, store=store)
        self.shelf = ToolShelf(config)
        self.sessions: dict[str, Session] = {}
        self.failure: DuplexdError | None = None
        self._engines: Engines | None = None
        self._settings: SessionSettings | None = None
        self._names = itertools.count(1)
        self._started = time.strftime("%Y%m%d-%H%M%S")  # tells the logs of several runs apart
        self._collecting: asyncio.TimerHandle | None = None
        self._closed = 0  # conversations, since the last full collection
        self._thresholds = gc.get_threshold()
        self._lag: asyncio.Task[None] | None = None
        self._rehearsal: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """All engines are warm, and none is being started again."""
        return self._engines is not None and self.room.asr.ready and self.room.voice.ready

    @property
    def waiting(self) -> list[str]:
        """Engines that are not warm yet, or are being started again."""
        engines = {"asr": self.room.asr, "tts": self.room.voice}
        again = {name for name, each in engines.items() if not each.ready}
        return sorted(self.room.waiting | again)

    @property
    def voices(self) -> tuple[str, ...]:
        """Voices of the engine, the configured one first."""
        return with_default_first(self.config.tts.voice, self.room.voice.voices)

    @property
    def _voice(self) -> str | None:
        """The configured voice; scripted engines have names of their own."""
        tts = self.config.tts
        return None if tts.provider == "scripted" else tts.voice

    @property
    def models(self) -> tuple[str, ...]:
        """What the daemon consists of: itself, then its engines as far as they are known."""
        config, brain = self.config, self.room.brain
        recogniser = config.asr.model if config.asr.provider == "whisper" else config.asr.provider
        known = ("duplexd", config.tts.provider, recogniser, brain.model if brain else "")
        return tuple(dict.fromkeys(name for name in known if name))

    async def start(self) -> None:
        """Warms the engines.

        Raises:
            DuplexdError: an engine cannot be started.
        """
        self.metrics.watch("asr", self.room.asr.stats)
        self.metrics.watch("tts", self.room.voice.stats)
        if self.room.turn_end is not None:
            self.metrics.watch("turn_end", self.room.turn_end.stats)
        try:
            # A wrong name is told before anything slow is done.
            check_options(SessionOptions(voice=self._voice), self.room.voice)
            phrases = PhraseBook(phrases_of(self.config))
            engines = replace(await self.room.start(), tools=self.shelf.tools, phrases=phrases)
            await self.shelf.start()
            await sweep(self.room.voice)
            self._settings = self._session_settings()
        except DuplexdError as error:
            self.failure = error
            raise
        # What lives as long as the process is no business of the collector's: a full collection
        # then costs what the dead sessions cost. The second pass resets its thresholds.
        gc.collect()
        gc.freeze()
        gc.collect()
        gc.set_threshold(*_THRESHOLDS)
        self.metrics.watch_collector(busy=lambda: bool(self.sessions))
        self._engines = engines
        self._lag = asyncio.create_task(self.metrics.watch_loop(), name="loop lag")
        rehearsal = phrases.rehearse(
            self.room.voice,
            greetings_of(self.config),
            voice=self._voice,
            speed=self.config.tts.speed,
            busy=lambda: bool(self.sessions),
        )
        self._rehearsal = asyncio.create_task(rehearsal, name="rehearse greetings")

    async def close(self) -> None:
        """Ends every conversation, then the engines."""
        self._engines = None
        self.metrics.forget_collector()
        gc.set_threshold(*self._thresholds)
        for session in list(self.sessions.values()):
            session.close()
        if self._collecting is not None:
            self._collecting.cancel()
        for task in (self._lag, self._rehearsal):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self.shelf.close()
        await self.room.close()

    def open(self, sink: Sink, options: SessionOptions) -> Session:
        """Opens a conversation, see `SessionFactory`."""
        if self._engines is None or self._settings is None:
            raise EngineFailed("The engines are not ready", mend="Wait for /readyz")
        limit = self.config.server.max_sessions
        if len(self.sessions) >= limit:
            raise AtCapacity(
                f"All {limit} places are taken",
                mend="Try again later, or raise server.max_sessions",
            )
        name = f"s{next(self._names)}"
        folder = self.config.turns.record_dir
        session = _Counted(
            daemon=self,
            name=name,
            sink=sink,
            engines=self._engines,
            settings=self._settings,
            options=options,
            accounts=self.metrics,
            log=None if folder is None else TurnLog(folder / f"{self._started}-{name}.jsonl"),
        )
        self.sessions[name] = session
        self.metrics.sessions.set(len(self.sessions))
        return session

    def closed(self, session: Session) -> None:
        """Forgets a conversation; its cycles are collected when it disturbs nobody."""
        if self.sessions.pop(session.id, None) is None:
            return
        self.metrics.sessions.set(len(self.sessions))
        self._closed += 1
        if self._collecting is not None:
            self._collecting.cancel()
        loop = asyncio.get_running_loop()
        self._collecting = loop.call_later(_COLLECT_AFTER_S, self._collect)

    def _collect(self) -> None:
        self._collecting = None
        if not self.sessions or self._closed >= _COLLECT_AT:
            self._closed = 0
            gc.collect()

    def _session_settings(self) -> SessionSettings:
        config = self.config
        vad, turns, llm, tts = config.vad, config.turns, config.llm, config.tts
        assert self.room.brain is not None
        apology, unheard = config.messages.llm_failed, config.messages.asr_failed
        mood, filler = config.prompts.mood, config.messages.filler
        return SessionSettings(
            turns=TurnSettings(
                threshold=vad.threshold,
                onset_windows=vad.onset_windows,
                playback_onset_windows=vad.playback_onset_windows,
                floor_ms=turns.floor_ms,
                ceiling_ms=turns.ceiling_ms,
                finalise_ms=turns.finalise_ms,
                speculate=turns.speculate,
                speculations=turns.speculations,
                max_turn_ms=turns.max_turn_s * 1000,
                interruptible=turns.interruptible,
                barge_in_ms=turns.barge_in_ms,
                resume_ms=turns.resume_ms,
            ),
            ear=EarSettings(
                preroll_ms=vad.preroll_ms,
                starvation_ms=turns.starvation_ms,
                keeps_turn=turns.acoustic != "off",
            ),
            answers=AnswerSettings(
                model=self.room.brain.model,
                prompts={"zh": config.prompts.text("zh"), "en": config.prompts.text("en")},
                switches={"zh": config.prompts.switch.zh, "en": config.prompts.switch.en},
                moods=mood.model_dump() if mood is not None else {},
                apologies={"zh": apology.zh, "en": apology.en},
                temperature=llm.temperature,
                max_tokens=llm.max_tokens,
                context_tokens=llm.context,
                first_token_timeout_s=llm.first_token_timeout_s,
                idle_timeout_s=llm.idle_timeout_s,
                tools=llm.engine != "local" or llm.local.tools,
            ),
            apologies={"zh": unheard.zh, "en": unheard.en},
            voice=self._voice,
            speed=tts.speed,
            ahead_s=tts.ahead_s,
            clause_timeout_s=tts.clause_timeout_s,
            speculate_when_busy=turns.speculate_when_busy,
            tools=ToolSettings(
                filler_after_s=config.tools.filler_after_s,
                fillers={"zh": filler.zh, "en": filler.en},
            ),
        )


class _Counted(Session):
    """A session that the daemon counts until its run ends."""

    def __init__(self, *, daemon: Daemon, **kwargs: Any) -> None:
        self._daemon = daemon
        super().__init__(**kwargs)

    async def run(self) -> None:
        """Runs the session and gives its place back."""
        try:
            await super().run()
        finally:
            self._daemon.closed(self)

    def close(self) -> None:
        """Ends the session, also one that never ran."""
        self._daemon.closed(self)
        super().close()


def create_app(
    daemon: Daemon,
    *,
    on_ready: Callable[[], None] = nothing,
    on_failure: Callable[[], None] = nothing,
    ca_certificate: Path | None = None,
) -> FastAPI:
    """Builds the web application; its lifespan warms the engines while it already answers.

    Args:
        daemon: what the faces talk to.
        on_ready: called when all engines are warm.
        on_failure: called when an engine cannot be started; the server should then end.
        ca_certificate: what phones are to trust, in PEM; None: nothing of ours.

    Raises:
        DuplexdError: a key is required, and the keys cannot be read.
    """
    lifespan = warming(daemon, on_ready=on_ready, on_failure=on_failure)
    app = FastAPI(title="duplexd", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.include_router(make_probes(daemon, name="duplexd"))
    server = daemon.config.server
    context = FaceContext(
        sessions=daemon,
        send_timeout_s=server.send_timeout_s,
        on_error=daemon.metrics.count,
    )
    realtime = daemon.config.realtime
    profile = PacingProfile(frame_ms=realtime.frame_ms, lead_ms=realtime.lead_ms)
    app.include_router(make_router(context, profile))
    for router in make_xiaozhi_routers(
        daemon.config, context, client=lambda: daemon.room.brain and daemon.room.brain.client
    ):
        app.include_router(router)
    desk = make_desk(
        daemon.config,
        engine=daemon.room.voice,
        accounts=daemon.metrics,
        ready=lambda: daemon.ready,
        voices=lambda: daemon.voices,
        jobs=1,  # conversations go first
    )
    app.include_router(make_speech_router(desk, models=lambda: daemon.models))
    transcriptions = make_transcription_desk(
        daemon.config,
        asr=daemon.room.asr,
        vad=daemon.room.vad,
        accounts=TranscriptionMetrics(daemon.metrics),
        ready=lambda: daemon.ready,
    )
    app.include_router(make_transcription_router(transcriptions))
    if daemon.config.speech.service:
        app.include_router(make_service_router(service_context(daemon.config, desk)))
    app.include_router(
        make_web_router(
            WebContext(about=lambda: _about(daemon), status=lambda: _talk_status(daemon))
        )
    )
    if ca_certificate is not None:
        app.include_router(make_certificate_router(ca_certificate))
    install_errors(app)
    guard(app, server, count=daemon.metrics.count)
    return app


def _about(daemon: Daemon) -> About:
    """What the talk page offers."""
    voices = daemon.voices
    return About(
        version=version(),
        voices=list(voices),
        default_voice=voices[0] if voices else "",
        personas=[
            PersonaChoice(
                id=persona.id,
                name=Bilingual(zh=persona.name.zh, en=persona.name.en),
                instructions=Bilingual(zh=said.zh, en=said.en)
                if (said := persona.instructions)
                else Bilingual(zh="", en=""),
            )
            for persona in daemon.config.web.personas
        ],
    )


def _talk_status(daemon: Daemon) -> Status:
    """Whether the talk page can open a conversation, and why not."""
    if daemon.failure is not None:
        return Status(state="failed", error=str(daemon.failure))
    if not daemon.ready:
        return Status(state="warming", retry_after_s=1, waiting_for=daemon.waiting)
    if len(daemon.sessions) >= daemon.config.server.max_sessions:
        return Status(state="full", retry_after_s=10)
    return Status(state="ready")
