"""The turn driver: carries out what the turn core decides.

Decisions take effect at once: the answer, with its revision and its place in the context, and the
recogniser are dealt with in the same step. What has to travel, frames into the pipeline and
messages to the client, follows as effects, which one task performs in the order of the decisions.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from loguru import logger
from pipecat.frames.frames import (
    AggregatedTextFrame,
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
from pipeline.listening import Listening
from pipeline.speculation import Guess, Speculation
from pipeline.tool_runner import ToolRunner, ToolSettings
from pipeline.turns.actions import (
    Action,
    Apologise,
    Commit,
    Discard,
    Dismiss,
    Drop,
    EndTurn,
    Finalise,
    Forget,
    Idle,
    Interrupt,
    Listen,
    OpenTurn,
    Pause,
    Respond,
    Resume,
    Revoke,
    Speculate,
    Withdraw,
)
from pipeline.turns.core import step
from pipeline.turns.events import (
    Abandoned,
    CancelRequested,
    Closed,
    Event,
    PartialText,
    RespondRequested,
    TextTurn,
    Withdrawn,
)
from pipeline.turns.settings import TurnSettings
from pipeline.turns.state import Phase, TurnState
from services.answer import REVISION, AnswerPlan, apology, by_language, statement
from services.asr.base import Transcript
from services.face import AnswerOptions, Sink
from services.items import ContextItem, Message
from services.language import language_of

#: what a conversation's log is made of
Record = Callable[[TurnSettings | Event], None]


def _nothing(_: object) -> None:
    """Nobody keeps a log."""


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
        tools: how functions are run.
        busy: the engines have other work to do than to speculate.
        record: is told everything that the turn core is told, in order.
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
        tools: ToolSettings,
        busy: Callable[[], bool],
        record: Record | None = None,
    ) -> None:
        self._session = session
        self._sink = sink
        self._answers = answers
        self._book = book
        self._effects = effects
        self._plan = plan
        self._accounts = accounts
        self._apologies = apologies
        self._fillers = tools.fillers
        #: runs the functions that answers call
        self.tools = ToolRunner(session=session, settings=tools, conversation=self)
        self._record = record or _nothing
        self._state = TurnState()
        self._speculation = Speculation(
            answers=answers,
            effects=effects,
            accounts=accounts,
            plan=lambda language: self._plan_of(None, language),
            busy=busy,
            on_event=self.handle,
        )
        self._numbers = itertools.count(1)
        self._asks: dict[int, AnswerOptions] = {}  # requests that neither began nor were dropped
        self._turns = 0
        self._language = ""
        self._prompt_language = ""  # of the first turn
        self._written = ""  # what the user wrote and nobody answered yet
        self._deciding: TurnReport | None = None
        self._decided_ms = 0.0
        self._ear: Ear
        self._listening: Listening

    def attach(self, ear: Ear, listening: Listening) -> None:
        """Gives the ear that it drives, and what asks the recogniser."""
        self._ear, self._listening = ear, listening

    # --- in ----------------------------------------------------------------------------------
    def handle(self, event: Event) -> None:
        """Steps the core and does what it decides."""
        self._record(event)
        self._state, actions = step(self._state, event)
        for action in actions:
            self._act(action, event)
        if self._state.phase is not Phase.DECIDED:
            self._ear.release()
        self.tools.look()

    def configure(self, settings: TurnSettings) -> None:
        """Changes the settings of the turn core; a turn that is open stays open."""
        self._record(settings)
        self._state = replace(self._state, settings=settings)
        self._speculation.replan()

    def partial(self, transcript: Transcript) -> None:
        """The recogniser has a partial; the client is told if it knows of the turn."""
        self.handle(PartialText(transcript.text, self._listening.audible()))
        if self._state.phase in (Phase.SPEAKING, Phase.DECIDED):
            self._effect(lambda: self._sink.partial(transcript.text))

    def say(self, text: str, language: str) -> None:
        """The user's turn comes as text."""
        self.handle(TextTurn(text, language or language_of(text)))

    def add(self, ref: str, item: ContextItem, *, after: str | None) -> None:
        """Adds an item to the context, in the order of the turns."""
        if isinstance(item, Message) and item.role == "user":
            self.tools.turn()
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
        if options.remember:
            self.tools.turn()
        return self._taken(options)

    def respond(self, number: int) -> None:
        """A request that was not cancelled meanwhile is to be answered."""
        if number in self._asks:
            self.handle(RespondRequested(number, aside=not self._asks[number].remember))

    def follow_up(self, options: AnswerOptions) -> None:
        """See `pipeline.tool_runner.Conversing`."""
        self.respond(self._taken(options))

    @property
    def free(self) -> bool:
        """Nobody speaks, and nothing is answered. A turn that the client has to end is open as soon
        as there is audio, be it of somebody or not.
        """
        phase, manual = self._state.phase, not self._state.settings.server_turns
        idle = phase is Phase.IDLE or (manual and phase is Phase.SPEAKING)
        return idle and self._answers.none

    @property
    def filler(self) -> str:
        """The sentence that fills a silence; none where the client asks for every answer."""
        if not self._state.settings.auto_respond:
            return ""
        return by_language(self._fillers, self._language)

    def rested(self, revision: int) -> None:
        """Nothing follows an answer that had called functions."""
        self._effect(lambda: self._sink.rested(revision))

    def cancel(self) -> None:
        """Stops the answer, and drops all requests, also those that are still on their way."""
        self.tools.stopped()
        self.handle(CancelRequested())
        for number in tuple(self._asks):
            self._drop(number)

    def abandon(self) -> None:
        """As `cancel`, and the user's turn goes too."""
        self.tools.stopped()
        self.handle(Abandoned())
        self.cancel()
        self._effect(self._sink.abandoned)

    def heard_until(self, revision: int, audio_ms: int) -> None:
        """The client knows how much of an answer was played: its word counts."""
        if self._answers.alive(revision):
            self.handle(CancelRequested())
        if self._answers.amend(revision, audio_ms):
            self._speculation.outdate()

    def close(self) -> None:
        """Ends what the driver had started. Idempotent."""
        self.handle(Closed())
        self._listening.withdraw()
        self._answers.close()

    # --- decisions ---------------------------------------------------------------------------
    def _act(self, action: Action, event: Event) -> None:
        match action:
            case Listen(at_ms):
                self._ear.open_turn(at_ms=at_ms)
            case OpenTurn(at_ms):
                logger.debug("{}: a turn opens at {:.0f} ms", self._session, at_ms)
                if self._state.settings.server_turns:
                    self._effect(lambda: self._sink.turn_opened(at_ms=round(at_ms)))
            case Pause():
                self._answers.pause()
            case Resume():
                self._answers.resume()
            case Dismiss(reason, text):
                self._listening.withdraw()
                self._ear.close_turn()
                self._accounts.dismissed(self._session, reason, text)
            case EndTurn(at_ms, firm):
                self._end_turn(at_ms)
                self._ear.end_turn(firm=firm)
            case Finalise(request):
                self._listening.ask(request)
            case Withdraw(decided):
                self._listening.withdraw()
                if decided:
                    self._deciding = None
                    self._ear.resume_turn()
            case Speculate(number, text, language):
                language = language_of(text) or language or self._language
                self._speculation.begin(
                    Guess(
                        number=number,
                        text=text,
                        language=language,
                        emotion=self._listening.emotion,
                    )
                )
            case Revoke():
                withdrawn = isinstance(event, Withdrawn)
                self._speculation.revoke("withdrawn" if withdrawn else "revoked")
            case Commit():
                self._commit(action)
            case Discard(failed):
                self._discard(failed=failed)
            case Apologise(ask):
                self._apologise(ask)
            case Forget():
                self._listening.withdraw()
                self._deciding = None
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

    def _commit(self, commit: Commit) -> None:
        self.tools.turn()
        report, self._deciding = self._deciding, None
        text, language, emotion = commit.text, commit.language, ""
        if report is None:
            report = self._text_turn()
        else:
            self._ear.close_turn()
            self._listening.stamp(report)
            self._tell_turn_end()
            emotion = self._listening.emotion
        if commit.number:
            # The very words that were answered: what the server has computed of them stays good.
            guess = self._speculation.guess
            text, emotion = guess.text, guess.emotion
        # By its script: a recogniser may take English in a Mandarin voice for Mandarin.
        language = language_of(text) or language
        report.transcript = text
        self._language = language or self._language
        self._effect(lambda: self._sink.final(text, language, turn=report.turn))
        revision = 0
        if commit.number:
            self._prompt_language = self._prompt_language or self._language
            revision = self._speculation.keep(report)
        elif commit.answer:
            revision = self._answers.begin(self._plan_begin(commit.ask), report)
        self._write_turn(text, revision, turn=report.turn, emotion=emotion, ready=commit.number > 0)

    def _text_turn(self) -> TurnReport:
        """The report of a turn that came as text, which nobody opened or ended."""
        self._turns += 1
        report = TurnReport(turn=self._turns)
        report.mark("endpoint", time.monotonic())
        return report

    def _write_turn(
        self, text: str, revision: int, *, turn: int, emotion: str, ready: bool
    ) -> None:
        transcript = TranscriptionFrame(text, "", time_now_iso8601())
        # Chinese segments are joined without a space, and no interruption may lose the words.
        transcript.includes_inter_frame_spaces = True
        transcript.interruptible = False
        transcript.finalized = True
        self._effects.push(TurnOpenFrame())
        self._effects.push(transcript)
        self._effects.push(
            TurnCommitFrame(
                revision=revision,
                language=self._language,
                turn=turn,
                emotion=emotion,
                ready=ready,
            )
        )

    def _discard(self, *, failed: bool) -> None:
        self._ear.close_turn()
        self._deciding = None
        self._tell_turn_end()
        error = self._listening.error
        if failed and error is not None:
            # Instead of the text, and where the text would stand: after the end of its turn.
            self._effect(lambda: self._sink.error(error))
        else:
            logger.debug("{}: nothing was said", self._session)
            self._effect(lambda: self._sink.final("", "", turn=0))

    def _tell_turn_end(self) -> None:
        at_ms = round(self._decided_ms)
        self._effect(lambda: self._sink.turn_ended(at_ms=at_ms))

    def _apologise(self, ask: int | None) -> None:
        """Speaks a sentence of ours as an answer that failed; the context does not get it."""
        plan, report = self._plan_of(ask, ""), TurnReport(turn=self._turns)
        revision = self._answers.begin(plan, report, error=self._listening.error)
        self._speak(revision, apology(by_language(self._apologies, self._language)))

    def _respond(self, ask: int | None) -> None:
        self._turns += 1
        plan, report = self._plan_begin(ask), TurnReport(turn=self._turns)
        report.mark("endpoint", time.monotonic())
        if plan.remember:
            report.transcript, self._written = self._written, ""
        revision = self._answers.begin(plan, report)
        if plan.text is None:
            self._effects.push(AnswerFrame(revision=revision, language=self._language))
        else:
            self._speak(revision, statement(plan.text))

    def _speak(self, revision: int, sentence: AggregatedTextFrame) -> None:
        """Speaks a sentence in place of what a language model would have said."""
        for frame in (LLMFullResponseStartFrame(), sentence, LLMFullResponseEndFrame()):
            frame.metadata[REVISION] = revision
            self._effects.push(frame)

    def _drop(self, ask: int) -> None:
        options = self._asks.pop(ask)
        if options.ask is not None:
            number = options.ask
            self._effect(lambda: self._sink.dropped(number))

    def _plan_begin(self, ask: int | None) -> AnswerPlan:
        """What holds for an answer that begins now; the first one chooses the prompt's language."""
        self._prompt_language = self._prompt_language or self._language
        return self._plan_of(ask, self._language)

    def _plan_of(self, ask: int | None, language: str) -> AnswerPlan:
        """What holds for an answer, by the options of its request if any."""
        plan = self._plan(AnswerOptions() if ask is None else self._asks.pop(ask))
        return replace(plan, prompt_language=self._prompt_language or language)

    # --- helpers -----------------------------------------------------------------------------
    def _taken(self, options: AnswerOptions) -> int:
        number = next(self._numbers)
        self._asks[number] = options
        return number

    def _edit(self, edit: Callable[[], None]) -> None:
        self._effects.push(ContextEditFrame(edit=edit))
        self._speculation.outdate()

    def _effect(self, effect: Effect) -> None:
        self._effects.add(effect)
