"""Invariants: what is known of the echo rises by one sound only so far, and fades while no echo is
as loud; a voice that stands out pauses the answer, the echo does not; nothing is learnt of a client
that cancels its echo; and whatever was learnt, a voice that lasts takes its turn.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.turns.actions import (
    Dismiss,
    Finalise,
    Interrupt,
    Listen,
    OpenTurn,
    Pause,
    Reason,
    Resume,
)
from pipeline.turns.events import AnswerEnded, FinalFailed, Muted, PartialText
from pipeline.turns.loudness import (
    FADE_DB_S,
    FAINTEST_DB,
    HEARD_MS,
    MARGIN_DB,
    MOST_HEARD_MS,
    OUTWEIGHED,
    RISE_DB,
    SILENT_FADE_DB_S,
    UNHEARD_MS,
    Loudness,
    begun,
    has_none,
    heard,
    lasted,
    not_heard,
    perhaps_echo,
    stands_out,
    was_echo,
    was_voice,
)
from pipeline.turns.settings import WINDOW_MS
from pipeline.turns.state import Phase
from tests.pipeline.turns.talk import Talk

#: of an echo, decibels of full scale
ECHO_DB = -30.0
LEVELS = st.floats(-120, 0)
KNOWN = st.builds(
    Loudness,
    echo_db=st.none() | st.floats(FAINTEST_DB, 0, exclude_min=True),
    before_db=st.none() | st.floats(FAINTEST_DB, 0, exclude_min=True),
    loudest_db=LEVELS,
    heard_ms=st.floats(0, 5000),
    unheard_ms=st.floats(0, 5000),
)


# --- what is known ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    "echo_db, level_db, out",
    [
        (None, -90.0, True),
        (ECHO_DB, ECHO_DB, False),
        (ECHO_DB, ECHO_DB + MARGIN_DB - 0.1, False),
        (ECHO_DB, ECHO_DB + MARGIN_DB, True),
    ],
)
def test_a_voice_stands_out_if_it_is_clearly_louder(
    echo_db: float | None, level_db: float, out: bool
) -> None:
    assert stands_out(Loudness(echo_db=echo_db), level_db) is out


@pytest.mark.parametrize(
    "echo_db, loudest_db, learnt_db",
    [
        (None, -25.0, -25.0),
        (None, -75.0, None),
        (ECHO_DB, -27.0, -27.0),
        (ECHO_DB, ECHO_DB + RISE_DB + 9, ECHO_DB + RISE_DB),
        (ECHO_DB, -40.0, ECHO_DB),
    ],
)
def test_an_echo_tells_how_loud_the_next_one_is(
    echo_db: float | None, loudest_db: float, learnt_db: float | None
) -> None:
    known = begun(Loudness(echo_db=echo_db, unheard_ms=500.0), -80.0)
    known = was_echo(lasted(lasted(known, loudest_db), -80.0))
    assert (known.echo_db, known.unheard_ms) == (learnt_db, 0.0)
    assert was_echo(known) == known  # it tells that once
    assert was_voice(known).echo_db == echo_db


@pytest.mark.parametrize(
    "echo_db, heard_db, then_db",
    [
        (ECHO_DB, -50.0, ECHO_DB - FADE_DB_S),
        (ECHO_DB, ECHO_DB - 1, ECHO_DB - 1),
        (ECHO_DB, ECHO_DB + 2, ECHO_DB + 2),
        (FAINTEST_DB + 0.1, -70.0, None),
        (None, -20.0, -20.0),
        (None, -70.0, None),
    ],
)
def test_what_is_known_fades_in_a_second_to_what_is_heard(
    echo_db: float | None, heard_db: float, then_db: float | None
) -> None:
    known = heard(Loudness(echo_db=echo_db, unheard_ms=500.0), heard_db, for_ms=1000.0)
    assert known == Loudness(echo_db=then_db, heard_ms=1000.0)


@pytest.mark.parametrize(
    "echo_db, then_db",
    [(ECHO_DB, ECHO_DB - SILENT_FADE_DB_S), (FAINTEST_DB + 0.1, None), (None, None)],
)
def test_what_is_known_fades_in_a_second_without_a_sound(
    echo_db: float | None, then_db: float | None
) -> None:
    known = Loudness(echo_db=echo_db, heard_ms=1000.0 + HEARD_MS)
    assert not_heard(known, for_ms=1000.0, lead_ms=0.0).echo_db == then_db


def test_an_answer_that_plays_and_is_not_heard_has_no_echo() -> None:
    known = Loudness(echo_db=ECHO_DB, heard_ms=HEARD_MS - 1)
    known = not_heard(known, for_ms=UNHEARD_MS + 200 - 1, lead_ms=200.0)
    assert not has_none(known, lead_ms=200.0)
    assert known.echo_db is not None
    known = not_heard(known, for_ms=1.0, lead_ms=200.0)
    assert has_none(known, lead_ms=200.0)
    assert known.echo_db is None
    assert has_none(was_voice(begun(known, -20.0)), lead_ms=200.0)
    assert not has_none(perhaps_echo(known), lead_ms=200.0)
    assert not has_none(heard(known, -40.0, for_ms=1.0), lead_ms=200.0)


def test_an_answer_of_one_that_echoes_may_wait_for_its_voice() -> None:
    known = heard(Loudness(echo_db=ECHO_DB), ECHO_DB, for_ms=1e6)
    wait_ms = OUTWEIGHED * (MOST_HEARD_MS - HEARD_MS)
    known = not_heard(known, for_ms=wait_ms, lead_ms=0.0)
    assert not has_none(known, lead_ms=0.0)
    assert known.echo_db is not None
    # But not for ever: somebody has put a headset on.
    assert has_none(not_heard(known, for_ms=1.0, lead_ms=0.0), lead_ms=0.0)


@given(KNOWN, LEVELS, LEVELS)
def test_bounds(known: Loudness, level_db: float, next_db: float) -> None:
    learnt = was_echo(lasted(begun(known, level_db), next_db))
    if known.echo_db is not None:
        assert learnt.echo_db is not None
        assert known.echo_db <= learnt.echo_db <= known.echo_db + RISE_DB
    silent = not_heard(known, for_ms=WINDOW_MS, lead_ms=0.0)
    for after in (learnt, silent, heard(known, level_db, for_ms=WINDOW_MS)):
        assert after.echo_db is None or after.echo_db > FAINTEST_DB


# --- in a conversation -----------------------------------------------------------------------
def echoing(**settings: object) -> Talk:
    """A core whose answer plays, and was heard, paused, and recognised as its echo."""
    talk = Talk(echo=True, **settings)
    talk.answers()
    assert talk.voice(6, level_db=ECHO_DB) == [Pause(), Listen(0.0)]
    talk.asks()
    assert talk.hears("天") == [Resume(), Dismiss(Reason.ECHO, "天")]
    return talk


def test_an_echo_that_is_no_louder_pauses_nothing_any_more() -> None:
    talk = echoing()
    assert talk.voice(50, level_db=ECHO_DB + MARGIN_DB - 1) == []
    assert talk.state.phase is Phase.IDLE


def test_a_voice_that_is_louder_does() -> None:
    talk = echoing()
    talk.voice(50, level_db=ECHO_DB - 2)
    began = talk.at
    assert talk.voice(2, level_db=ECHO_DB + MARGIN_DB) == []
    assert talk.voice(1, level_db=ECHO_DB + MARGIN_DB) == [Pause(), Listen(began)]
    # And all of it counts while the answer is paused.
    talk.voice(20, level_db=ECHO_DB - 10)
    talk.asks()
    assert talk.hears("今天天气怎么样？")[:2] == [OpenTurn(began), Interrupt()]


def test_what_was_somebodys_is_not_learnt() -> None:
    talk = echoing()
    talk.voice(20, level_db=-10.0)
    talk.silence(10)  # the answer goes on meanwhile
    assert talk.state.loudness.echo_db == ECHO_DB + RISE_DB
    talk.tell(PartialText("今天天气怎么样？"))
    assert talk.state.phase is Phase.SPEAKING
    assert talk.state.loudness.echo_db == pytest.approx(ECHO_DB, abs=0.1)


def test_a_late_verdict_does_not_make_the_answer_halt_again() -> None:
    talk = Talk(echo=True)
    talk.answers()
    talk.voice(6, level_db=ECHO_DB)
    assert talk.silence(10) == [Finalise(1), Resume()]
    assert talk.voice(50, level_db=ECHO_DB) == []
    assert talk.hears("天") == [Dismiss(Reason.ECHO, "天")]


@pytest.mark.parametrize("known", [False, True])
def test_a_scrap_of_a_text_is_an_echo_and_an_order_is_none(known: bool) -> None:
    for text, actions in (
        ("你们的", [Resume(), Dismiss(Reason.ECHO, "你们的")]),
        ("停", [OpenTurn(0.0), Interrupt()]),
        ("你们的眼睛", [OpenTurn(0.0), Interrupt()]),
    ):
        talk = echoing() if known else Talk(echo=True)
        if not known:
            talk.answers()
        began = talk.at
        talk.voice(6, level_db=-10.0)
        talk.asks()
        wanted = [OpenTurn(began) if isinstance(each, OpenTurn) else each for each in actions]
        assert talk.hears(text)[: len(wanted)] == wanted


def silent_for_long(**settings: object) -> Talk:
    """A core whose answer has played for so long that it would have been heard."""
    talk = Talk(echo=True, **settings)
    talk.answers()
    talk.silence(40)
    return talk


def test_a_client_without_an_echo_is_heard_like_one_that_cancels_it() -> None:
    talk = silent_for_long()
    began = talk.at
    talk.voice(6)
    talk.asks()
    assert talk.hears("为什么")[:2] == [OpenTurn(began), Interrupt()]
    talk = silent_for_long()
    talk.voice(24)
    assert talk.voice(1) == [OpenTurn(began), Interrupt()]  # 800 ms
    # Nothing is learnt from a cough.
    talk = silent_for_long()
    talk.voice(6, level_db=-5.0)
    talk.asks()
    assert talk.hears("") == [Resume(), Dismiss(Reason.NOISE)]
    assert talk.state.loudness.echo_db is None
    # But it may have been the first of an echo that came late.
    talk.voice(6, level_db=ECHO_DB)
    talk.asks()
    assert talk.hears("天") == [Resume(), Dismiss(Reason.ECHO, "天")]
    assert talk.state.loudness.echo_db == ECHO_DB
    # If it was not, that is forgotten as soon as the answer plays and is not heard.
    talk.silence(40)
    assert talk.state.loudness.echo_db is None


def test_a_microphone_that_is_off_tells_nothing_of_the_echo() -> None:
    talk = Talk(echo=True)
    talk.answers()
    talk.tell(Muted(True))
    assert talk.voice(100) == []
    assert talk.state.loudness == Loudness()


def test_a_recogniser_that_fails_tells_nothing_of_the_echo() -> None:
    talk = Talk(echo=True)
    talk.answers()
    talk.voice(6)
    talk.asks()
    assert talk.tell(FinalFailed(1)) == [Resume(), Dismiss(Reason.FAILED)]
    assert talk.state.loudness.echo_db is None


def test_the_end_of_an_echo_opens_no_turn() -> None:
    talk = echoing()
    talk.tell(AnswerEnded())
    assert talk.voice(10, level_db=ECHO_DB) == []
    talk.silence(6)
    # After it, a voice as loud as that is a turn at once.
    assert talk.voice(3, level_db=ECHO_DB)[-1] == OpenTurn(talk.at - 96.0)


def test_a_client_that_cancels_its_echo_learns_nothing() -> None:
    talk = Talk()
    talk.answers()
    for level_db in (-10.0, -60.0):
        talk.voice(6, level_db=level_db)
        talk.asks()
        assert talk.hears("") == [Resume(), Dismiss(Reason.NOISE)]
    assert talk.state.loudness.echo_db is None
    assert not talk.state.echo


@given(
    st.lists(st.tuples(LEVELS, st.integers(1, 20), st.integers(0, 12)), max_size=12),
    st.sampled_from(["", "天", "嗯"]),
)
def test_a_voice_that_lasts_takes_its_turn_whatever_was_learnt(
    sounds: list[tuple[float, int, int]], text: str
) -> None:
    talk = Talk(echo=True)
    talk.answers()
    for level_db, voiced, silent in sounds:
        done = [*talk.voice(voiced, level_db=level_db), *talk.silence(silent)]
        if any(isinstance(each, Finalise) for each in done):
            talk.hears(text)
    # Louder than all that can have been learnt, it pauses the answer, lasts longer than any echo,
    # and then as long as anybody has to.
    talk.voice(3 + 22 + 25, level_db=MARGIN_DB)
    assert talk.state.phase is Phase.SPEAKING
    assert talk.state.answer is None
