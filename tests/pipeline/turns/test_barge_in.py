"""Invariants: sounds over an answer are told to nobody before they are a turn; what is listened to
ends in exactly one of a turn and a dismissal; pauses and resumptions alternate within one answer.
"""

from __future__ import annotations

import pytest

from pipeline.turns.actions import (
    Action,
    Commit,
    Dismiss,
    Drop,
    EndTurn,
    Finalise,
    Interrupt,
    Listen,
    OpenTurn,
    Pause,
    Reason,
    Respond,
    Resume,
    Speculate,
    Withdraw,
)
from pipeline.turns.events import (
    Abandoned,
    AnswerEnded,
    Called,
    CancelRequested,
    Cleared,
    FinalFailed,
    FinalText,
    ManualCommit,
    Muted,
    PartialText,
    PlaybackStarted,
    RespondRequested,
    Starved,
    TextTurn,
)
from pipeline.turns.state import Phase
from tests.pipeline.turns.talk import ASK, Talk

SPEECH = "等一下，今天星期几？"


def answering(**settings: object) -> Talk:
    """A core whose answer plays."""
    talk = Talk(**settings)
    talk.answers()
    return talk


def candidate(windows: int = 5, **settings: object) -> Talk:
    """A core whose answer plays and is paused by a voice."""
    talk = answering(**settings)
    talk.voice(windows)
    assert talk.state.phase is Phase.CANDIDATE
    return talk


# --- the onset -------------------------------------------------------------------------------
def test_a_voice_over_an_answer_pauses_it_and_is_told_to_nobody() -> None:
    talk = answering()
    assert talk.voice(2) == []
    assert talk.voice(1) == [Pause(), Listen(0.0)]
    assert talk.voice(5) == []


def test_the_onset_has_a_length_of_its_own_while_something_is_heard() -> None:
    talk = Talk(onset_windows=2, playback_onset_windows=4)
    talk.tell(RespondRequested(ASK))
    assert talk.voice(2) == [Pause(), Listen(0.0)]  # nothing is heard yet
    talk = Talk(onset_windows=2, playback_onset_windows=4)
    talk.answers()
    assert talk.voice(3) == []
    assert talk.voice(1) == [Pause(), Listen(0.0)]


def test_an_answer_that_may_not_be_interrupted_is_not_listened_through() -> None:
    talk = answering(interruptible=False)
    assert talk.voice(30) == []
    talk.tell(AnswerEnded())
    assert talk.voice(1) == [Listen(0.0), OpenTurn(0.0)]


# --- the verdict -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text, reason",
    [
        ("", Reason.NOISE),
        ("嗯", Reason.BACKCHANNEL),
        ("好的", Reason.BACKCHANNEL),
    ],
)
def test_no_turn_is_dismissed_and_the_answer_goes_on(text: str, reason: Reason) -> None:
    talk = candidate()
    assert talk.asks() == [Finalise(1)]
    assert talk.hears(text) == [Resume(), Dismiss(reason, text)]
    assert talk.state.phase is Phase.IDLE
    assert talk.state.answer is not None


def test_laughter_without_words_is_a_backchannel() -> None:
    talk = candidate()
    [finalise] = [each for each in talk.asks() if isinstance(each, Finalise)]
    told = talk.tell(FinalText(finalise.request, "", "", laughter=True))
    assert told == [Resume(), Dismiss(Reason.BACKCHANNEL)]


def test_a_late_verdict_does_not_hold_the_answer() -> None:
    talk = candidate()
    talk.asks()
    assert talk.silence(5) == []  # 288 ms
    assert talk.silence(1) == [Resume()]
    assert talk.silence(30) == []
    assert talk.hears("嗯") == [Dismiss(Reason.BACKCHANNEL, "嗯")]
    # And a late one that it was speech still counts.
    talk = candidate()
    talk.asks()
    talk.silence(6)
    assert talk.hears(SPEECH)[:2] == [OpenTurn(0.0), Interrupt()]


