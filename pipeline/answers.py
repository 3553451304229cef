"""The answer of a conversation, from its beginning to its end: there is at most one at a time.

What its makers tell about it (the LLM, the clauses, the voice, the mouth) comes together here, and
counts only while it is the live one. What was heard of it is written into the context in the same
step in which it ends, so that whatever is asked next finds it there.

One that is speculated is live as well, and nobody is told of it: it becomes an answer by `commit`,
or has never been by `revoke`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from loguru import logger

from pipeline.context_book import ContextBook
from pipeline.effects import Effects
from pipeline.latency import TurnReport
from pipeline.mouth import Heard, Mouth
from pipeline.tool_runner import ToolRunner
from pipeline.turns.actions import Reason
from pipeline.turns.events import AnswerEnded, Called, Event, PlaybackStarted, Withdrawn
from services.answer import AnswerEvents, AnswerPlan, AnswerPlans
from services.face import Cut, Ending, Outcome, Sink, Usage
from services.items import FunctionCall, answer_ref
from services.revision import RevisionBoard
from tts_engine.errors import DuplexdError

#: how a speculation ends; "withdrawn": it cannot be used, or the engines are busy
Guessed = Literal["kept", "revoked", "withdrawn"]


class Accounts(Protocol):
    """Where finished turns and failures are counted."""

    def turn(self, session: str, report: TurnReport) -> None:
        """A turn is over."""
        ...

    def error(self, session: str, error: DuplexdError) -> None:
        """Something failed."""
        ...

    def dismissed(self, session: str, reason: Reason, text: str) -> None:
        """Sounds over an answer were no turn."""
        ...

    def guessed(self, outcome: Guessed) -> None:
        """A speculation ended."""
        ...


@dataclass(slots=True, kw_only=True)
class _Live:
    """The answer that is made or played, and what is known of it.

    Parameters:
        number: of the speculation that it still is; 0: it is an answer.
        dropped: messages that a speculated request had no room for; the context has them.
        own_calls: ids of calls that the daemon runs.
    """

    revision: int
    plan: AnswerPlan
    report: TurnReport
    number: int = 0
    dropped: list[Any] = field(default_factory=list[Any])
    own_calls: set[str] = field(default_factory=set[str])
    error: DuplexdError | None = None
    usage: Usage | None = None
    cut: Cut | None = None


class Answers(AnswerEvents):
    """Begins and ends the answers of one conversation.

    Args:
        session: the conversation's id.
        sink: what the client is told through.
        board, plans, book: of the conversation; written here.
        effects: performs what has to travel.
        accounts: where turns and failures are counted.
    """

    def __init__(
        self,
        *,
        session: str,
        sink: Sink,
        board: RevisionBoard,
        plans: AnswerPlans,
        book: ContextBook,
        effects: Effects,
        accounts: Accounts,
    ) -> None:
        self._session = session
        self._sink = sink
        self._board = board
        self._plans = plans
        self._book = book
        self._effects = effects
        self._accounts = accounts
        self._live: _Live | None = None
        self._pauses = 0
        self._mouth: Mouth
        self._tools: ToolRunner
        self._on_event: Callable[[Event], None]

    def attach(self, *, mouth: Mouth, on_event: Callable[[Event], None], tools: ToolRunner) -> None:
        """Gives what plays the answers, what is told of them, and what runs their functions."""
        self._mouth, self._on_event, self._tools = mouth, on_event, tools
        self._board.on_change = mouth.wake

    # --- what the driver decides -------------------------------------------------------------
    @property
    def none(self) -> bool:
        """Nothing is made or played."""
        return self._live is None

    def alive(self, revision: int) -> bool:
        """The answer is being made or played."""
        return self._of(revision) is not None

    def speculated(self, revision: int) -> bool:
        """The answer is being made, and is held."""
        live = self._of(revision)
        return live is not None and live.number > 0

    def begin(
        self, plan: AnswerPlan, report: TurnReport, *, error: DuplexdError | None = None
    ) -> int:
        """Opens an answer; none may be live.

        Args:
            plan: what holds for it.
            report: of the turn that it answers.
            error: it can only fail: why.

        Returns:
            Its revision.
        """
        if plan.text is None and plan.remember:
            self._tools.begun()
        revision = report.revision = self._board.open()
        self._plans.open(revision, plan)
        self._live = _Live(revision=revision, plan=plan, report=report, error=error)
        self._effects.add(lambda: self._sink.begin(revision, ask=plan.ask))
        if self._tools.pending:  # it stands between a call and what follows that
            self._effects.add(lambda: self._sink.working(revision))
        return revision

    def speculate(self, number: int, plan: AnswerPlan, report: TurnReport) -> int:
        """Opens an answer that is made and held until `commit`; none may be live.

        Args:
            number: how the turn core names it.
            plan: what holds for it.
            report: takes its stamps.

        Returns:
            Its revision.
        """
        revision = self._board.speculate()
        self._plans.open(revision, plan)
        self._live = _Live(revision=revision, plan=plan, report=report, number=number)
        return revision

    def commit(self, report: TurnReport) -> int:
        """The speculated answer is the answer to a turn.

        Its place in the context comes with the turn, which has yet to be written; the gate opens
        when the client was told that it begins.

        Args:
            report: of the turn; gets the answer's stamps.

        Returns:
            Its revision.
        """
        live = self._live
        assert live is not None
        self._tools.begun()
        for name, at in live.report.stamps.items():
            report.mark(name, at)
        report.revision, live.report, live.number = live.revision, report, 0
        self._book.drop(live.dropped)
        self._book.expect(answer_ref(live.revision))
        self._effects.add(lambda: self._open(live))
        return live.revision

    def revoke(self, *, asked: bool) -> None:
        """The speculated answer is void, and costs nothing more.

        Args:
            asked: something of it is in the pipeline.
        """
        self._board.revoke()
        self._plans.close()
        self._live = None
        self._mouth.stop()
        if asked:
            self._effects.add(self._effects.interrupt)

    def pause(self) -> None:
        """The answer stops at this moment, and keeps its place."""
        revision = self._board.live
        self._pauses += 1
        self._mouth.pause()
        self._effects.add(lambda: self._sink.pause(revision))

    def resume(self) -> None:
        """It goes on, when the client was told so; unless it is paused again by then."""
        revision, pauses = self._board.live, self._pauses
        self._effects.add(lambda: self._resume(revision, pauses))

    def interrupt(self) -> None:
        """Stops the answer where it is."""
        self._tools.stopped()
        stopped = self._stop()
        if stopped is not None:
            live, heard = stopped
            self._effects.add(lambda: self._interrupted(live, heard))
            self._tell_report(live)

    def close(self) -> None:
        """The conversation ends; a live answer counts as interrupted. Idempotent."""
        self._tools.close()
        self._stop()

    def amend(self, revision: int, audio_ms: int) -> bool:
        """The client knows how much of an answer's audio was played: its word counts.

        Returns:
            Whether that changed the context.
        """
        text = self._mouth.heard_at(revision, audio_ms)
        return text is not None and self._book.amend(answer_ref(revision), text)

    # --- what the answer's makers tell -------------------------------------------------------
    def on_stamp(self, revision: int, name: str, at: float) -> None:
        """Notes a stamp of the answer's turn."""
        live = self._of(revision)
        if live is not None:
            live.report.mark(name, at)

    def on_failure(self, revision: int, error: DuplexdError) -> None:
        """Notes why an answer fails; it ends when what there is of it was played."""
        live = self._of(revision)
        if live is not None and live.number:
            # The turn asks again when it is over, and fails aloud if it has to.
            logger.debug("{}: a speculation failed: {}", self._session, error)
            self._on_event(Withdrawn(live.number, for_good=True))
        elif live is not None:
            live.error = live.error or error
            self._accounts.error(self._session, error)

    def on_call_begun(self, revision: int, call_id: str, name: str) -> None:
        """Tells the client at once: a call is not behind the answer's speech.

        Functions have effects: no turn that has not ended calls one.
        """
        live = self._of(revision)
        if live is not None and live.number:
            self._on_event(Withdrawn(live.number, for_good=True))
        elif live is not None and live.plan.daemon_tool(name) is None:
            self._effects.add(lambda: self._sink.call_begun(revision, call_id, name))
        elif live is not None:
            live.own_calls.add(call_id)

    def on_call_arguments(self, revision: int, call_id: str, delta: str) -> None:
        """Tells the client."""
        live = self._committed(revision)
        if live is not None and call_id not in live.own_calls:
            self._effects.add(lambda: self._sink.call_arguments(revision, call_id, delta))

    def on_call_done(self, revision: int, call: FunctionCall) -> None:
        """Writes the call into the context, and tells the client."""
        live = self._committed(revision)
        if live is None:
            return
        if live.plan.remember:
            self._book.call(answer_ref(revision), call)
        tool = live.plan.daemon_tool(call.name)
        if tool is None:
            self._effects.add(lambda: self._sink.call_done(revision, call))
            self._tools.shared(revision)
        else:
            self._effects.add(lambda: self._sink.working(revision))
            self._tools.run(revision, call, tool, live.plan.options)
        self._on_event(Called())

    def on_usage(self, revision: int, usage: Usage) -> None:
        """Notes the answer's tokens."""
        live = self._of(revision)
        if live is not None:
            live.usage = usage

    def on_cut(self, revision: int, cut: Cut) -> None:
        """Notes why the answer is not whole."""
        live = self._of(revision)
        if live is not None:
            live.cut = cut

    def on_shortened(self, revision: int, dropped: Sequence[Any]) -> None:
        """The context loses its oldest messages; a speculation's only when it is kept."""
        live = self._of(revision)
        if live is not None and live.number:
            live.dropped += dropped
        elif live is not None:
            self._book.drop(dropped)

    def on_playing(self, revision: int) -> None:
        """The answer is audible from now on."""
        if self._committed(revision):
            self._on_event(PlaybackStarted())

    def on_played(self, revision: int, heard: str, *, underruns: int) -> None:
        """The mouth has played the live answer to its end."""
        live = self._committed(revision)
        assert live is not None
        self._board.revoke()
        outcome: Outcome = "failed" if live.error else "answered"
        self._close(live, outcome, heard, underruns)
        cut = live.cut if outcome == "answered" else None
        ending = Ending(outcome=outcome, heard=heard, error=live.error, usage=live.usage, cut=cut)
        self._effects.add(lambda: self._sink.end(revision, ending))
        self._tell_report(live)
        self._on_event(AnswerEnded())
        self._tools.answered(revision)

    def on_gone(self, error: ConnectionError) -> None:
        """The client cannot be reached."""
        self._effects.gone(error)

    # --- helpers -----------------------------------------------------------------------------
    async def _resume(self, revision: int, pauses: int) -> None:
        await self._sink.resume(revision)
        if pauses == self._pauses:
            self._mouth.resume()

    def _stop(self) -> tuple[_Live, Heard] | None:
        """Ends the live answer where it is: nothing more of it is heard."""
        if self._live is not None and self._live.number:
            self.revoke(asked=False)  # the conversation ends
        if self._live is None:
            return None
        self._board.revoke()
        heard = self._mouth.stop() or Heard(text="", played_ms=0.0, underruns=0)
        live = self._live
        self._close(live, "interrupted", heard.text, heard.underruns)
        return live, heard

    def _of(self, revision: int) -> _Live | None:
        """The live answer, if it is this one."""
        return self._live if self._live is not None and self._live.revision == revision else None

    def _committed(self, revision: int) -> _Live | None:
        """The live answer, if it is this one, and no speculation."""
        live = self._of(revision)
        return None if live is None or live.number else live

    def _close(self, live: _Live, outcome: Outcome, heard: str, underruns: int) -> None:
        """Writes what was heard, and counts the turn, with the decision: a client that leaves must
        not lose it.
        """
        self._live = None
        self._plans.close()
        if live.plan.remember:
            self._book.heard(answer_ref(live.revision), heard)
        report = live.report
        report.outcome, report.answer, report.underruns = outcome, heard, underruns
        self._accounts.turn(self._session, report)

    async def _open(self, live: _Live) -> None:
        await self._sink.begin(live.revision, ask=live.plan.ask)
        if self._live is live:
            self._board.commit(live.revision)

    async def _interrupted(self, live: _Live, heard: Heard) -> None:
        await self._sink.flush(live.revision, heard_ms=round(heard.played_ms))
        await self._effects.interrupt()
        ending = Ending(outcome="interrupted", heard=heard.text, usage=live.usage)
        await self._sink.end(live.revision, ending)

    def _tell_report(self, live: _Live) -> None:
        self._effects.add(lambda: self._sink.turn_report(live.report.to_json()))
