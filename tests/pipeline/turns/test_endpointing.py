"""Invariants: a turn opens once and ends once; it ends between floor and ceiling of silence, and
not before its text is known unless at the ceiling; a stale reply commits nothing.
"""

from __future__ import annotations

import pytest

from pipeline.turns.actions import (
    Action,
    Apologise,
    Commit,
    Discard,
    Drop,
    EndTurn,
    Finalise,
    Forget,
    Interrupt,
    Listen,
    OpenTurn,
    Withdraw,
)
from pipeline.turns.events import (
    Abandoned,
    AnswerEnded,
    CancelRequested,
    Cleared,
    Event,
    FinalFailed,
    FinalText,
    ManualCommit,
    Muted,
    PartialText,
    RespondRequested,
    Starved,
    TextTurn,
    TurnProbability,
    Window,
)
from pipeline.turns.state import Phase
from tests.pipeline.turns.talk import VOICE_DB, Talk


def quiet(**settings: object) -> Talk:
    """A core that speculates on nothing."""
    return Talk(speculate=False, **settings)


def test_a_turn_from_onset_to_commit() -> None:
    talk = quiet()
    assert talk.silence(10) == []
    assert talk.voice(2) == []
    assert talk.voice(1) == [Listen(320.0), OpenTurn(320.0)]
    assert talk.voice(30) == []
    assert talk.silence(3) == []
    assert talk.silence(1) == [Finalise(1)]  # 128 ms
    assert talk.hears("今天天气怎么样？") == []
    assert talk.silence(2) == []  # 192 ms
    assert talk.silence(1) == [EndTurn(talk.at, False), Commit("今天天气怎么样？", "zh", True)]
    assert talk.state.answer is not None
    assert talk.state.phase is Phase.IDLE
    assert talk.tell(AnswerEnded()) == []
    assert talk.state.answer is None


def test_two_voiced_windows_are_a_click() -> None:
    talk = quiet()
    for _ in range(5):
        assert talk.voice(2) + talk.silence(1) == []


def test_a_window_is_voiced_from_the_threshold_on() -> None:
    for probability, actions in ((0.6, [Listen(0.0), OpenTurn(0.0)]), (0.59, [])):
        talk = quiet(threshold=0.6, onset_windows=1)
        assert talk.tell(Window(32.0, probability, VOICE_DB)) == actions


def test_a_late_text_ends_the_turn_when_it_comes() -> None:
    talk = quiet()
    talk.voice()
    talk.asks()
    assert talk.silence(20) == []  # 768 ms
    assert talk.hears("今天天气怎么样？") == [
        EndTurn(talk.at, False),
        Commit("今天天气怎么样？", "zh", True),
    ]


def test_a_text_that_goes_on_waits_longer() -> None:
    talk = quiet()
    talk.voice()
    talk.asks()
    talk.hears("我想去北京，因为")
    assert talk.silence(10) == []
    done = talk.silence(24)  # up to 1216 ms
    assert done == [EndTurn(done[0].at_ms, False), Commit("我想去北京，因为", "zh", True)]  # type: ignore[union-attr]


def test_nothing_said_ends_at_the_floor() -> None:
    talk = quiet()
    assert talk.says("") == [EndTurn(talk.at, False), Discard(failed=False)]
    assert talk.state.phase is Phase.IDLE
    assert talk.state.answer is None


def test_an_opinion_moves_the_wait_inside_the_bounds() -> None:
    waits: list[float] = []
    for probability in (1.0, 0.0):
        talk = quiet()
        talk.voice()
        talk.asks()
        talk.tell(TurnProbability(1, probability))
        talk.hears("我想去北京然后")
        while talk.state.phase is Phase.SPEAKING:
            talk.silence(1)
        waits.append(talk.at)
    assert waits[0] <= waits[1]


