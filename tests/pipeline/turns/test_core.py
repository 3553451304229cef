"""Invariants: a turn is opened once and ends once; a stale reply never commits anything; an answer
is interrupted at most once; every request ends in exactly one of begun, dropped, or waits; no order
of events leaves the core without a way on.
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
from pipeline.turns.events import (
    AnswerEnded,
    Called,
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
    assert talk.voice(2) == [OpenTurn(0.0), Interrupt()]
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
    assert talk.tell(RespondRequested(1)) == [Respond(1)]
    assert talk.state.answering


def test_manual_turns() -> None:
    talk = Talk(server_turns=False)
    assert talk.tell(ManualCommit()) == []  # nothing was sent
    assert talk.silence(1) == [OpenTurn(32.0)]
    assert talk.voice(100) + talk.silence(100) == []
    assert talk.tell(ManualCommit()) == [EndTurn(talk.at, True), Finalise(1)]
    assert talk.tell(RespondRequested(1)) == []
    assert talk.tell(FinalText(1, "hi", "en")) == [Commit("hi", "en", True, 1)]


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
    talk.tell(RespondRequested(1))
    assert talk.tell(FinalText(1, "", "")) == [Discard(failed=False), Respond(1)]
    assert talk.state.answering


def test_a_request_during_an_answer_replaces_it() -> None:
    talk = Talk()
    assert talk.tell(RespondRequested(1)) == [Respond(1)]
    assert talk.tell(RespondRequested(2)) == [Interrupt(), Respond(2)]
    assert talk.tell(CancelRequested()) == [Interrupt()]
    assert talk.tell(CancelRequested()) == []


def test_a_new_answer_replaces_one_that_still_plays() -> None:
    talk = Talk(server_turns=False)
    talk.tell(RespondRequested(1))
    talk.voice(1)
    talk.tell(ManualCommit())
    talk.tell(RespondRequested(2))
    assert talk.tell(FinalText(1, "hi", "en")) == [
        Interrupt(),
        Commit("hi", "en", True, 2),
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


# --- requests that wait ----------------------------------------------------------------------
def calling(**settings: object) -> Talk:
    """A core whose answer has called a function."""
    talk = Talk(**settings)
    talk.tell(RespondRequested(1))
    talk.tell(Called())
    return talk


def test_an_answer_that_called_a_function_is_waited_for() -> None:
    talk = calling()
    assert talk.tell(RespondRequested(2)) == []
    assert talk.tell(AnswerEnded()) == [Respond(2)]
    # That one has called nothing.
    assert talk.tell(RespondRequested(3)) == [Interrupt(), Respond(3)]


def test_a_call_of_no_answer_means_nothing() -> None:
    talk = Talk()
    assert talk.tell(Called()) == []
    assert talk.tell(RespondRequested(1)) == [Respond(1)]
    assert talk.tell(RespondRequested(2)) == [Interrupt(), Respond(2)]


def test_a_later_request_takes_the_place_of_one_that_waits() -> None:
    talk = calling()
    talk.tell(RespondRequested(2))
    assert talk.tell(RespondRequested(3)) == [Drop(2)]
    assert talk.tell(AnswerEnded()) == [Respond(3)]

    talk = Talk(server_turns=False)
    talk.voice(1)
    talk.tell(ManualCommit())
    talk.tell(RespondRequested(1))
    assert talk.tell(RespondRequested(2)) == [Drop(1)]
    assert talk.tell(FinalText(1, "hi", "en")) == [Commit("hi", "en", True, 2)]


def test_a_user_who_speaks_over_it_drops_what_waits_for_its_end() -> None:
    talk = calling()
    talk.tell(RespondRequested(2))
    talk.tell(RespondRequested(3, aside=True))
    assert talk.voice(3) == [OpenTurn(0.0), Interrupt(), Drop(2)]
    talk.silence(7)
    # What is out of band comes after the answer to the user.
    assert talk.tell(FinalText(1, "hi", "en")) == [Commit("hi", "en", True)]
    assert talk.tell(AnswerEnded()) == [Respond(3)]


def test_cancelling_drops_all_that_waits() -> None:
    talk = calling()
    talk.tell(RespondRequested(2))
    talk.tell(RespondRequested(3, aside=True))
    talk.tell(RespondRequested(4, aside=True))
    assert talk.tell(CancelRequested()) == [Interrupt(), Drop(2), Drop(3), Drop(4)]
    assert talk.tell(AnswerEnded()) == []


def test_a_manual_turn_does_not_disturb_what_waits_for_the_end_of_an_answer() -> None:
    for reply, actions in (
        (FinalText(1, "hi", "en"), [Commit("hi", "en", False)]),
        (FinalText(1, "", ""), [Discard(failed=False)]),
        (FinalFailed(1), [Discard(failed=True)]),
    ):
        talk = calling(server_turns=False)
        talk.tell(RespondRequested(2))
        talk.voice(1)
        talk.tell(ManualCommit())
        assert talk.tell(reply) == actions
        assert talk.tell(AnswerEnded()) == [Respond(2)]


def test_a_users_turn_that_is_answered_by_itself_takes_over() -> None:
    for reply, actions in (
        (FinalText(1, "hi", "en"), [Interrupt(), Drop(2), Commit("hi", "en", True)]),
        (FinalFailed(1), [Interrupt(), Drop(2), Discard(failed=True), Apologise()]),
    ):
        talk = Talk()
        talk.voice(3)
        talk.tell(RespondRequested(1))  # while the user speaks
        talk.tell(Called())
        talk.tell(RespondRequested(2))
        talk.silence(7)
        assert talk.tell(reply) == actions


def test_a_request_that_waits_survives_an_answer_that_ends_while_the_user_speaks() -> None:
    talk = Talk()
    talk.voice(3)
    talk.tell(RespondRequested(1))
    talk.tell(Called())
    talk.tell(RespondRequested(2))
    assert talk.tell(AnswerEnded()) == []
    talk.silence(7)
    assert talk.tell(FinalText(1, "hi", "en")) == [Commit("hi", "en", True, 2)]


def test_the_apology_stands_for_the_answer_that_was_asked_for() -> None:
    talk = Talk(server_turns=False)
    talk.voice(1)
    talk.tell(ManualCommit())
    talk.tell(RespondRequested(1))
    assert talk.tell(FinalFailed(1)) == [Discard(failed=True), Apologise(1)]


def test_withdrawing_the_turn_drops_what_was_to_answer_it() -> None:
    talk = Talk(auto_respond=False)
    talk.voice(3)
    talk.silence(7)
    talk.tell(RespondRequested(1))
    talk.voice(3)  # the user goes on
    assert talk.tell(Cleared()) == [Forget(), Drop(1)]


# --- out of band -----------------------------------------------------------------------------
def test_an_out_of_band_request_waits_for_its_turn() -> None:
    talk = Talk()
    assert talk.tell(RespondRequested(1, aside=True)) == [Respond(1)]
    assert talk.tell(RespondRequested(2, aside=True)) == []
    assert talk.tell(RespondRequested(3, aside=True)) == []
    assert talk.tell(AnswerEnded()) == [Respond(2)]
    assert talk.tell(AnswerEnded()) == [Respond(3)]
    # What belongs to the conversation does not wait for it, and goes first.
    assert talk.tell(RespondRequested(4)) == [Interrupt(), Respond(4)]
    talk.tell(Called())
    talk.tell(RespondRequested(5, aside=True))
    talk.tell(RespondRequested(6))
    assert talk.tell(AnswerEnded()) == [Respond(6)]
    assert talk.tell(AnswerEnded()) == [Respond(5)]


def test_an_out_of_band_request_waits_until_nobody_speaks() -> None:
    for reply in (FinalText(1, "hi", "en"), FinalText(1, "", ""), FinalFailed(1)):
        talk = Talk(auto_respond=False)
        talk.voice(3)
        assert talk.tell(RespondRequested(1, aside=True)) == []
        talk.silence(7)
        assert talk.tell(reply)[-1] == Respond(1)
    talk = Talk()
    talk.voice(3)
    talk.tell(RespondRequested(1, aside=True))
    assert talk.tell(Cleared()) == [Forget(), Respond(1)]
    # With manual turns a turn is open all the time.
    talk = Talk(server_turns=False)
    talk.silence(3)
    assert talk.tell(RespondRequested(1, aside=True)) == [Respond(1)]


# --- idle ------------------------------------------------------------------------------------
def test_a_long_silence_after_an_answer_is_answered_once() -> None:
    talk = Talk(idle_ms=320.0)
    assert talk.silence(30) == []  # nothing was answered yet
    talk.tell(RespondRequested(1))
    assert talk.silence(30) == []  # it plays
    talk.tell(AnswerEnded())
    ended = talk.at
    assert talk.silence(9) == []
    assert talk.silence(1) == [Idle(ended, talk.at), Respond(None)]
    assert talk.silence(30) == []
    talk.tell(AnswerEnded())
    assert talk.silence(60) == []
    # The user comes back, and what was said counts as said.
    talk.voice(3)
    talk.silence(7)
    talk.tell(FinalText(1, "hi", "en"))
    talk.tell(AnswerEnded())
    assert len(talk.silence(60)) == 2


def test_a_turn_begins_the_silence_anew() -> None:
    talk = Talk(idle_ms=320.0, auto_respond=False)
    talk.tell(RespondRequested(1))
    talk.tell(CancelRequested())
    talk.silence(8)
    talk.voice(3)
    talk.silence(7)
    assert talk.silence(30) == []  # its text is awaited
    talk.tell(FinalText(1, "", ""))
    began = talk.at
    assert talk.silence(9) == []
    assert talk.silence(1) == [Idle(began, talk.at), Respond(None)]


def test_only_server_turns_can_be_idle() -> None:
    talk = Talk(idle_ms=320.0, server_turns=False)
    talk.tell(RespondRequested(1))
    talk.tell(AnswerEnded())
    assert talk.silence(60) == [OpenTurn(0.0 + WINDOW_MS)]


_EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(lambda p: Window(0.0, p), st.sampled_from([0.0, 1.0])),
    st.builds(lambda p: Window(0.0, p), st.sampled_from([0.0, 1.0])),
    st.builds(Starved, st.floats(1, 2000)),
    st.builds(FinalText, st.integers(0, 6), st.sampled_from(["", "好"]), st.just("zh")),
    st.builds(FinalFailed, st.integers(0, 6)),
    st.just(AnswerEnded()),
    st.just(Called()),
    st.just(ManualCommit()),
    st.just(Cleared()),
    st.builds(RespondRequested, st.just(0), st.booleans()),
    st.just(CancelRequested()),
)


@given(st.lists(_EVENTS, max_size=120), st.booleans(), st.booleans(), st.booleans())
def test_any_order_of_events(
    events: list[Event], server: bool, auto: bool, interruptible: bool
) -> None:
    state = TurnState(
        settings=TurnSettings(
            server_turns=server, auto_respond=auto, interruptible=interruptible, idle_ms=640.0
        )
    )
    at, opened, answering, request = 0.0, False, False, 0
    asked, waiting = 0, set[int]()
    for event in events:
        if isinstance(event, Window):
            at += WINDOW_MS
            event = Window(at, event.probability)
        if isinstance(event, AnswerEnded):
            answering = False
        if isinstance(event, RespondRequested):
            asked += 1
            waiting.add(asked)
            event = RespondRequested(asked, event.aside)
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
                case Idle(since_ms, at_ms):
                    assert server
                    assert not opened
                    assert at_ms - since_ms >= 640
                case Drop():
                    pass
            ask = getattr(action, "ask", None)
            if ask is not None:
                waiting.remove(ask)
        assert state.answering == answering
        assert (state.phase is not Phase.IDLE) == opened
        assert waiting == {*state.aside, *([state.asked] if state.asked else [])}
        # Nothing waits that could begin.
        assert answering or opened or not waiting
    # Whatever happened, the next sentence is heard and committed, and nothing waits for ever.
    state = step(state, CancelRequested())[0]
    assert state.asked is None
    assert state.aside == ()
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
