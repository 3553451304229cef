"""Invariants: every request ends in exactly one of begun, dropped, or waits; an answer is
interrupted at most once; nothing waits that could begin.
"""

from __future__ import annotations

from pipeline.turns.actions import (
    Apologise,
    Commit,
    Discard,
    Drop,
    EndTurn,
    Forget,
    Idle,
    Interrupt,
    Listen,
    OpenTurn,
    Respond,
)
from pipeline.turns.events import (
    AnswerEnded,
    Called,
    CancelRequested,
    Cleared,
    FinalFailed,
    FinalText,
    ManualCommit,
    RespondRequested,
    Starved,
    TextTurn,
)
from pipeline.turns.settings import WINDOW_MS
from pipeline.turns.state import Phase
from tests.pipeline.turns.talk import Talk


def decided(**settings: object) -> Talk:
    """A core that awaits the text of a turn."""
    talk = Talk(**settings)
    talk.voice(3)
    talk.silence(38)
    assert talk.state.phase is Phase.DECIDED
    return talk


# --- requests --------------------------------------------------------------------------------
def test_a_request_begins_at_once() -> None:
    talk = Talk(auto_respond=False)
    talk.says("hi")
    assert talk.tell(RespondRequested(1)) == [Respond(1)]
    assert talk.state.answer is not None


def test_an_owed_answer_comes_even_if_nothing_was_said() -> None:
    talk = Talk(server_turns=False)
    talk.voice(1)
    talk.tell(ManualCommit())
    talk.tell(RespondRequested(1))
    assert talk.tell(FinalText(1, "", "")) == [Discard(failed=False), Respond(1)]
    assert talk.state.answer is not None


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
    assert talk.tell(FinalText(1, "hi", "en")) == [Interrupt(), Commit("hi", "en", True, 2)]
    assert talk.state.answer is not None


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
    talk = calling(speculate=False)
    talk.tell(RespondRequested(2))
    talk.tell(RespondRequested(3, aside=True))
    talk.voice(24)
    assert talk.voice(1) == [OpenTurn(0.0), Interrupt(), Drop(2)]
    talk.asks()
    talk.hears("hi")
    # What is out of band comes after the answer to the user.
    assert talk.silence(3) == [EndTurn(talk.at, False), Commit("hi", "en", True)]
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
        talk.silence(38)
        assert talk.tell(reply) == actions


def test_a_request_that_waits_survives_an_answer_that_ends_while_the_user_speaks() -> None:
    talk = Talk()
    talk.voice(3)
    talk.tell(RespondRequested(1))
    talk.tell(Called())
    talk.tell(RespondRequested(2))
    assert talk.tell(AnswerEnded()) == []
    talk.asks()
    talk.hears("hi")
    assert talk.silence(3) == [EndTurn(talk.at, False), Commit("hi", "en", True, 2)]


def test_a_turn_that_comes_as_text_drops_what_waits() -> None:
    talk = calling()
    talk.tell(RespondRequested(2))
    assert talk.tell(TextTurn("hi", "en")) == [Interrupt(), Drop(2), Commit("hi", "en", True)]
    talk = decided()
    talk.tell(RespondRequested(2))
    assert talk.tell(TextTurn("hi", "en"))[1:] == [Forget(), Drop(2), Commit("hi", "en", True)]
    # In a turn that is open, what waits for the end of an answer is out of date as well.
    talk = Talk()
    talk.voice(3)
    talk.tell(RespondRequested(1))
    talk.tell(Called())
    talk.tell(RespondRequested(2))
    assert talk.tell(TextTurn("hi", "en")) == [
        Forget(),
        Interrupt(),
        Drop(2),
        Commit("hi", "en", True),
    ]


def test_the_apology_stands_for_the_answer_that_was_asked_for() -> None:
    talk = Talk(server_turns=False)
    talk.voice(1)
    talk.tell(ManualCommit())
    talk.tell(RespondRequested(1))
    assert talk.tell(FinalFailed(1)) == [Discard(failed=True), Apologise(1)]


def test_withdrawing_the_turn_drops_what_was_to_answer_it() -> None:
    talk = decided(auto_respond=False)
    talk.tell(RespondRequested(1))
    talk.voice(3)  # the user goes on
    assert talk.tell(Cleared()) == [Forget(), Drop(1)]


def test_a_user_goes_on_over_an_answer_only_if_it_may_be_interrupted() -> None:
    for interruptible in (True, False):
        talk = Talk(interruptible=interruptible)
        talk.voice(3)
        talk.tell(RespondRequested(1))
        talk.silence(38)
        assert bool(talk.voice(3)) == interruptible


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
        talk.silence(38)
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
    talk.says("hi")
    talk.tell(AnswerEnded())
    assert len(talk.silence(60)) == 2


def test_a_turn_begins_the_silence_anew() -> None:
    talk = Talk(idle_ms=320.0, auto_respond=False)
    talk.tell(RespondRequested(1))
    talk.tell(CancelRequested())
    talk.silence(8)
    talk.voice(3)
    talk.silence(38)
    assert talk.silence(30) == []  # its text is awaited
    talk.tell(FinalText(1, "", ""))
    began = talk.at
    assert talk.silence(9) == []
    assert talk.silence(1) == [Idle(began, talk.at), Respond(None)]


def test_a_candidate_begins_the_silence_anew() -> None:
    talk = Talk(idle_ms=320.0, echo=True)
    talk.answers()
    talk.tell(AnswerEnded())
    talk.voice(3)
    talk.asks()
    talk.hears("")
    began = talk.at
    assert talk.silence(9) == []
    assert talk.silence(1) == [Idle(began, talk.at), Respond(None)]


def test_only_server_turns_can_be_idle() -> None:
    talk = Talk(idle_ms=320.0, server_turns=False)
    talk.tell(RespondRequested(1))
    talk.tell(AnswerEnded())
    talk.configure(idle_ms=0.0)
    assert talk.tell(Starved(100)) == []
    assert talk.silence(60) == [Listen(WINDOW_MS), OpenTurn(WINDOW_MS)]