def test_an_opinion_that_comes_last_may_end_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait_ms(settings: object, *, text: str, probability: float | None) -> float:
        return 1200.0 if probability is None else 200.0

    monkeypatch.setattr("pipeline.turns.endpointing.wait_ms", wait_ms)
    talk = quiet()
    talk.voice()
    talk.asks()
    talk.hears("我想去北京")
    assert talk.silence(6) == []
    assert talk.tell(TurnProbability(7, 1.0)) == []  # of another silence
    assert talk.tell(TurnProbability(1, 1.0)) == [
        EndTurn(talk.at, False),
        Commit("我想去北京", "zh", True),
    ]
    assert talk.tell(TurnProbability(1, 1.0)) == []


def test_without_a_text_the_turn_is_decided_at_the_ceiling() -> None:
    talk = quiet()
    talk.voice()
    talk.asks()
    assert talk.silence(33) == []  # 1184 ms
    assert talk.silence(1) == [EndTurn(talk.at, False)]
    assert talk.state.phase is Phase.DECIDED
    assert talk.tell(TurnProbability(1, 1.0)) == []
    assert talk.silence(20) == []
    assert talk.hears("你好") == [Commit("你好", "zh", True)]


def test_a_longer_floor_goes_before_the_ceiling() -> None:
    talk = quiet(floor_ms=2000.0, ceiling_ms=1200.0)
    talk.voice()
    talk.asks()
    talk.hears("你好。")
    assert talk.silence(58) == []
    assert talk.silence(1) == [EndTurn(talk.at, False), Commit("你好。", "zh", True)]
    talk.tell(AnswerEnded())
    talk.voice()
    talk.asks()
    assert talk.silence(58) == []
    assert talk.silence(1) == [EndTurn(talk.at, False)]


def test_a_short_floor_is_asked_for_early() -> None:
    talk = quiet(floor_ms=50.0)
    talk.voice()
    assert talk.silence(2) == [Finalise(1)]
    assert talk.hears("你好。") == [EndTurn(talk.at, False), Commit("你好。", "zh", True)]


def test_a_user_who_goes_on_voids_the_text() -> None:
    talk = quiet()
    talk.voice()
    talk.asks()
    talk.hears("今天天气")
    assert talk.voice(3) == []
    assert talk.asks() == [Finalise(2)]
    assert talk.voice(1) == []
    assert talk.voice(1) == [Withdraw()]
    assert talk.hears("今天天气怎么样") == []
    assert talk.asks() == [Finalise(3)]
    assert talk.hears("今天天气", request=2) == []
    talk.hears("今天天气怎么样？")
    assert talk.silence(3)[1:] == [Commit("今天天气怎么样？", "zh", True)]


def test_after_a_click_the_silence_is_asked_about_anew() -> None:
    talk = quiet()
    talk.voice()
    talk.asks()
    assert talk.voice(1) == []
    # The reply is not of this silence, whether it comes or not.
    assert talk.asks() == [Withdraw(), Finalise(2)]
    talk.voice(1)
    talk.silence(1)
    assert talk.hears("你好。") == []
    assert talk.asks()[-1] == Finalise(3)
    talk.voice(1)
    assert talk.tell(FinalFailed(3)) == []
    assert talk.asks() == [Finalise(4)]
    talk.hears("你好。")
    assert talk.silence(3) == [EndTurn(talk.at, False), Commit("你好。", "zh", True)]


def test_a_user_who_goes_on_at_the_ceiling_keeps_the_turn() -> None:
    talk = quiet()
    talk.voice()
    talk.silence(38)
    assert talk.state.phase is Phase.DECIDED
    assert talk.voice(2) == []
    assert talk.voice(1) == [Withdraw(decided=True)]
    assert talk.hears("half") == []
    assert talk.asks() == [Finalise(2)]
    assert talk.hears("half", request=1) == []
    talk.hears("whole")
    assert talk.silence(3) == [EndTurn(talk.at, False), Commit("whole", "en", True)]


def test_a_failure_is_asked_about_again_at_the_ceiling() -> None:
    for auto, actions in ((True, [Apologise()]), (False, [])):
        talk = quiet(auto_respond=auto)
        talk.voice()
        talk.asks()
        assert talk.tell(FinalFailed(1)) == []
        assert talk.silence(33) == []
        assert talk.silence(1) == [EndTurn(talk.at, False), Finalise(2)]
        assert talk.tell(FinalFailed(2)) == [Discard(failed=True), *actions]
        assert talk.state.phase is Phase.IDLE
        assert (talk.state.answer is not None) == auto