def test_speech_takes_over_and_goes_on_as_a_turn() -> None:
    talk = candidate(10)
    talk.asks()
    assert talk.hears(SPEECH) == [OpenTurn(0.0), Interrupt(), Speculate(1, SPEECH, "zh")]
    assert talk.state.phase is Phase.SPEAKING
    assert talk.silence(3) == [EndTurn(talk.at, False), Commit(SPEECH, "zh", True, None, 1)]


def test_speech_whose_silence_is_long_enough_is_committed_in_the_same_step() -> None:
    talk = candidate(10)
    talk.asks()
    talk.silence(20)
    assert talk.hears(SPEECH) == [
        OpenTurn(0.0),
        Interrupt(),
        EndTurn(talk.at, False),
        Commit(SPEECH, "zh", True),
    ]


def test_a_long_voice_takes_over_without_a_verdict() -> None:
    talk = answering()
    talk.voice(24)
    assert talk.voice(1) == [OpenTurn(0.0), Interrupt()]  # 800 ms
    assert talk.voice(10) == []
    # The voice need not be in one piece.
    talk = answering()
    for _ in range(4):
        talk.voice(5)
        talk.silence(2)
    assert talk.voice(5) == [OpenTurn(0.0), Interrupt()]


def test_what_may_be_an_echo_does_not_count_for_it() -> None:
    talk = answering(echo=True, lead_ms=200.0)
    talk.voice(3 + 21)  # the pause, and 700 ms
    talk.voice(24)
    assert talk.voice(1) == [OpenTurn(0.0), Interrupt()]


def test_a_failed_recogniser_leaves_the_answer() -> None:
    talk = candidate()
    talk.asks()
    assert talk.tell(FinalFailed(1)) == [Resume(), Dismiss(Reason.FAILED)]


def test_a_voice_that_goes_on_voids_the_question() -> None:
    talk = candidate()
    talk.asks()
    assert talk.voice(1) == []
    assert talk.hears("嗯") == []  # there was a click since
    assert talk.voice(1) == []
    assert talk.asks() == [Finalise(2)]
    assert talk.voice(2) == [Withdraw()]
    assert talk.hears("嗯") == []
    assert talk.asks() == [Finalise(3)]
    talk.voice(1)
    assert talk.tell(FinalFailed(3)) == []
    assert talk.asks() == [Finalise(4)]
    assert talk.hears("嗯") == [Resume(), Dismiss(Reason.BACKCHANNEL, "嗯")]


def test_a_voice_that_comes_back_pauses_again() -> None:
    talk = candidate()
    assert talk.silence(10) == [Finalise(1), Resume()]
    assert talk.voice(2) == [Withdraw()]
    assert talk.voice(1) == [Pause()]
    assert talk.silence(10) == [Finalise(2), Resume()]
    assert talk.hears("嗯嗯") == [Dismiss(Reason.BACKCHANNEL, "嗯嗯")]


def test_silence_without_samples_counts() -> None:
    talk = candidate()
    assert talk.tell(Starved(400)) == [Finalise(1), Resume()]
    talk = candidate()
    talk.tell(Muted(True))
    assert talk.voice(10) == [Finalise(1), Resume()]


# --- partial texts ---------------------------------------------------------------------------
def test_clear_speech_takes_over_before_its_end() -> None:
    talk = candidate(10)
    for text in ("", "嗯", "好"):
        assert talk.tell(PartialText(text)) == []
    assert talk.tell(PartialText(SPEECH)) == [OpenTurn(0.0), Interrupt()]
    assert talk.tell(PartialText(SPEECH)) == []


def test_clear_speech_that_ended_long_ago_is_decided_at_once() -> None:
    talk = candidate(10)
    talk.silence(40)
    assert talk.tell(PartialText(SPEECH)) == [OpenTurn(0.0), Interrupt(), EndTurn(talk.at, False)]
    assert talk.hears(SPEECH) == [Commit(SPEECH, "zh", True)]


def test_the_echo_of_a_partial_text_takes_nothing_over() -> None:
    audible = "天空是蓝色的因为阳光被散射"
    talk = candidate(echo=True)
    assert talk.tell(PartialText("因为阳光被散射", audible)) == []


