"""Invariants, for any order of events, possible or not: a step is a function and never fails; what
begins ends exactly once (see `Ledger`); nothing follows the end of the conversation; and once the
user is silent, the recogniser replies and answers end, nobody speaks and nothing is owed.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pipeline.turns.actions import Action, Commit
from pipeline.turns.events import (
    Abandoned,
    AnswerEnded,
    Called,
    CancelRequested,
    Cleared,
    Closed,
    ContextChanged,
    Event,
    FinalFailed,
    FinalText,
    ManualCommit,
    Muted,
    PartialText,
    PlaybackStarted,
    RespondRequested,
    Starved,
    TextTurn,
    TurnProbability,
    Window,
    Withdrawn,
)
from pipeline.turns.settings import WINDOW_MS, TurnSettings
from pipeline.turns.state import Phase
from tests.pipeline.turns.ledger import Ledger
from tests.pipeline.turns.talk import QUIET_DB, VOICE_DB

TEXTS = st.sampled_from(["", "嗯", "你好。", "你好", "等一下，我想", "what time is it"])
LEVELS = st.sampled_from([-80.0, -40.0, -32.0, VOICE_DB, 0.0])
AUDIBLE = st.sampled_from(["", "你好"])
SETTINGS = st.builds(
    TurnSettings,
    onset_windows=st.integers(1, 3),
    playback_onset_windows=st.integers(1, 4),
    resume_windows=st.integers(1, 3),
    floor_ms=st.sampled_from([0.0, 96.0, 200.0, 1500.0]),
    ceiling_ms=st.sampled_from([100.0, 1200.0]),
    finalise_ms=st.sampled_from([32.0, 128.0, 640.0]),
    speculate=st.booleans(),
    speculations=st.integers(0, 3),
    max_turn_ms=st.sampled_from([640.0, 60_000.0]),
    interruptible=st.booleans(),
    barge_in_ms=st.sampled_from([320.0, 800.0]),
    resume_ms=st.sampled_from([64.0, 320.0]),
    echo=st.booleans(),
    server_turns=st.booleans(),
    auto_respond=st.booleans(),
    idle_ms=st.sampled_from([None, 320.0]),
)


class AnyOrder(RuleBasedStateMachine):
    """Tells a core whatever comes, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0
        self.asked = 0

    @initialize(settings=SETTINGS)
    def begin(self, settings: TurnSettings) -> None:
        self.ledger = Ledger(settings)

    def tell(self, event: Event) -> tuple[Action, ...]:
        return self.ledger.tell(event)

    def window(self, probability: float, level_db: float = QUIET_DB) -> tuple[Action, ...]:
        self.at += WINDOW_MS
        return self.tell(Window(self.at, probability, level_db))

    # --- the microphone
    @rule(windows=st.integers(1, 30), level_db=LEVELS)
    def voice(self, windows: int, level_db: float) -> None:
        for _ in range(windows):
            self.window(1.0, level_db)

    @rule(windows=st.integers(1, 40))
    def silence(self, windows: int) -> None:
        for _ in range(windows):
            self.window(0.0)

    @rule(for_ms=st.floats(1, 3000))
    def starve(self, for_ms: float) -> None:
        self.tell(Starved(for_ms))

    @rule(on=st.booleans())
    def mute(self, on: bool) -> None:
        self.tell(Muted(on))

    # --- the recogniser
    @rule(text=TEXTS, audible=AUDIBLE)
    def reply(self, text: str, audible: str) -> None:
        self.tell(FinalText(self.ledger.requests, text, "zh", audible))

    @rule()
    def fail(self) -> None:
        self.tell(FinalFailed(self.ledger.requests))

    @rule(request=st.integers(-1, 20), text=TEXTS)
    def reply_to_anything(self, request: int, text: str) -> None:
        self.tell(FinalText(request, text, "zh"))
        self.tell(FinalFailed(request + 1))

    @rule(text=TEXTS, audible=AUDIBLE)
    def partial(self, text: str, audible: str) -> None:
        self.tell(PartialText(text, audible))

    @rule(late=st.integers(0, 1), probability=st.sampled_from([0.0, 0.5, 1.0]))
    def opine(self, late: int, probability: float) -> None:
        self.tell(TurnProbability(self.ledger.requests - late, probability))

    # --- the answer
    @rule(late=st.integers(0, 1), for_good=st.booleans())
    def withdraw(self, late: int, for_good: bool) -> None:
        self.tell(Withdrawn(self.ledger.speculations - late, for_good))

    @rule(event=st.sampled_from([ContextChanged(), PlaybackStarted(), AnswerEnded(), Called()]))
    def happen(self, event: Event) -> None:
        self.tell(event)

    # --- the client
    @rule(event=st.sampled_from([ManualCommit(), Cleared(), Abandoned(), CancelRequested()]))
    def demand(self, event: Event) -> None:
        self.tell(event)

    @rule(aside=st.booleans())
    def respond(self, aside: bool) -> None:
        if not self.ledger.closed:
            self.asked += 1
            self.tell(RespondRequested(self.asked, aside))

    @rule(text=TEXTS)
    def text_turn(self, text: str) -> None:
        self.tell(TextTurn(text, "zh"))

    @rule(settings=SETTINGS)
    def configure(self, settings: TurnSettings) -> None:
        self.ledger.state = replace(self.ledger.state, settings=settings)

    @precondition(lambda self: self.asked > 5)
    @rule()
    def close(self) -> None:
        self.tell(Closed())

    # --- the end
    def teardown(self) -> None:
        if hasattr(self, "ledger") and not self.ledger.closed:
            self.settle()

    def settle(self) -> None:
        ledger = self.ledger
        ledger.state = replace(ledger.state, settings=TurnSettings())
        for _ in range(60 + 2 * len(ledger.waiting)):
            self.window(0.0)
            if ledger.pending is not None:
                self.tell(FinalText(ledger.pending, "你好。", "zh"))
            if ledger.answering and not ledger.paused:
                self.tell(AnswerEnded())
        assert ledger.state.phase is Phase.IDLE
        assert not ledger.answering
        assert not ledger.waiting
        # And the next sentence is heard, and answered.
        self.tell(Muted(False))
        for probability in [1.0] * 3 + [0.0] * 4:
            self.window(probability, VOICE_DB)
        self.tell(FinalText(ledger.requests, "你好。", "zh"))
        done = [action for _ in range(3) for action in self.window(0.0)]
        assert any(isinstance(action, Commit) and action.answer for action in done)


AnyOrder.TestCase.settings = hypothesis_settings(
    max_examples=150, stateful_step_count=40, deadline=None
)
TestAnyOrder = AnyOrder.TestCase


@pytest.mark.parametrize(
    "event",
    [
        Window(32.0, 1.0, VOICE_DB),
        Starved(5000.0),
        FinalText(1, "你好。", "zh"),
        AnswerEnded(),
        ManualCommit(),
        RespondRequested(1),
        TextTurn("你好", "zh"),
        Closed(),
    ],
)
def test_nothing_follows_the_end(event: Event) -> None:
    ledger = Ledger(TurnSettings())
    for number in range(1, 8):
        ledger.tell(Window(number * WINDOW_MS, 1.0 if number < 4 else 0.0, VOICE_DB))
    assert ledger.pending == 1
    assert ledger.tell(Closed()) == ()
    assert ledger.tell(event) == ()