def test_a_stale_reply_is_ignored() -> None:
    talk = quiet()
    for event in (FinalFailed(3), FinalText(0, "x", "en"), FinalText(1, "x", "en")):
        assert talk.tell(event) == []
    talk.voice()
    assert talk.tell(PartialText("今天")) == []
    talk.asks()
    assert talk.tell(FinalText(2, "x", "en")) == []
    talk.hears("今天天气怎么样？")
    assert talk.hears("又来了") == []
    assert talk.silence(3)[-1] == Commit("今天天气怎么样？", "zh", True)


def test_starvation_counts_as_silence() -> None:
    talk = quiet()
    assert talk.tell(Starved(1000)) == []
    talk.voice(2)
    talk.tell(Starved(300))
    assert talk.voice(2) == []  # it breaks a run of voice
    talk.voice(3)
    assert talk.tell(Starved(100)) == []
    assert talk.tell(Starved(50)) == [Finalise(1)]
    talk.hears("你好。")
    assert talk.tell(Starved(50)) == [EndTurn(talk.at, False), Commit("你好。", "zh", True)]
    talk.tell(AnswerEnded())
    talk.voice(5)
    assert talk.tell(Starved(5000)) == [EndTurn(talk.at, False), Finalise(2)]


def test_a_muted_user_is_silent() -> None:
    talk = quiet()
    talk.voice(2)
    assert talk.tell(Muted(True)) == []
    assert talk.voice(30) == []
    talk.tell(Muted(False))
    assert talk.voice(2) == []
    talk.voice(8)
    talk.tell(Muted(True))
    assert talk.voice(4) == [Finalise(1)]
    talk.hears("你好。")
    assert talk.voice(3) == [EndTurn(talk.at, False), Commit("你好。", "zh", True)]


def test_an_endless_turn_ends() -> None:
    talk = quiet(max_turn_ms=1000.0)
    talk.voice(3)
    assert talk.voice(28) == []
    assert talk.voice(1) == [EndTurn(talk.at, True), Finalise(1)]
    assert talk.voice(10) == []  # whatever comes is the next turn's
    assert talk.hears("long") == [Commit("long", "en", True)]


def test_an_endless_turn_ends_at_a_click_too() -> None:
    talk = quiet(max_turn_ms=1000.0)
    talk.voice(26)
    talk.asks()
    talk.silence(1)
    # What was asked for does not hold the click.
    assert talk.voice(1) == [Withdraw(), EndTurn(talk.at, True), Finalise(2)]


def test_no_answer_unless_wanted() -> None:
    talk = quiet(auto_respond=False)
    assert talk.says("hi") == [EndTurn(talk.at, False), Commit("hi", "en", False)]
    assert talk.state.answer is None


# --- the client decides ----------------------------------------------------------------------
def test_manual_turns() -> None:
    talk = Talk(server_turns=False)
    assert talk.tell(ManualCommit()) == []  # nothing was sent
    assert talk.silence(1) == [Listen(32.0), OpenTurn(32.0)]
    assert talk.voice(100) + talk.silence(100) == []
    assert talk.tell(Starved(5000)) == []
    assert talk.tell(ManualCommit()) == [EndTurn(talk.at, True), Finalise(1)]
    assert talk.silence(3) == []
    assert talk.tell(RespondRequested(1)) == []
    assert talk.hears("hi") == [Commit("hi", "en", True, 1)]


def test_a_manual_turn_is_not_reopened_by_voice() -> None:
    talk = quiet()
    talk.voice(3)
    talk.tell(ManualCommit())
    assert talk.tell(ManualCommit()) == []
    assert talk.voice(10) == []
    assert talk.hears("hi") == [Commit("hi", "en", False)]