# --- echo ------------------------------------------------------------------------------------
AUDIBLE = "天空是蓝色的，因为阳光被散射。"
HEARD = "因为阳光被散射"


def verdict_of(talk: Talk) -> list[Action]:
    talk.asks()
    return talk.hears(HEARD, audible=AUDIBLE)


def test_what_sounds_like_the_answer_is_an_echo() -> None:
    assert verdict_of(candidate(10, echo=True)) == [Resume(), Dismiss(Reason.ECHO, HEARD)]


def test_a_client_that_cancels_its_echo_has_none() -> None:
    assert verdict_of(candidate(10))[:2] == [OpenTurn(0.0), Interrupt()]


def test_an_echo_ends_when_the_client_has_played_what_it_had() -> None:
    # The pause is after 96 ms; the last voice that may be an echo ends 700 ms later.
    for windows, actions in ((24, [Resume(), Dismiss(Reason.ECHO, HEARD)]), (25, None)):
        done = verdict_of(candidate(windows, echo=True, lead_ms=200.0))
        assert done == actions if actions else OpenTurn(0.0) in done


def test_an_answer_that_was_resumed_may_echo_again() -> None:
    talk = candidate(5, echo=True)
    talk.silence(20)
    assert talk.voice(2, level_db=0.0) == []  # no reason to ask anew
    assert talk.voice(1, level_db=0.0) == [Withdraw(), Pause()]
    assert verdict_of(talk) == [Resume(), Dismiss(Reason.ECHO, HEARD)]


def test_nothing_echoes_before_it_is_heard() -> None:
    talk = Talk(echo=True)
    talk.tell(RespondRequested(ASK))
    talk.voice(5)
    assert OpenTurn(0.0) in verdict_of(talk)


def test_the_tail_of_an_echo_comes_after_the_answer() -> None:
    talk = answering(echo=True, echo_tail_ms=500.0)
    talk.tell(AnswerEnded())
    talk.silence(5)
    opened = talk.at
    assert talk.voice(5) == [Listen(opened)]  # nothing plays that could pause
    talk.asks()
    assert talk.hears(HEARD, audible=AUDIBLE) == [Dismiss(Reason.ECHO, HEARD)]
    # After it, a voice is a turn at once.
    talk.silence(10)
    assert talk.voice(3) == [Listen(talk.at - 96.0), OpenTurn(talk.at - 96.0)]


def test_speech_in_the_tail_of_an_echo_takes_over() -> None:
    for windows in (5, 40):
        talk = answering(echo=True)
        talk.tell(AnswerEnded())
        done = talk.voice(windows)
        if windows == 5:
            talk.asks()
            done += talk.hears("明天天气呢？", audible=AUDIBLE)
        assert done[:2] == [Listen(0.0), OpenTurn(0.0)]
        assert Interrupt() not in done


def test_an_answer_that_was_never_heard_has_no_tail() -> None:
    talk = Talk(echo=True)
    talk.tell(RespondRequested(ASK))
    talk.tell(AnswerEnded())
    assert talk.voice(3) == [Listen(0.0), OpenTurn(0.0)]


# --- the answer ends meanwhile ---------------------------------------------------------------
def test_an_answer_that_ended_is_not_resumed() -> None:
    talk = candidate()
    assert talk.tell(AnswerEnded()) == []
    assert talk.silence(20) == [Finalise(1)]
    assert talk.hears("") == [Dismiss(Reason.NOISE)]


def test_a_candidate_whose_answer_ended_may_be_a_turn() -> None:
    talk = candidate(10)
    talk.tell(AnswerEnded())
    assert talk.voice(15) == [OpenTurn(0.0)]
    talk = candidate(10)
    talk.tell(AnswerEnded())
    talk.asks()
    assert talk.hears(SPEECH) == [OpenTurn(0.0), Speculate(1, SPEECH, "zh")]


