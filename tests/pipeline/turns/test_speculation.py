"""Invariants: at most one speculation is live, and each ends in exactly one of a commit that names
it and a revocation; none begins beside another answer.
"""

from __future__ import annotations

import pytest

from pipeline.turns.actions import (
    Commit,
    Discard,
    EndTurn,
    Finalise,
    Forget,
    Interrupt,
    Listen,
    OpenTurn,
    Respond,
    Revoke,
    Speculate,
    Withdraw,
)
from pipeline.turns.events import (
    Abandoned,
    AnswerEnded,
    Called,
    CancelRequested,
    Cleared,
    ContextChanged,
    Event,
    FinalFailed,
    ManualCommit,
    RespondRequested,
    TextTurn,
    Withdrawn,
)
from pipeline.turns.state import Phase
from tests.pipeline.turns.talk import Talk


def speculating(text: str = "你好。", **settings: object) -> Talk:
    """A core that has begun the answer to a text, and waits for the floor."""
    talk = Talk(**settings)
    talk.voice()
    talk.asks()
    assert talk.hears(text) == [Speculate(1, text, "zh")]
    return talk


def test_the_answer_begins_with_the_text_and_is_committed_at_the_floor() -> None:
    talk = speculating()
    assert talk.state.answer is None
    assert talk.silence(2) == []
    assert talk.silence(1) == [EndTurn(talk.at, False), Commit("你好。", "zh", True, None, 1)]
    assert talk.state.answer is not None
    assert talk.state.speculation is None


def test_a_text_that_ends_the_turn_is_answered_without_speculation() -> None:
    talk = Talk()
    talk.voice()
    talk.asks()
    talk.silence(10)
    assert talk.hears("你好。") == [EndTurn(talk.at, False), Commit("你好。", "zh", True)]


def test_the_user_who_goes_on_revokes_it() -> None:
    talk = speculating("今天天气")
    assert talk.voice(1) == []
    assert talk.voice(1) == [Revoke(1)]
    assert talk.voice(5) == []
    talk.asks()
    assert talk.hears("今天天气怎么样？") == [Speculate(2, "今天天气怎么样？", "zh")]
    assert talk.silence(3)[-1] == Commit("今天天气怎么样？", "zh", True, None, 2)


def test_a_click_keeps_it_if_the_text_stays_the_same() -> None:
    for text, actions in (
        ("今天，天气 怎么样", []),
        ("今天天气怎么样呢？", [Revoke(1), Speculate(2, "今天天气怎么样呢？", "zh")]),
        ("", [Revoke(1)]),
    ):
        talk = speculating("今天天气怎么样？")
        assert talk.voice(1) == []
        assert talk.asks() == [Finalise(2)]
        assert talk.hears(text) == actions


def test_a_discarded_turn_revokes_it() -> None:
    talk = speculating("今天天气怎么样？")
    talk.voice(1)
    talk.silence(38)
    assert talk.state.phase is Phase.DECIDED
    assert talk.hears("") == [Revoke(1), Discard(failed=False)]


def test_a_failure_revokes_it_when_the_turn_ends() -> None:
    talk = speculating()
    talk.voice(1)
    talk.asks()
    assert talk.tell(FinalFailed(2)) == []
    talk.silence(34)
    assert talk.tell(FinalFailed(3))[:2] == [Revoke(1), Discard(failed=True)]


@pytest.mark.parametrize("text, kept", [("你好", True), ("你好吗", False)])
def test_what_comes_after_the_decision_keeps_or_revokes_it(text: str, kept: bool) -> None:
    talk = speculating("你好。")
    talk.voice(1)
    talk.silence(38)
    commit = Commit(text, "zh", True, None, 1 if kept else 0)
    assert talk.hears(text) == ([] if kept else [Revoke(1)]) + [commit]


def test_a_user_who_goes_on_after_the_decision_revokes_it() -> None:
    talk = speculating()
    talk.voice(1)
    talk.silence(38)
    assert talk.voice(3) == [Withdraw(decided=True), Revoke(1)]


def test_what_a_client_asks_for_is_made_anew() -> None:
    talk = speculating()
    talk.voice(1)
    talk.silence(38)
    assert talk.tell(RespondRequested(5)) == []
    assert talk.hears("你好。") == [Revoke(1), Commit("你好。", "zh", True, 5)]


@pytest.mark.parametrize(
    "settings",
    [{"speculate": False}, {"auto_respond": False}, {"speculations": 0}],
)
def test_none_unless_wanted(settings: dict[str, object]) -> None:
    talk = Talk(**settings)
    talk.voice()
    talk.asks()
    assert talk.hears("你好。") == []