def test_a_manual_commit_of_a_known_text_commits_at_once() -> None:
    talk = quiet()
    talk.voice()
    talk.asks()
    talk.hears("hi")
    assert talk.tell(ManualCommit()) == [EndTurn(talk.at, True), Commit("hi", "en", False)]
    # A voiced window more, and it is not the same audio.
    talk.voice()
    talk.asks()
    talk.hears("hi")
    talk.voice(1)
    assert talk.tell(ManualCommit()) == [EndTurn(talk.at, True), Finalise(3)]


def test_a_manual_commit_waits_for_a_text_that_is_on_its_way() -> None:
    talk = quiet()
    talk.voice()
    talk.asks()
    assert talk.tell(ManualCommit()) == [EndTurn(talk.at, True)]
    assert talk.hears("hi") == [Commit("hi", "en", False)]
    talk.voice()
    talk.asks()
    talk.voice(1)
    assert talk.tell(ManualCommit()) == [Withdraw(), EndTurn(talk.at, True), Finalise(3)]


def test_a_manual_turn_takes_nothing_from_silences_that_the_core_had_watched() -> None:
    talk = quiet()
    talk.voice()
    talk.asks()
    talk.hears("hi")
    talk.configure(server_turns=False)
    assert talk.voice(50) == []
    assert talk.tell(ManualCommit()) == [EndTurn(talk.at, True), Finalise(2)]


def test_clearing_drops_the_open_turn() -> None:
    talk = quiet()
    assert talk.tell(Cleared()) == []
    talk.voice(3)
    assert talk.tell(Cleared()) == [Forget()]
    assert talk.state.phase is Phase.IDLE
    talk.voice(3)
    talk.asks()
    assert talk.tell(Cleared()) == [Withdraw(), Forget()]
    talk.voice(3)
    talk.tell(ManualCommit())
    assert talk.tell(Cleared()) == []  # what was decided stays
    assert talk.state.phase is Phase.DECIDED


def test_whoever_starts_afresh_drops_the_turn_however_far_it_is() -> None:
    talk = quiet()
    assert talk.tell(Abandoned()) == []
    talk.voice(3)
    assert talk.tell(Abandoned()) == [Forget()]
    talk.voice(3)
    talk.tell(ManualCommit())
    assert talk.state.phase is Phase.DECIDED
    assert talk.tell(Abandoned()) == [Withdraw(), Forget()]
    assert talk.state.phase is Phase.IDLE
    assert talk.hears("late") == []
    talk.voice(3)
    talk.tell(ManualCommit())
    talk.tell(RespondRequested(1))
    assert talk.tell(Abandoned()) == [Drop(1), Withdraw(), Forget()]


# --- turns that come as text -----------------------------------------------------------------
def test_a_turn_that_comes_as_text_is_answered_at_once() -> None:
    talk = Talk(auto_respond=False)
    commit = Commit("小智，你好", "zh", True)
    event = TextTurn("小智，你好", "zh")
    assert talk.tell(TextTurn("", "")) == []
    assert talk.tell(event) == [commit]
    assert talk.tell(event) == [Interrupt(), commit]


def test_a_turn_that_comes_as_text_takes_the_place_of_the_spoken_one() -> None:
    commit = Commit("小智，你好", "zh", True)
    event = TextTurn("小智，你好", "zh")
    talk = quiet()
    talk.voice()
    assert talk.tell(event) == [Forget(), commit]
    talk.tell(CancelRequested())
    talk.voice()
    talk.asks()
    assert talk.tell(event) == [Withdraw(), Forget(), commit]
    talk.tell(CancelRequested())
    talk.voice()
    talk.silence(38)
    assert talk.state.phase is Phase.DECIDED
    assert talk.tell(event) == [Withdraw(), Forget(), commit]


@pytest.mark.parametrize(
    "reply, actions",
    [
        (FinalText(1, "hi", "en"), [Commit("hi", "en", True)]),
        (FinalText(1, "", ""), [Discard(failed=False)]),
        (FinalFailed(1), [Discard(failed=True), Apologise()]),
    ],
)
def test_every_turn_that_was_decided_ends(reply: Event, actions: list[Action]) -> None:
    talk = quiet()
    talk.voice(3)
    talk.silence(38)
    assert talk.tell(reply) == actions
    assert talk.state.phase is Phase.IDLE
