"""Keeps the books of what a core does: what begins ends, once, and nothing comes out of turn."""

from __future__ import annotations

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
    AnswerEnded,
    Closed,
    Event,
    FinalFailed,
    FinalText,
    RespondRequested,
    TextTurn,
)
from pipeline.turns.state import Phase, TurnSettings, TurnState


class Ledger:
    """Steps a core, and checks every action against all that came before.

    Attributes:
        requests: numbers of all `Finalise` so far; the last one may be pending.
        speculations: numbers of all `Speculate` so far; the last one may be live.
    """

    def __init__(self, settings: TurnSettings) -> None:
        self.state = TurnState(settings=settings)
        self.listening = self.open = self.decided = False
        self.answering = self.paused = self.closed = False
        self.pending: int | None = None
        self.live: int | None = None
        self.requests = self.speculations = 0
        self.waiting = set[int]()

    def tell(self, event: Event) -> tuple[Action, ...]:
        """Takes one step."""
        before = self.state
        self.state, actions = step(before, event)
        assert step(before, event) == (self.state, actions)
        assert not (self.closed and actions)
        self._book_event(event)
        for action in actions:
            self._book(action, event)
        assert not any(isinstance(action, Speculate) for action in actions[:-1])
        self._compare()
        return actions

    def _book_event(self, event: Event) -> None:
        match event:
            case Closed():
                self.closed = True
            case AnswerEnded() if not self.closed:
                self.answering = self.paused = False
            case FinalText(request) | FinalFailed(request) if not self.closed:
                if request == self.pending:
                    self.pending = None
            case RespondRequested(ask) if not self.closed:
                self.waiting.add(ask)
            case _:
                pass

    def _book(self, action: Action, event: Event) -> None:
        match action:
            case Listen() | OpenTurn() | Dismiss() | EndTurn() | Discard() | Forget():
                self._book_turn(action)
            case Finalise() | Withdraw():
                self._book_question(action)
            case Speculate() | Revoke():
                self._book_speculation(action)
            case Commit():
                self._book_commit(action, isinstance(event, TextTurn))
            case Pause() | Resume() | Interrupt():
                self._book_playing(action)
            case Respond() | Apologise():
                self._begin()
            case Idle(since_ms, at_ms):
                settings = self.state.settings
                assert settings.server_turns
                assert not self.listening
                assert not self.open
                assert settings.idle_ms is not None
                assert at_ms - since_ms >= settings.idle_ms
            case Drop():
                pass
        ask = getattr(action, "ask", None)
        if ask is not None:
            self.waiting.remove(ask)

    def _book_turn(self, action: Listen | OpenTurn | Dismiss | EndTurn | Discard | Forget) -> None:
        match action:
            case Listen():
                assert not self.listening
                assert not self.open
                self.listening = True
            case OpenTurn():
                assert self.listening
                self.listening, self.open = False, True
            case Dismiss():
                assert self.listening
                self.listening = False
            case EndTurn(_, firm):
                assert self.open
                assert not self.decided
                assert firm or self.state.silence.ms >= self.state.settings.floor_ms
                self.decided = True
            case Discard():
                assert self.decided
                self.open = self.decided = False
            case Forget():
                assert self.open
                self.open = self.decided = False

    def _book_question(self, action: Finalise | Withdraw) -> None:
        match action:
            case Finalise(request):
                assert self.listening or self.open
                assert self.pending is None
                assert request == self.requests + 1
                self.pending = self.requests = request
            case Withdraw(decided):
                assert self.pending is not None
                self.pending = None
                if decided:
                    assert self.decided
                    self.decided = False

    def _book_speculation(self, action: Speculate | Revoke) -> None:
        match action:
            case Speculate(number, text):
                assert text
                assert self.open
                assert not self.decided
                assert not self.answering
                assert self.live is None
                assert number == self.speculations + 1
                self.live = self.speculations = number
            case Revoke(number):
                assert self.live == number
                self.live = None

    def _book_commit(self, commit: Commit, by_text: bool) -> None:
        assert commit.text
        assert self.live == (commit.number or None)
        if by_text:
            assert not self.open
        else:
            assert self.decided
        self.open = self.decided = False
        self.live = None
        if commit.answer:
            self._begin()

    def _book_playing(self, action: Pause | Resume | Interrupt) -> None:
        assert self.answering
        match action:
            case Pause():
                assert not self.paused
                self.paused = True
            case Resume():
                assert self.paused
                self.paused = False
            case Interrupt():
                self.answering = self.paused = False

    def _begin(self) -> None:
        assert not self.answering
        assert self.live is None
        self.answering = True

    def _compare(self) -> None:
        """The core knows what it has done."""
        state = self.state
        assert (state.answer is not None) == self.answering
        assert (state.answer is not None and state.answer.paused_ms is not None) == self.paused
        assert (state.phase is Phase.CANDIDATE) == self.listening
        assert (state.phase in {Phase.SPEAKING, Phase.DECIDED}) == self.open
        assert (state.phase is Phase.DECIDED) == self.decided
        assert state.pending == self.pending
        assert (None if state.speculation is None else state.speculation.number) == self.live
        assert self.listening or not self.paused
        assert not (self.answering and self.live)
        asked = set[int]() if state.asked is None else {state.asked}
        assert asked | {*state.aside} == self.waiting
        # Nothing waits that could begin.
        held = self.answering or self.listening or self.open or self.closed
        assert held or not self.waiting
