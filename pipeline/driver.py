"""The turn driver: carries out what the turn core decides.

Decisions take effect at once: the revision board, the mouth and the recogniser are called in the
same step. What has to travel, frames into the pipeline and messages to the client, follows as
effects, which one task performs in the order of the decisions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Protocol, cast

from loguru import logger
from pipecat.frames.frames import (
    Frame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMMessagesAppendFrame,
    TranscriptionFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContextMessage
from pipecat.utils.time import time_now_iso8601

from pipeline.aggregators import HeardAggregator
from pipeline.ear import Ear
from pipeline.frames import AnswerFrame, TurnCommitFrame, TurnOpenFrame
from pipeline.latency import TurnReport
from pipeline.mouth import Heard, Mouth
from pipeline.turns.actions import (
    Action,
    Apologise,
    Commit,
    Discard,
    EndTurn,
    Finalise,
    Forget,
    Interrupt,
    OpenTurn,
    Respond,
    Withdraw,
)
from pipeline.turns.core import step
from pipeline.turns.events import AnswerEnded, CancelRequested, Event, FinalFailed, FinalText
from pipeline.turns.state import Phase, TurnSettings, TurnState
from services.answer import REVISION, AnswerEvents, apology, by_language
from services.asr.base import Transcript
from services.face import Outcome, Sink
from services.language import language_of
from services.revision import RevisionBoard
from tts_engine.errors import DuplexdError, EngineFailed

Effect = Callable[[], Awaitable[None]]

#: longest wait for an interruption to reach the end of the pipeline, seconds
_SETTLE_S = 5.0


class Accounts(Protocol):
    """Where finished turns and failures are counted."""

    def turn(self, session: str, report: TurnReport) -> None:
        """A turn is over."""
        ...

    def error(self, session: str, error: DuplexdError) -> None:
        """Something failed."""
        ...


class TurnDriver(AnswerEvents):
    """Drives one conversation; everything is called on the event loop."""

    def __init__(
        self,
        *,
        session: str,
        sink: Sink,
        board: RevisionBoard,
        settings: TurnSettings,
        accounts: Accounts,
        apologies: Mapping[str, str],
        on_gone: Callable[[], None],
    ) -> None:
        self._session = session
        self._sink = sink
        self._board = board
        self._accounts = accounts
        self._apologies = apologies
        self._on_gone = on_gone
        self._state = TurnState(settings=settings)
        self._effects: asyncio.Queue[Effect] = asyncio.Queue()
        self._finaliser: asyncio.Task[None] | None = None
        self._gone = False
        self._settled = asyncio.Event()
        self._started = asyncio.Event()
        self._turns = 0
        self._language = ""
        self._written = ""  # what the user wrote and nobody answered yet
        self._deciding: TurnReport | None = None
        self._decided_ms = 0.0
        self._reports: dict[int, TurnReport] = {}
        self._failures: dict[int, DuplexdError] = {}
        self._asr_error: DuplexdError | None = None
        self._ear: Ear
        self._mouth: Mouth
        self._heard: HeardAggregator

    def attach(self, *, ear: Ear, mouth: Mouth, heard: HeardAggregator) -> None:
        """Gives the driver the processors it drives."""
        self._ear, self._mouth, self._heard = ear, mouth, heard
        self._board.on_change = mouth.wake

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

    def add_text(self, role: str, text: str) -> None:
        """Adds a message to the context, in the order of the turns."""
        if role == "user":
            self._written = text
            self._language = language_of(text) or self._language
        message = cast(LLMContextMessage, {"role": role, "content": text})
        frame = LLMMessagesAppendFrame(messages=[message], run_llm=False)
        frame.interruptible = False
        self._push(frame)

    def heard_until(self, revision: int, audio_ms: int) -> None:
        """The client knows how much of an answer was played: its word counts."""
        if self._board.alive(revision):
            self.handle(CancelRequested())
        text = self._mouth.heard_at(revision, audio_ms)
        if text is not None:
            self._effect(lambda: self._amend(revision, text))

    def settled(self) -> None:
        """An interruption, or the end, has reached the end of the pipeline."""
        self._settled.set()

    def started(self) -> None:
        """The pipeline runs."""
        self._started.set()

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
            case Apologise():
                self._apologise()
            case Forget():
                self._withdraw()
                self._ear.close_turn()
            case Respond(instructions):
                self._respond(instructions)
            case Interrupt():
                self._interrupt()

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
        revision = self._board.open() if commit.answer else 0
        if report is not None and revision:
            report.revision, report.transcript = revision, text
            self._reports[revision] = report
        self._tell_final(text, language)
        if revision:
            self._effect(lambda: self._sink.begin(revision))
        transcript = TranscriptionFrame(text, "", time_now_iso8601())
        # Chinese segments are joined without a space, and no interruption may lose the words.
        transcript.includes_inter_frame_spaces = True
        transcript.interruptible = False
        transcript.finalized = True
        self._push(TurnOpenFrame())
        self._push(transcript)
        self._push(
            TurnCommitFrame(
                revision=revision, language=self._language, instructions=commit.instructions
            )
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
            self._tell_final("", "")

    def _tell_turn_end(self) -> None:
        at_ms = round(self._decided_ms)
        self._effect(lambda: self._sink.turn_ended(at_ms=at_ms))

    def _tell_final(self, text: str, language: str) -> None:
        self._tell_turn_end()
        self._effect(lambda: self._sink.final(text, language))

    def _apologise(self) -> None:
        """Speaks a sentence of ours as an answer that failed; the context does not get it."""
        revision = self._board.open()
        self._reports[revision] = TurnReport(turn=self._turns, revision=revision)
        if self._asr_error is not None:
            self._failures[revision] = self._asr_error
        self._effect(lambda: self._sink.begin(revision))
        text = by_language(self._apologies, self._language)
        frames = (LLMFullResponseStartFrame(), apology(text), LLMFullResponseEndFrame())
        for frame in frames:
            frame.metadata[REVISION] = revision
            self._push(frame)

    def _respond(self, instructions: str) -> None:
        revision = self._board.open()
        self._turns += 1
        report = self._reports[revision] = TurnReport(turn=self._turns, revision=revision)
        report.transcript, self._written = self._written, ""
        report.mark("endpoint", time.monotonic())
        self._effect(lambda: self._sink.begin(revision))
        self._push(
            AnswerFrame(revision=revision, language=self._language, instructions=instructions)
        )

    def _interrupt(self) -> None:
        revision = self._board.revoke()
        heard = self._mouth.stop()
        if revision:
            self._effect(lambda: self._interrupted(revision, heard))
            self._tell_report(self._account_interrupted(revision, heard))

    # --- what the answer's makers tell -------------------------------------------------------
    def on_stamp(self, revision: int, name: str, at: float) -> None:
        """Notes a stamp of the answer's turn."""
        report = self._reports.get(revision)
        if report is not None:
            report.mark(name, at)

    def on_failure(self, revision: int, error: DuplexdError) -> None:
        """Notes why an answer fails; it ends when what there is of it was played."""
        if self._board.alive(revision):
            self._failures.setdefault(revision, error)
            self._accounts.error(self._session, error)

    async def on_played(self, revision: int, heard: str, *, underruns: int) -> None:
        """The mouth has played an answer to its end."""
        if not self._board.revoke(revision):
            return
        self.handle(AnswerEnded())
        error = self._failures.pop(revision, None)
        outcome: Outcome = "failed" if error else "answered"
        report = self._account(revision, outcome, heard, underruns)
        self._effect(lambda: self._sink.end(revision, outcome, heard=heard, error=error))
        self._tell_report(report)

    def on_gone(self, error: ConnectionError) -> None:
        """The client cannot be reached; everyone who wanted to tell it something says so."""
        if not self._gone:
            self._gone = True
            logger.info("{}: {}", self._session, error)
            self._on_gone()

    # --- effects -----------------------------------------------------------------------------
    async def run(self) -> None:
        """Performs effects in order, until cancelled."""
        await self._started.wait()
        while True:
            effect = await self._effects.get()
            try:
                await effect()
            except ConnectionError as error:
                self.on_gone(error)
            except Exception:
                logger.exception("{}: an effect failed", self._session)

    def close(self) -> None:
        """Ends what the driver had started; a live answer counts as interrupted. Idempotent."""
        if self._finaliser is not None:
            self._finaliser.cancel()
        revision = self._board.revoke()
        self._account_interrupted(revision, self._mouth.stop())

    async def _interrupted(self, revision: int, heard: Heard | None) -> None:
        played_ms = round(heard.played_ms) if heard else 0
        text = heard.text if heard else ""
        await self._sink.flush(revision, heard_ms=played_ms)
        self._settled.clear()
        await self._ear.broadcast_interruption()
        # What follows may ask the LLM, and must find the heard text in the context.
        try:
            async with asyncio.timeout(_SETTLE_S):
                await self._settled.wait()
        except TimeoutError:  # the client is still owed the end of its answer
            logger.error("{}: the pipeline is stuck at an interruption", self._session)
        self._failures.pop(revision, None)
        await self._sink.end(revision, "interrupted", heard=text)

    def _account(
        self, revision: int, outcome: Outcome, heard: str, underruns: int
    ) -> TurnReport | None:
        """Counts a finished turn, with the decision: a client that leaves must not lose it."""
        report = self._reports.pop(revision, None)
        if report is not None:
            report.outcome, report.answer, report.underruns = outcome, heard, underruns
            self._accounts.turn(self._session, report)
        return report

    def _account_interrupted(self, revision: int, heard: Heard | None) -> TurnReport | None:
        text, underruns = (heard.text, heard.underruns) if heard else ("", 0)
        return self._account(revision, "interrupted", text, underruns)

    def _tell_report(self, report: TurnReport | None) -> None:
        if report is not None:
            self._effect(lambda: self._sink.turn_report(report.to_json()))

    async def _amend(self, revision: int, text: str) -> None:
        self._heard.amend(revision, text)

    def _push(self, frame: Frame) -> None:
        self._effect(lambda: self._ear.push_frame(frame))

    def _effect(self, effect: Effect) -> None:
        self._effects.put_nowait(effect)
