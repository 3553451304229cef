"""Invariants: a turn is opened once and ends once; a stale reply never commits anything; an answer
is interrupted at most once; no order of events leaves the core without a way on.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

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
from pipeline.turns.events import (
    AnswerEnded,
    CancelRequested,
    Cleared,
    Event,
    FinalFailed,
    FinalText,
    ManualCommit,
    RespondRequested,
    Starved,
    Window,
)
from pipeline.turns.state import WINDOW_MS, Phase, TurnSettings, TurnState


class Talk:
    """Steps a core through windows and remembers what it did."""

    def __init__(self, **settings: object) -> None:
        self.state = TurnState(settings=replace(TurnSettings(), **settings))  # type: ignore[arg-type]
        self.actions: list[Action] = []
        self.at = 0.0

    def tell(self, event: Event) -> list[Action]:
        self.state, actions = step(self.state, event)
        self.actions += actions
        return list(actions)

    def voice(self, windows: int) -> list[Action]:
        return self._windows(windows, 1.0)

    def silence(self, windows: int) -> list[Action]:
        return self._windows(windows, 0.0)

    def _windows(self, count: int, probability: float) -> list[Action]:
        done: list[Action] = []
        for _ in range(count):
            self.at += WINDOW_MS
            done += self.tell(Window(self.at, probability))
        return done


def test_a_turn_from_onset_to_commit() -> None:
    talk = Talk()
    assert talk.silence(10) == []
    assert talk.voice(2) == []
    assert talk.voice(1) == [OpenTurn(320.0)]
    assert talk.voice(30) == []
    assert talk.silence(6) == []  # 192 ms
    assert talk.silence(1) == [EndTurn(talk.at, False), Finalise(1)]
    assert talk.silence(20) == []
    assert talk.tell(FinalText(1, "你好", "zh")) == [Commit("你好", "zh", True)]
    assert talk.state.answering
    assert talk.state.phase is Phase.IDLE
    assert talk.tell(AnswerEnded()) == []
    assert not talk.state.answering


def test_two_voiced_windows_are_a_click() -> None:
    talk = Talk()
    for _ in range(5):
        assert talk.voice(2) + talk.silence(1) == []


def test_a_user_who_goes_on_keeps_the_turn() -> None:
    talk = Talk()
    talk.voice(10)
    talk.silence(7)
    assert talk.state.phase is Phase.DECIDED
    assert talk.voice(3) == [Withdraw()]
    assert talk.tell(FinalText(1, "half", "en")) == []
    assert talk.silence(7) == [EndTurn(talk.at, False), Finalise(2)]
    assert talk.tell(FinalText(1, "half", "en")) == []
    assert talk.tell(FinalText(2, "whole", "en")) == [Commit("whole", "en", True)]


def test_voice_during_an_answer_interrupts_and_opens() -> None:
    talk = Talk(playback_onset_windows=2)
    talk.state = replace(talk.state, answering=True)
    assert talk.voice(2) == [OpenTurn(0.0), Interrupt(by_user=True)]
    assert not talk.state.answering


def test_an_answer_that_may_not_be_interrupted_is_not_listened_through() -> None:
    talk = Talk(interruptible=False)
    talk.state = replace(talk.state, answering=True)
    assert talk.voice(30) == []
    talk.tell(AnswerEnded())
    assert talk.voice(1) == [OpenTurn(0.0)]


def test_nothing_said_and_failed_recognition_discard() -> None:
    replies: list[tuple[Event, bool, list[Action]]] = [
        (FinalText(1, "", ""), True, [Discard(failed=False)]),
        (FinalFailed(1), True, [Discard(failed=True), Apologise()]),
        (FinalFailed(1), False, [Discard(failed=True)]),
    ]
    for reply, auto, actions in replies:
        talk = Talk(auto_respond=auto)
        talk.voice(3)
        talk.silence(7)
        assert talk.tell(reply) == actions
        assert talk.state.phase is Phase.IDLE
        assert talk.state.answering == (Apologise() in actions)


def test_a_stale_failure_is_ignored() -> None:
    talk = Talk()
    assert talk.tell(FinalFailed(3)) == []


def test_starvation_counts_as_silence() -> None:
    talk = Talk()
    assert talk.tell(Starved(1000)) == []
    talk.voice(5)
    assert talk.tell(Starved(150)) == []
    assert talk.tell(Starved(150)) == [EndTurn(talk.at, False), Finalise(1)]


def test_an_endless_turn_ends() -> None:
    talk = Talk(max_turn_ms=1000.0)
    talk.voice(3)
    assert talk.voice(28) == []
    assert talk.voice(1)[:1] == [EndTurn(talk.at, True)]
    assert talk.voice(10) == []  # whatever comes is the next turn's
    assert talk.tell(FinalText(1, "long", "en")) == [Commit("long", "en", True)]


def test_no_answer_unless_wanted() -> None:
    talk = Talk(auto_respond=False)
    talk.voice(3)
    talk.silence(7)
    assert talk.tell(FinalText(1, "hi", "en")) == [Commit("hi", "en", False)]
    assert not talk.state.answering
    assert talk.tell(RespondRequested("be brief")) == [Respond("be brief")]
    assert talk.state.answering


def test_manual_turns() -> None:
    talk = Talk(server_turns=False)
    assert talk.tell(ManualCommit()) == []  # nothing was sent
    assert talk.silence(1) == [OpenTurn(32.0)]
    assert talk.voice(100) + talk.silence(100) == []
    assert talk.tell(ManualCommit()) == [EndTurn(talk.at, True), Finalise(1)]
    assert talk.tell(RespondRequested("x")) == []
    assert talk.tell(FinalText(1, "hi", "en")) == [Commit("hi", "en", True, "x")]


def test_a_manual_turn_is_not_reopened_by_voice() -> None:
    talk = Talk()
    talk.voice(3)
    talk.tell(ManualCommit())
    assert talk.voice(10) == []
    assert talk.tell(FinalText(1, "hi", "en")) == [Commit("hi", "en", False)]


def test_an_owed_answer_comes_even_if_nothing_was_said() -> None:
    talk = Talk(server_turns=False)
    talk.voice(1)
    talk.tell(ManualCommit())
    talk.tell(RespondRequested())
    assert talk.tell(FinalText(1, "", "")) == [Discard(failed=False), Respond("")]
    assert talk.state.answering


def test_a_request_during_an_answer_replaces_it() -> None:
    talk = Talk()
    assert talk.tell(RespondRequested()) == [Respond("")]
    assert talk.tell(RespondRequested()) == [Interrupt(by_user=False), Respond("")]
    assert talk.tell(CancelRequested()) == [Interrupt(by_user=False)]
    assert talk.tell(CancelRequested()) == []


def test_a_new_answer_replaces_one_that_still_plays() -> None:
    talk = Talk(server_turns=False)
    talk.tell(RespondRequested())
    talk.voice(1)
    talk.tell(ManualCommit())
    talk.tell(RespondRequested())
    assert talk.tell(FinalText(1, "hi", "en")) == [
        Interrupt(by_user=False),
        Commit("hi", "en", True, ""),
    ]
    assert talk.state.answering


def test_clearing_drops_the_open_turn() -> None:
    talk = Talk()
    assert talk.tell(Cleared()) == []
    talk.voice(3)
    assert talk.tell(Cleared()) == [Forget()]
    assert talk.state.phase is Phase.IDLE
    talk.voice(3)
    talk.silence(7)
    assert talk.tell(Cleared()) == []  # what was decided stays
    assert talk.state.phase is Phase.DECIDED


_EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(lambda p: Window(0.0, p), st.sampled_from([0.0, 1.0])),
    st.builds(lambda p: Window(0.0, p), st.sampled_from([0.0, 1.0])),
    st.builds(Starved, st.floats(1, 2000)),
    st.builds(FinalText, st.integers(0, 6), st.sampled_from(["", "好"]), st.just("zh")),
    st.builds(FinalFailed, st.integers(0, 6)),
    st.just(AnswerEnded()),
    st.just(ManualCommit()),
    st.just(Cleared()),
    st.just(RespondRequested()),
    st.just(CancelRequested()),
)


@given(st.lists(_EVENTS, max_size=120), st.booleans(), st.booleans(), st.booleans())
def test_any_order_of_events(
    events: list[Event], server: bool, auto: bool, interruptible: bool
) -> None:
    state = TurnState(
        settings=TurnSettings(server_turns=server, auto_respond=auto, interruptible=interruptible)
    )
    at, opened, answering, request = 0.0, False, False, 0
    for event in events:
        if isinstance(event, Window):
            at += WINDOW_MS
            event = Window(at, event.probability)
        if isinstance(event, AnswerEnded):
            answering = False
        state, actions = step(state, event)
        for action in actions:
            match action:
                case OpenTurn():
                    assert not opened
                    opened = True
                case EndTurn() | Withdraw():
                    assert opened
                case Finalise(number):
                    assert number == request + 1
                    request = number
                case Commit(_, _, answer):
                    assert opened
                    assert isinstance(event, FinalText)
                    assert event.request == request
                    assert not (answer and answering)
                    opened, answering = False, answering or answer
                case Discard() | Forget():
                    assert opened
                    opened = False
                case Interrupt():
                    assert answering
                    answering = False
                case Respond() | Apologise():
                    assert not answering
                    answering = True
        assert state.answering == answering
        assert (state.phase is not Phase.IDLE) == opened
    # Whatever happened, the next sentence is heard and committed.
    state = step(state, FinalFailed(state.request))[0]
    state = step(state, AnswerEnded())[0]
    if not server:
        return
    done: list[Action] = []
    for probability in [1.0] * 3 + [0.0] * 7:
        at += WINDOW_MS
        state, actions = step(state, Window(at, probability))
        done += actions
    assert isinstance(done[-1], Finalise)
    assert isinstance(step(state, FinalText(state.request, "好", "zh"))[1][0], Commit)
