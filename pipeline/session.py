"""One conversation: one pipecat pipeline and worker, on engines that all conversations share.

        ear -> turn aggregator -> answer -> clauses -> voice -> mouth

There is no runner: it keeps every finished session for good. The worker runs inside the
connection's handler, which ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from loguru import logger
from openai import AsyncOpenAI
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.utils.asyncio.task_manager import TaskManager
from pipecat.workers.base_worker import WorkerParams

from pipeline.aggregators import PipelineEnd, TurnAggregator
from pipeline.answers import Accounts, Answers
from pipeline.context_book import ContextBook
from pipeline.driver import TurnDriver
from pipeline.ear import Ear
from pipeline.effects import Effects
from pipeline.listening import Listening
from pipeline.mouth import Mouth
from pipeline.options import (
    SessionSettings,
    check_answer,
    check_options,
    plan_answer,
    turn_settings,
)
from pipeline.release import release
from pipeline.turn_log import TurnLog
from pipeline.turns.events import Cleared, ManualCommit, Muted
from pipeline.turns.record import Recorder
from pipeline.voice import with_default_first
from services.answer import AnswerPlan, AnswerPlans
from services.asr.base import AsrEngine
from services.face import AnswerOptions, SessionOptions, Sink
from services.items import ContextItem
from services.llm.load import ServerLoad
from services.llm.service import AnswerService
from services.revision import RevisionBoard
from services.tools import DaemonTool
from services.tts.clauses import ClauseProcessor
from services.tts.phrases import PhraseBook
from services.tts.service import VoiceService
from services.turn_end.base import TurnEndEngine
from services.vad.base import SAMPLE_RATE, VadEngine
from tts_engine.engine import SpeechEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """What all conversations share.

    Parameters:
        load: how much the language model's server has to do.
        turn_end: says by the sound whether the user has finished; None: nobody does.
        phrases: fixed sentences, as the voice has spoken them.
        tools: functions that every conversation is offered, as they are now.
    """

    vad: VadEngine
    asr: AsrEngine
    llm: AsyncOpenAI
    voice: SpeechEngine
    load: ServerLoad = field(default_factory=ServerLoad)
    turn_end: TurnEndEngine | None = None
    phrases: PhraseBook = field(default_factory=PhraseBook)
    tools: Callable[[], tuple[DaemonTool, ...]] = tuple

    @property
    def busy(self) -> bool:
        """Somebody waits for an engine, or would soon."""
        return self.asr.stats.depth > 0 or self.voice.stats.depth > 0 or self.load.full


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
        log: TurnLog | None = None,
    ) -> None:
        check_options(options, engines.voice)
        self.id = name
        self._engines = engines
        self._settings = settings
        self._profile = sink.profile
        self._log = log
        self._options = options  # as the audio that was dealt with has them
        self._latest = options  # as the client has them
        self._closing: asyncio.Task[None] | None = None
        self._over = False
        self.context = LLMContext()
        board, plans, book = RevisionBoard(), AnswerPlans(), ContextBook(self.context.messages)
        self._effects = Effects(session=name, on_gone=self.close)
        answers = Answers(
            session=name,
            sink=sink,
            board=board,
            plans=plans,
            book=book,
            effects=self._effects,
            accounts=accounts,
        )
        self.driver = TurnDriver(
            session=name,
            sink=sink,
            answers=answers,
            book=book,
            effects=self._effects,
            plan=self._plan,
            accounts=accounts,
            apologies=settings.apologies,
            tools=settings.tools,
            busy=self._busy,
            record=None if log is None else Recorder(log.write),
        )
        self.ear = Ear(
            vad=engines.vad,
            asr=engines.asr,
            session=name,
            settings=settings.ear,
            on_event=self.driver.handle,
            on_partial=self.driver.partial,
        )
        self.mouth = Mouth(sink=sink, board=board, events=answers, ahead_s=settings.ahead_s)
        self._effects.attach(self.ear)
        answers.attach(mouth=self.mouth, on_event=self.driver.handle, tools=self.driver.tools)
        self.driver.attach(
            self.ear,
            Listening(
                session=name,
                ear=self.ear,
                turn_end=engines.turn_end,
                audible=self.mouth.audible,
                accounts=accounts,
                on_event=self.driver.handle,
            ),
        )
        self._apply(options)
        llm = AnswerService(
            client=engines.llm,
            settings=settings.answers,
            board=board,
            plans=plans,
            events=answers,
            load=engines.load,
        )
        voice = VoiceService(
            engine=engines.voice,
            phrases=engines.phrases,
            board=board,
            plans=plans,
            ahead=self.mouth,
            events=answers,
            clause_timeout_s=settings.clause_timeout_s,
        )
        self._worker = PipelineWorker(
            Pipeline(
                [
                    self.ear,
                    TurnAggregator(self.context, book),
                    llm,
                    ClauseProcessor(events=answers, plans=plans),
                    voice,
                    self.mouth,
                    PipelineEnd(
                        on_started=self._effects.started, on_interrupted=self._effects.settled
                    ),
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
        effects = asyncio.create_task(self._effects.run(), name=f"effects {self.id}")
        try:
            await self._worker.run(WorkerParams(task_manager=TaskManager(loop=loop)))
        finally:
            # First: a `close` from now on has nothing to end, and soon no worker.
            self._over = True
            effects.cancel()
            self.driver.close()
            await asyncio.gather(effects, return_exceptions=True)
            if self._closing is not None:
                await asyncio.gather(self._closing, return_exceptions=True)
            if self._log is not None:
                await self._log.close()
            release(self._worker, keep=(self.ear, self.mouth))
            logger.debug("{}: closed", self.id)

    def audio(self, pcm: bytes, *, arrived: float) -> None:
        """Microphone audio, see `Conversation`."""
        self.ear.feed(pcm, arrived=arrived)

    def commit(self) -> None:
        """The client ends the user's turn."""
        self.ear.complete()
        self.ear.after(lambda: self.driver.handle(ManualCommit()), lasting=False)

    def clear(self) -> None:
        """The client withdraws the open turn."""
        self.ear.after(lambda: self.driver.handle(Cleared()), lasting=False)

    def mute(self, on: bool) -> None:
        """The user's microphone is off, or on again."""
        self.ear.after(lambda: self.driver.handle(Muted(on)))

    def say(self, text: str, language: str = "") -> None:
        """The user's turn comes as text, see `Conversation`."""
        self.ear.after(lambda: self.driver.say(text, language), lasting=False)

    def add(self, ref: str, item: ContextItem, *, after: str | None = None) -> None:
        """Adds an item to the context, see `Conversation`."""
        self.ear.after(lambda: self.driver.add(ref, item, after=after))

    def remove(self, ref: str) -> None:
        """Takes an item out of the context, see `Conversation`."""
        self.ear.after(lambda: self.driver.remove(ref))

    def respond(self, options: AnswerOptions | None = None) -> None:
        """Answers from the context as it is, see `Conversation`."""
        options = options or AnswerOptions()
        check_answer(options, self._latest, self._engines.voice)
        number = self.driver.ask(options)
        self.ear.after(lambda: self.driver.respond(number))

    def cancel(self) -> None:
        """Stops the current answer, see `Conversation`."""
        self.driver.cancel()

    def abandon(self) -> None:
        """Starts afresh, see `Conversation`."""
        self.ear.discard()
        self.driver.abandon()

    def heard_until(self, revision: int, audio_ms: int) -> None:
        """The client's own report of its play head."""
        self.driver.heard_until(revision, audio_ms)

    def update(self, options: SessionOptions) -> None:
        """Changes the options from the next turn on."""
        check_options(options, self._engines.voice)
        self._latest = options
        self.ear.after(lambda: self._apply(options))

    def close(self) -> None:
        """Ends the conversation."""
        if self._closing is None and not self._over:
            # First the board: an answer that the LLM is cut off from must not count as complete.
            self.driver.close()
            self._closing = asyncio.create_task(self._worker.cancel())

    def _apply(self, options: SessionOptions) -> None:
        self._options = options
        self.ear.recogniser.restrict(options.languages)
        self.ear.recogniser.hint(options.hotwords)
        self.mouth.client_pauses = options.pauses
        self.driver.configure(turn_settings(self._settings.turns, options, self._profile))

    def _busy(self) -> bool:
        return not self._settings.speculate_when_busy and self._engines.busy

    def _plan(self, answer: AnswerOptions) -> AnswerPlan:
        voices = with_default_first(None, self._engines.voice.voices)
        return plan_answer(
            self._settings,
            self._options,
            answer,
            voices=voices,
            daemon_tools=self._engines.tools(),
        )