def test_a_turn_has_so_many() -> None:
    talk = Talk(speculations=2)
    for number, text in ((1, "今天"), (2, "今天天气"), (0, "今天天气怎么样？")):
        talk.voice()
        talk.asks()
        assert talk.hears(text) == ([Speculate(number, text, "zh")] if number else [])
    talk.silence(3)
    talk.tell(AnswerEnded())
    # And the next one as many.
    talk.voice()
    talk.asks()
    assert talk.hears("明天呢？") == [Speculate(3, "明天呢？", "zh")]


def test_none_beside_another_answer() -> None:
    talk = Talk()
    talk.voice()
    talk.tell(RespondRequested(1))
    talk.asks()
    assert talk.hears("你好。") == []


def test_none_while_a_request_waits_for_the_turn() -> None:
    talk = Talk()
    talk.voice()
    talk.silence(38)
    talk.tell(RespondRequested(1))
    talk.voice(3)
    talk.asks()
    assert talk.hears("你好。") == []
    assert talk.silence(3)[-1] == Commit("你好。", "zh", True, 1)


def test_busy_engines_withdraw_it_for_this_silence() -> None:
    talk = speculating("今天天气")
    assert talk.tell(Withdrawn(7)) == []
    assert talk.tell(Withdrawn(1)) == [Revoke(1)]
    assert talk.tell(Withdrawn(1)) == []
    talk.voice()
    talk.asks()
    assert talk.hears("今天天气怎么样") == [Speculate(2, "今天天气怎么样", "zh")]


def test_a_call_withdraws_it_for_the_turn() -> None:
    talk = speculating("今天天气")
    assert talk.tell(Withdrawn(1, for_good=True)) == [Revoke(1)]
    talk.voice()
    talk.asks()
    assert talk.hears("今天天气怎么样？") == []
    assert talk.silence(3)[-1] == Commit("今天天气怎么样？", "zh", True)
    talk.tell(AnswerEnded())
    talk.voice()
    talk.asks()
    assert talk.hears("明天呢？") == [Speculate(2, "明天呢？", "zh")]


def test_a_context_that_changes_makes_it_again() -> None:
    talk = speculating("你好。", speculations=2)
    assert talk.tell(ContextChanged()) == [Revoke(1), Speculate(2, "你好。", "zh")]
    assert talk.tell(ContextChanged()) == [Revoke(2)]  # it had its two
    assert talk.tell(ContextChanged()) == []
    talk = speculating()
    talk.voice(1)  # what is said now is not known
    assert talk.tell(ContextChanged()) == [Revoke(1)]


@pytest.mark.parametrize(
    "event, actions",
    [
        (RespondRequested(1), [Revoke(1), Respond(1)]),
        (CancelRequested(), [Revoke(1)]),
        (Cleared(), [Revoke(1), Forget()]),
        (Abandoned(), [Revoke(1), Forget()]),
        (TextTurn("停", "zh"), [Revoke(1), Forget(), Commit("停", "zh", True)]),
    ],
)
def test_whatever_begins_or_ends_revokes_it_first(event: Event, actions: list[object]) -> None:
    assert speculating().tell(event) == actions


def test_the_clients_own_commit_is_not_answered_by_itself() -> None:
    talk = speculating()
    assert talk.tell(ManualCommit()) == [
        EndTurn(talk.at, True),
        Revoke(1),
        Commit("你好。", "zh", False),
    ]


def test_a_turn_that_took_over_speculates_as_well() -> None:
    talk = Talk()
    talk.answers()
    talk.voice(10)
    talk.asks()
    assert talk.hears("等一下，我有个问题") == [
        OpenTurn(0.0),
        Interrupt(),
        Speculate(1, "等一下，我有个问题", "zh"),
    ]


def test_an_answer_that_calls_a_function_is_not_a_speculation() -> None:
    talk = speculating()
    assert talk.tell(Called()) == []
    talk.silence(3)
    talk.tell(Called())
    assert talk.tell(RespondRequested(1)) == []
    assert talk.tell(AnswerEnded()) == [Respond(1)]


def test_a_new_turn_after_one_that_was_withdrawn() -> None:
    talk = speculating()
    talk.tell(Cleared())
    assert talk.voice(3) == [Listen(talk.at - 96.0), OpenTurn(talk.at - 96.0)]
    talk.asks()
    assert talk.hears("再见。") == [Speculate(2, "再见。", "zh")]
