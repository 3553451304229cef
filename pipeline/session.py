"""One conversation: one pipecat pipeline and worker, on engines that all conversations share.

        ear -> turn aggregator -> answer -> clauses -> voice -> mouth -> heard aggregator

There is no runner: it keeps every finished session for good. The worker runs inside the
connection's handler, which ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from loguru import logger
from openai import AsyncOpenAI
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.utils.asyncio.task_manager import TaskManager
from pipecat.workers.base_worker import WorkerParams

from pipeline.aggregators import HeardAggregator, TurnAggregator
from pipeline.driver import Accounts, TurnDriver
from pipeline.ear import Ear, EarSettings
from pipeline.mouth import Mouth
from pipeline.turns.events import CancelRequested, Cleared, ManualCommit, RespondRequested
from pipeline.turns.state import TurnSettings
from services.asr.base import AsrEngine
from services.face import SessionOptions, Sink
from services.llm.service import AnswerService, AnswerSettings
from services.revision import RevisionBoard
from services.tts.clauses import ClauseProcessor
from services.tts.service import VoiceService
from services.vad.base import SAMPLE_RATE, VadEngine
from tts_engine.engine import SpeechEngine
from tts_engine.errors import BadRequest, UnknownVoice


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """What all conversations share."""

    vad: VadEngine
    asr: AsrEngine
    llm: AsyncOpenAI
    voice: SpeechEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """What every conversation starts with.

    Parameters:
        turns: how turns are decided.
        ear: how the ear listens.
        answers: how answers are asked for.
        apologies: what is said when a turn was not understood, by language.
        voice: name of the voice.
        speed: pace of the voice.
        ahead_s: most audio that is made ahead of the play head.
        clause_timeout_s: longest wait for a chunk of the voice.
    """

    turns: TurnSettings
    ear: EarSettings
    answers: AnswerSettings
    apologies: Mapping[str, str]
    voice: str | None = None
    speed: float = 1.0
    ahead_s: float = 4.0
    clause_timeout_s: float = 20.0


class Session:
    """A conversation; implements `services.face.Conversation`."""

    def __init__(
        self,
        *,
        name: str,
        sink: Sink,
        engines: Engines,
        settings: SessionSettings,
        options: SessionOptions,
        accounts: Accounts,
    ) -> None:
        self.id = name
        self._engines = engines
        self._settings = settings
        check_options(options, engines.voice)
        self._closing: asyncio.Task[None] | None = None
        self.context = LLMContext()
        board = RevisionBoard()
        self.driver = TurnDriver(
            session=name,
            sink=sink,
            board=board,
            settings=_turn_settings(settings.turns, options),
            accounts=accounts,
            apologies=settings.apologies,
            on_gone=self.close,
        )
        self.ear = Ear(
            vad=engines.vad,
            asr=engines.asr,
            session=name,
            settings=settings.ear,
            on_event=self.driver.handle,
            on_partial=self.driver.partial,
        )
        self.mouth = Mouth(sink=sink, board=board, events=self.driver, ahead_s=settings.ahead_s)
        self._answers = AnswerService(
            client=engines.llm, settings=settings.answers, board=board, events=self.driver
        )
        self._voice = VoiceService(
            engine=engines.voice,
            board=board,
            ahead=self.mouth,
            events=self.driver,
            clause_timeout_s=settings.clause_timeout_s,
        )
        heard = HeardAggregator(
            self.context, on_started=self.driver.started, on_settled=self.driver.settled
        )
        self._apply(options)
        self.driver.attach(ear=self.ear, mouth=self.mouth, heard=heard)
        self._worker = PipelineWorker(
            Pipeline(
                [
                    self.ear,
                    TurnAggregator(self.context),
                    self._answers,
                    ClauseProcessor(events=self.driver),
                    self._voice,
                    self.mouth,
                    heard,
                ]
            ),
            params=PipelineParams(
                audio_in_sample_rate=SAMPLE_RATE,
                audio_out_sample_rate=engines.voice.sample_rate,
                enable_metrics=False,
                enable_usage_metrics=False,
            ),
            cancel_on_idle_timeout=False,
            enable_rtvi=False,
            enable_turn_tracking=False,
            idle_timeout_secs=None,
        )

    async def run(self) -> None:
        """Runs the pipeline until `close`, and leaves nothing behind."""
        loop = asyncio.get_running_loop()
        effects = asyncio.create_task(self.driver.run(), name=f"effects {self.id}")
        try:
            await self._worker.run(WorkerParams(task_manager=TaskManager(loop=loop)))
        finally:
            effects.cancel()
            self.driver.close()
            await asyncio.gather(effects, return_exceptions=True)
            if self._closing is not None:
                await asyncio.gather(self._closing, return_exceptions=True)
            logger.debug("{}: closed", self.id)

    def audio(self, pcm: bytes, *, arrived: float) -> None:
        """Microphone audio, see `Conversation`."""
        self.ear.feed(pcm, arrived=arrived)

    def commit(self) -> None:
        """The client ends the user's turn."""
        self.ear.complete()
        self.ear.after(lambda: self.driver.handle(ManualCommit()))

    def clear(self) -> None:
        """The client withdraws the open turn."""
        self.ear.after(lambda: self.driver.handle(Cleared()))

    def add_text(self, role: Literal["user", "assistant", "system"], text: str) -> None:
        """Adds a message to the context."""
        self.ear.after(lambda: self.driver.add_text(role, text))

    def respond(self, *, instructions: str | None = None) -> None:
        """Answers from the context as it is."""
        event = RespondRequested(instructions or "")
        self.ear.after(lambda: self.driver.handle(event))

    def cancel(self) -> None:
        """Stops the current answer."""
        self.driver.handle(CancelRequested())

    def heard_until(self, revision: int, audio_ms: int) -> None:
        """The client's own report of its play head."""
        self.driver.heard_until(revision, audio_ms)

    def update(self, options: SessionOptions) -> None:
        """Changes the options from the next turn on."""
        check_options(options, self._engines.voice)
        self._apply(options)
        turns = _turn_settings(self._settings.turns, options)
        self.ear.after(lambda: self.driver.configure(turns))

    def close(self) -> None:
        """Ends the conversation."""
        if self._closing is None:
            # First the board: an answer that the LLM is cut off from must not count as complete.
            self.driver.close()
            self._closing = asyncio.create_task(self._worker.cancel())

    def _apply(self, options: SessionOptions) -> None:
        base = self._settings.answers
        given = options.instructions
        self._answers.answers = replace(
            base,
            instructions=given or "",
            temperature=base.temperature if options.temperature is None else options.temperature,
            max_tokens=options.max_tokens or base.max_tokens,
        )
        self._voice.speak = options.speak
        self._voice.voice = options.voice or self._settings.voice
        self._voice.speed = options.speed or self._settings.speed


def check_options(options: SessionOptions, voice: SpeechEngine) -> None:
    """Refuses what no conversation could use.

    Raises:
        UnknownVoice, BadRequest
    """
    if options.voice is not None and options.voice not in voice.voices:
        known = ", ".join(voice.voices)
        raise UnknownVoice(f"There is no voice {options.voice!r}", mend=f"Voices here: {known}")
    if options.speed is not None and not 0.5 <= options.speed <= 2.0:
        raise BadRequest(f"The speed must lie between 0.5 and 2.0, not {options.speed:g}")
    if options.floor_ms is not None and not 0 <= options.floor_ms <= 10_000:
        raise BadRequest(f"The silence must lie between 0 and 10000 ms, not {options.floor_ms}")


def _turn_settings(base: TurnSettings, options: SessionOptions) -> TurnSettings:
    return replace(
        base,
        server_turns=options.server_turns,
        auto_respond=options.auto_respond,
        interruptible=base.interruptible and options.interruptible,
        floor_ms=base.floor_ms if options.floor_ms is None else float(options.floor_ms),
    )
