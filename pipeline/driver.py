"""The turn driver: carries out what the turn core decides.

Decisions take effect at once: the answer, with its revision and its place in the context, and the
recogniser are dealt with in the same step. What has to travel, frames into the pipeline and
messages to the client, follows as effects, which one task performs in the order of the decisions.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from loguru import logger
from pipecat.frames.frames import (
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    TranscriptionFrame,
)
from pipecat.utils.time import time_now_iso8601

from pipeline.answers import Accounts, Answers
from pipeline.context_book import ContextBook
from pipeline.ear import Ear
from pipeline.effects import Effect, Effects
from pipeline.frames import AnswerFrame, ContextEditFrame, TurnCommitFrame, TurnOpenFrame
from pipeline.latency import TurnReport
from pipeline.turns.actions import (
    Action,
    Apologise,
    Commit,
    Discard,
    Drop,
    EndTurn,
    Finalise,
    Forget,
    Idle,
    Interrupt,
    OpenTurn,
    Respond,
    Withdraw,
)
from pipeline.turns.core import step
from pipeline.turns.events import CancelRequested, Event, FinalFailed, FinalText, RespondRequested
from pipeline.turns.state import Phase, TurnSettings, TurnState
from services.answer import REVISION, AnswerPlan, apology, by_language
from services.asr.base import Transcript
from services.face import AnswerOptions, Sink
from services.items import ContextItem, Message
from services.language import language_of
from tts_engine.errors import DuplexdError, EngineFailed


class TurnDriver:
    """Drives one conversation; everything is called on the event loop.

    Args:
        session: the conversation's id.
        sink: what the client is told through.
        answers: of the conversation.
        book: of its context.
        effects: performs what has to travel.
        plan: what holds for an answer that begins now.
        accounts: where turns and failures are counted.
        apologies: what is said when a turn was not understood, by language.
    """

    def __init__(
        self,
        *,
        session: str,
        sink: Sink,
        answers: Answers,
        book: ContextBook,
        effects: Effects,
        plan: Callable[[AnswerOptions], AnswerPlan],
        accounts: Accounts,
        apologies: Mapping[str, str],
    ) -> None:
        self._session = session
        self._sink = sink
        self._answers = answers
        self._book = book
        self._effects = effects
        self._plan = plan
        self._accounts = accounts
        self._apologies = apologies
        self._state = TurnState()
        self._finaliser: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._asks: dict[int, AnswerOptions] = {}  # requests that neither began nor were dropped
        self._turns = 0
        self._language = ""
        self._written = ""  # what the user wrote and nobody answered yet
        self._deciding: TurnReport | None = None
        self._decided_ms = 0.0
        self._asr_error: DuplexdError | None = None
        self._ear: Ear

    def attach(self, ear: Ear) -> None:
        """Gives the ear that it drives."""
        self._ear = ear

    # --- in ----------------------------------------------------------------------------------
    def handle(self, event: Event) -> None:
        """Steps the core and does what it decides."""
        self._state, actions = step(self._state, event)
        for action in actions:
            self._act(action)
        if self._state.phase is not Phase.DECIDED:
            self._ear.release()

    def configure(self, settings: TurnSettings) -> None:
        """Changes the settings of the turn core; a turn that is open stays open."""
        self._state = replace(self._state, settings=settings)

    def partial(self, transcript: Transcript) -> None:
        """The recogniser has a partial."""
        self._effect(lambda: self._sink.partial(transcript.text))

    def add(self, ref: str, item: ContextItem, *, after: str | None) -> None:
        """Adds an item to the context, in the order of the turns."""
        if isinstance(item, Message) and item.role == "user":
            self._written = item.text
            self._language = language_of(item.text) or self._language
        self._edit(lambda: self._book.add(ref, item, after=after))

    def remove(self, ref: str) -> None:
        """Takes an item out of the context, in the order of the turns."""
        self._edit(lambda: self._book.remove(ref))

    def ask(self, options: AnswerOptions) -> int:
        """Takes a client's request; `respond` follows once it is its turn.

        Returns:
            Its number.
        """
        number = next(self._numbers)
        self._asks[number] = options
        return number

    def respond(self, number: int) -> None:
        """A request that was not cancelled meanwhile is to be answered."""
        if number in self._asks:
            self.handle(RespondRequested(number, aside=not self._asks[number].remember))

    def cancel(self) -> None:
        """Stops the answer, and drops all requests, also those that are still on their way."""
        self.handle(CancelRequested())
        for number in tuple(self._asks):
            self._drop(number)

    def heard_until(self, revision: int, audio_ms: int) -> None:
        """The client knows how much of an answer was played: its word counts."""
        if self._answers.alive(revision):
            self.handle(CancelRequested())
        self._answers.amend(revision, audio_ms)

    def close(self) -> None:
        """Ends what the driver had started. Idempotent."""
        if self._finaliser is not None:
            self._finaliser.cancel()
        self._answers.close()

    # --- decisions ---------------------------------------------------------------------------
    def _act(self, action: Action) -> None:
        match action:
            case OpenTurn(at_ms):
                logger.debug("{}: a turn opens at {:.0f} ms", self._session, at_ms)
                self._ear.open_turn(at_ms=at_ms)
                if self._state.settings.server_turns:
                    self._effect(lambda: self._sink.turn_opened(at_ms=round(at_ms)))
            case EndTurn(at_ms, firm):
                self._end_turn(at_ms)
                self._ear.end_turn(firm=firm)
            case Finalise(request):
                self._finaliser = asyncio.create_task(self._finalise(request))
            case Withdraw():
                self._withdraw()
                self._ear.resume_turn()
            case Commit():
                self._commit(action)
            case Discard(failed):
                self._discard(failed=failed)
            case Apologise(ask):
                self._apologise(ask)
            case Forget():
                self._withdraw()
                self._ear.close_turn()
            case Respond(ask):
                self._respond(ask)
            case Drop(ask):
                self._drop(ask)
            case Idle(since_ms, at_ms):
                since, at = round(since_ms), round(at_ms)
                self._effect(lambda: self._sink.idle(since_ms=since, at_ms=at))
            case Interrupt():
                self._answers.interrupt()

    def _end_turn(self, at_ms: float) -> None:
        self._turns += 1
        end = self._ear.speech_end()
        self._decided_ms = at_ms
        self._deciding = TurnReport(turn=self._turns)
        self._deciding.mark("received", end.received)
        self._deciding.mark("vad", end.seen)
        self._deciding.mark("endpoint", time.monotonic())

    async def _finalise(self, request: int) -> None:
        try:
            transcript = await self._ear.recogniser.finalise()
        except DuplexdError as error:
            self._fail_turn(request, error)
        except Exception as error:  # an engine's fault must not end the conversation
            self._fail_turn(request, EngineFailed(f"Recognition failed: {error!r}"))
        else:
            if self._deciding is not None:
                self._deciding.mark("final", time.monotonic())
                self._deciding.work_ms["asr_decode"] = transcript.compute_s * 1e3
            self.handle(FinalText(request, transcript.text, transcript.language))

    def _fail_turn(self, request: int, error: DuplexdError) -> None:
        self._accounts.error(self._session, error)
        self._asr_error = error
        self.handle(FinalFailed(request))

    def _withdraw(self) -> None:
        if self._finaliser is not None:
            self._finaliser.cancel()
            self._finaliser = None
        self._ear.recogniser.cancel()
        self._deciding = None

    def _commit(self, commit: Commit) -> None:
        self._ear.close_turn()
        # By its script: a recogniser may take English in a Mandarin voice for Mandarin.
        text, language = commit.text, language_of(commit.text) or commit.language
        self._language = language or self._language
        report, self._deciding = self._deciding, None
        assert report is not None
        report.transcript = text
        self._tell_final(text, language, turn=report.turn)
        revision = 0
        if commit.answer:
            revision = self._answers.begin(self._plan_of(commit.ask), report)
        transcript = TranscriptionFrame(text, "", time_now_iso8601())
        # Chinese segments are joined without a space, and no interruption may lose the words.
        transcript.includes_inter_frame_spaces = True
        transcript.interruptible = False
        transcript.finalized = True
        self._effects.push(TurnOpenFrame())
        self._effects.push(transcript)
        self._effects.push(
            TurnCommitFrame(revision=revision, language=self._language, turn=report.turn)
        )

    def _discard(self, *, failed: bool) -> None:
        self._ear.close_turn()
        self._deciding = None
        if failed and self._asr_error is not None:
            # Instead of the text, and where the text would stand: after the end of its turn.
            error = self._asr_error
            self._tell_turn_end()
            self._effect(lambda: self._sink.error(error))
        else:
            logger.debug("{}: nothing was said", self._session)
            self._tell_final("", "", turn=0)

    def _tell_turn_end(self) -> None:
        at_ms = round(self._decided_ms)
        self._effect(lambda: self._sink.turn_ended(at_ms=at_ms))

    def _tell_final(self, text: str, language: str, *, turn: int) -> None:
        self._tell_turn_end()
        self._effect(lambda: self._sink.final(text, language, turn=turn))

    def _apologise(self, ask: int | None) -> None:
        """Speaks a sentence of ours as an answer that failed; the context does not get it."""
        plan, report = self._plan_of(ask), TurnReport(turn=self._turns)
        revision = self._answers.begin(plan, report, error=self._asr_error)
        text = by_language(self._apologies, self._language)
        frames = (LLMFullResponseStartFrame(), apology(text), LLMFullResponseEndFrame())
        for frame in frames:
            frame.metadata[REVISION] = revision
            self._effects.push(frame)

    def _respond(self, ask: int | None) -> None:
        self._turns += 1
        plan, report = self._plan_of(ask), TurnReport(turn=self._turns)
        report.mark("endpoint", time.monotonic())
        if plan.remember:
            report.transcript, self._written = self._written, ""
        revision = self._answers.begin(plan, report)
        self._effects.push(AnswerFrame(revision=revision, language=self._language))

    def _drop(self, ask: int) -> None:
        options = self._asks.pop(ask)
        if options.ask is not None:
            number = options.ask
            self._effect(lambda: self._sink.dropped(number))

    def _plan_of(self, ask: int | None) -> AnswerPlan:
        """What holds for an answer that begins now, by the options of its request if any."""
        return self._plan(AnswerOptions() if ask is None else self._asks.pop(ask))

    # --- helpers -----------------------------------------------------------------------------
    def _edit(self, edit: Callable[[], None]) -> None:
        self._effects.push(ContextEditFrame(edit=edit))

    def _effect(self, effect: Effect) -> None:
        self._effects.add(effect)
