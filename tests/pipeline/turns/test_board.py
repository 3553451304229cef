"""Invariants, of core and revision board together, under any order of events: what passes the gate
is always of the committed live revision; a revision begins when no other is live; every answer that
was committed ends in exactly one of played and interrupted, every speculation that was not in
revoked; and once the user is silent and the makers finish, nothing is live.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pipeline.turns.actions import (
    Action,
    Apologise,
    Commit,
    Finalise,
    Interrupt,
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
    AnswerEnded,
    Called,
    CancelRequested,
    Cleared,
    ContextChanged,
    Event,
    FinalFailed,
    FinalText,
    ManualCommit,
    PartialText,
    PlaybackStarted,
    RespondRequested,
    Starved,
    TextTurn,
    Window,
    Withdrawn,
)
from pipeline.turns.settings import WINDOW_MS, TurnSettings
from pipeline.turns.state import Phase, TurnState
from services.revision import RevisionBoard, Verdict
from tests.pipeline.turns.talk import VOICE_DB
from tests.pipeline.turns.test_core import LEVELS, TEXTS

Fate = Literal["held", "committed", "revoked", "played", "interrupted"]


class Driver:
    """Drives a core and a board as a conversation does, without its engines.

    Attributes:
        fates: of all revisions, by number.
        pending: questions to the recogniser that were neither answered nor withdrawn.
        busy: engines have no time for speculations.
    """

    def __init__(self, settings: TurnSettings) -> None:
        self.board = RevisionBoard(self._look)
        self.state = TurnState(settings=settings)
        self.fates: dict[int, Fate] = {}
        self.revisions: dict[int, int] = {}  # by the number of the speculation
        self.pending: set[int] = set()
        self.passed: set[int] = set()
        self.paused = self.busy = False

    def handle(self, event: Event) -> None:
        self.state, actions = step(self.state, event)
        for action in actions:
            self._act(action)

    def piece(self, revision: int) -> None:
        """The makers of a revision bring a piece to the gate, wherever that revision stands."""
        verdict = self.board.verdict(revision)
        expected = {"held": Verdict.HOLD, "committed": Verdict.PASS}
        assert verdict is expected.get(self.fates[revision], Verdict.DROP)
        if verdict is Verdict.PASS:
            assert revision == self.board.live
            self.passed.add(revision)

    def played(self) -> None:
        """The mouth has played the committed answer to its end."""
        self._fate(self.board.revoke(), "committed", "played")
        self.handle(AnswerEnded())

    def begins(self) -> bool:
        return self.board.is_open and not self.paused

    def _act(self, action: Action) -> None:
        match action:
            case Finalise(request):
                assert not self.pending
                self.pending.add(request)
            case Withdraw():
                self.pending.clear()
            case Speculate(number):
                assert not self.board.live
                self.revisions[number] = revision = self.board.speculate()
                self.fates[revision] = "held"
                if self.busy:
                    self.handle(Withdrawn(number))
            case Revoke(number):
                revision = self.board.revoke(self.revisions[number])
                self._fate(revision, "held", "revoked")
            case Commit(answer=True, number=number) if number:
                self.board.commit(self.revisions[number])
                self._fate(self.board.live, "held", "committed")
                self.paused = False
            case Commit(answer=True) | Respond() | Apologise():
                assert not self.board.live
                self.fates[self.board.open()] = "committed"
                self.paused = False
            case Interrupt():
                self._fate(self.board.revoke(), "committed", "interrupted")
            case Pause() | Resume():
                assert self.board.is_open
                self.paused = isinstance(action, Pause)
            case _:
                pass

    def _fate(self, revision: int, before: Fate, after: Fate) -> None:
        assert self.fates[revision] == before
        self.fates[revision] = after

    def _look(self) -> None:
        """The gate looks again whenever the board changes: at most one revision is not over."""
        assert sum(fate in {"held", "committed"} for fate in self.fates.values()) <= 1


class CoreAndBoard(RuleBasedStateMachine):
    """A conversation whose makers, recogniser and client come in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0
        self.asked = 0

    @initialize(
        speculations=st.integers(1, 4),
        echo=st.booleans(),
        server=st.sampled_from([True, True, True, False]),
        auto=st.sampled_from([True, True, True, False]),
        interruptible=st.sampled_from([True, True, True, False]),
    )
    def begin(
        self, *, speculations: int, echo: bool, server: bool, auto: bool, interruptible: bool
    ) -> None:
        self.driver = Driver(
            TurnSettings(
                speculations=speculations,
                echo=echo,
                server_turns=server,
                auto_respond=auto,
                interruptible=interruptible,
            )
        )

    def windows(self, probabilities: Iterable[float], level_db: float = VOICE_DB) -> None:
        for probability in probabilities:
            self.at += WINDOW_MS
            self.driver.handle(Window(self.at, probability, level_db))
            for revision in self.driver.fates:
                self.driver.piece(revision)

    @rule(windows=st.integers(1, 30), level_db=LEVELS)
    def voice(self, windows: int, level_db: float) -> None:
        self.windows([1.0] * windows, level_db)

    @rule(windows=st.integers(1, 12))
    def silence(self, windows: int) -> None:
        self.windows([0.0] * windows)

    @rule(text=TEXTS, rest=st.integers(0, 8))
    def sentence(self, text: str, rest: int) -> None:
        """Voice, and the text that follows as soon as it is asked for."""
        self.windows([1.0] * 10 + [0.0] * 4)
        self.reply(text)
        self.windows([0.0] * rest)

    @rule(for_ms=st.floats(1, 3000))
    def starve(self, for_ms: float) -> None:
        self.driver.handle(Starved(for_ms))

    @rule(text=TEXTS)
    def reply(self, text: str) -> None:
        if self.driver.pending:
            self.driver.handle(FinalText(self.driver.pending.pop(), text, "zh"))

    @precondition(lambda self: self.driver.pending)
    @rule()
    def fail(self) -> None:
        self.driver.handle(FinalFailed(self.driver.pending.pop()))

    @rule(text=TEXTS)
    def partial(self, text: str) -> None:
        self.driver.handle(PartialText(text))

    @rule(busy=st.booleans())
    def engines(self, busy: bool) -> None:
        self.driver.busy = busy

    @precondition(lambda self: self.driver.revisions)
    @rule(for_good=st.booleans(), late=st.booleans())
    def withdraw(self, for_good: bool, late: bool) -> None:
        self.driver.handle(Withdrawn(max(self.driver.revisions) - late, for_good))

    @precondition(lambda self: self.driver.begins())
    @rule()
    def start(self) -> None:
        self.driver.piece(self.driver.board.live)
        self.driver.handle(PlaybackStarted())

    @precondition(lambda self: self.driver.begins())
    @rule()
    def end(self) -> None:
        self.driver.played()

    @rule(
        event=st.sampled_from(
            [
                Called(),
                ContextChanged(),
                ManualCommit(),
                Cleared(),
                Abandoned(),
                CancelRequested(),
            ]
        )
    )
    def happen(self, event: Event) -> None:
        self.driver.handle(event)

    @rule(aside=st.booleans())
    def respond(self, aside: bool) -> None:
        self.asked += 1
        self.driver.handle(RespondRequested(self.asked, aside))

    @rule(text=TEXTS)
    def text_turn(self, text: str) -> None:
        self.driver.handle(TextTurn(text, "zh"))

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        driver = self.driver
        if not driver.state.settings.server_turns:
            driver.handle(ManualCommit())
        for _ in range(60 + 2 * self.asked):
            self.windows([0.0])
            self.reply("你好。")
            if driver.begins():
                driver.played()
        assert driver.state.phase is Phase.IDLE or not driver.state.settings.server_turns
        assert not driver.board.live
        assert {*driver.fates.values()} <= {"revoked", "played", "interrupted"}
        for revision in driver.passed:
            assert driver.fates[revision] in {"played", "interrupted"}


CoreAndBoard.TestCase.settings = hypothesis_settings(
    max_examples=100, stateful_step_count=30, deadline=None
)
TestCoreAndBoard = CoreAndBoard.TestCase