def test_a_request_acts_on_the_answer_and_leaves_the_candidate() -> None:
    talk = candidate()
    assert talk.tell(RespondRequested(2)) == [Interrupt(), Respond(2)]
    assert talk.state.phase is Phase.CANDIDATE
    assert talk.voice(1) == [Pause()]  # the voice is over that one too
    talk.asks()
    assert talk.hears("嗯") == [Resume(), Dismiss(Reason.BACKCHANNEL, "嗯")]
    talk = candidate()
    assert talk.tell(CancelRequested()) == [Interrupt()]
    talk.asks()
    assert talk.hears("") == [Dismiss(Reason.NOISE)]


def test_agreement_after_the_end_of_an_answer_is_the_reply() -> None:
    for echo, actions in (
        (False, [OpenTurn(0.0), Speculate(1, "好的", "zh")]),
        (True, [Dismiss(Reason.BACKCHANNEL, "好的")]),  # what is likely an echo replies to nothing
    ):
        talk = candidate(echo=echo)
        talk.tell(AnswerEnded())
        talk.asks()
        assert talk.hears("好的") == actions


def test_what_waits_for_the_end_of_the_answer_waits_for_the_verdict() -> None:
    for text, actions in (
        ("", [Dismiss(Reason.NOISE), Respond(2)]),
        (SPEECH, [OpenTurn(0.0)]),
    ):
        talk = candidate(10)
        talk.tell(Called())
        talk.tell(RespondRequested(2))
        talk.tell(RespondRequested(3, aside=True))
        assert talk.tell(AnswerEnded()) == []
        talk.asks()
        assert talk.hears(text) == actions
    # The turn is answered by it.
    assert talk.silence(3)[-1] == Commit(SPEECH, "zh", True, 2)


def test_a_user_who_speaks_over_it_drops_what_waits_for_its_end() -> None:
    talk = candidate(10)
    talk.tell(Called())
    talk.tell(RespondRequested(2))
    talk.asks()
    assert talk.hears(SPEECH)[:3] == [OpenTurn(0.0), Interrupt(), Drop(2)]


# --- the client's word -----------------------------------------------------------------------
def test_a_client_may_withdraw_what_was_said() -> None:
    talk = candidate()
    assert talk.tell(Cleared()) == [Resume(), Dismiss(Reason.WITHDRAWN)]
    talk = candidate()
    talk.asks()
    assert talk.tell(Cleared()) == [Resume(), Withdraw(), Dismiss(Reason.WITHDRAWN)]
    talk = candidate()
    assert talk.tell(Abandoned()) == [Interrupt(), Dismiss(Reason.WITHDRAWN)]


def test_a_client_may_commit_what_was_said() -> None:
    talk = candidate()
    done = talk.tell(ManualCommit())
    assert done == [OpenTurn(0.0), Interrupt(), EndTurn(talk.at, True), Finalise(1)]
    assert talk.hears("嗯") == [Commit("嗯", "zh", False)]


def test_a_commit_after_a_long_silence_is_the_clients_all_the_same() -> None:
    talk = candidate(10)
    talk.silence(40)
    done = talk.tell(ManualCommit())
    assert done == [OpenTurn(0.0), Interrupt(), EndTurn(talk.at, True)]
    assert talk.hears("嗯") == [Commit("嗯", "zh", False)]


def test_a_turn_that_comes_as_text_interrupts() -> None:
    talk = candidate()
    talk.asks()
    assert talk.tell(TextTurn("小智", "zh")) == [
        Withdraw(),
        Dismiss(Reason.WITHDRAWN),
        Interrupt(),
        Commit("小智", "zh", True),
    ]


def test_a_client_that_takes_the_turns_over_keeps_the_verdict() -> None:
    talk = candidate(10)
    talk.configure(server_turns=False)
    talk.asks()
    assert talk.hears(SPEECH) == [OpenTurn(0.0), Interrupt()]
    assert talk.silence(50) == []


def test_playing_is_a_matter_of_an_answer() -> None:
    talk = Talk()
    assert talk.tell(PlaybackStarted()) == []
    assert talk.voice(3) == [Listen(0.0), OpenTurn(0.0)]
