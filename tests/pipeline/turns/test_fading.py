"""Invariants: the recogniser is asked as soon as the sound has been gone for long enough, whenever
the detector noticed; a turn ends by the detector's silence alone; in noise both are the detector's.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.turns.actions import Action, EndTurn, Finalise
from pipeline.turns.events import Window
from pipeline.turns.fading import FAINT_DB, Fading, faded
from pipeline.turns.settings import WINDOW_MS
from tests.pipeline.turns.talk import QUIET_DB, VOICE_DB, Talk

LEVELS = st.floats(-120, 0)


def tail(talk: Talk, windows: int, *, level_db: float = QUIET_DB) -> list[Action]:
    """The sound is gone, and the detector still hears it."""
    return talk.voice(windows, level_db=level_db)


def test_what_the_detector_notices_late_counts_for_the_question() -> None:
    talk = Talk(finalise_ms=96, floor_ms=200)
    talk.voice()
    assert tail(talk, 2) == []
    assert talk.silence(1) == [Finalise(1)]  # 96 ms, of which the detector has seen 32


def test_and_not_for_the_end_of_the_turn() -> None:
    talk = Talk(finalise_ms=96, floor_ms=200, speculate=False)
    talk.voice()
    tail(talk, 6)
    talk.silence(1)
    talk.hears("打开灯")
    assert talk.silence(5) == []
    assert isinstance(talk.silence(1)[0], EndTurn)  # 224 ms


def test_while_the_detector_hears_a_voice_nothing_is_asked() -> None:
    talk = Talk(finalise_ms=96)
    talk.voice()
    assert tail(talk, 40) == []


def test_in_noise_the_detector_decides() -> None:
    talk = Talk(finalise_ms=96)
    talk.voice()
    assert tail(talk, 2, level_db=VOICE_DB - FAINT_DB) == []
    assert talk.silence(2) == []
    assert talk.silence(1) == [Finalise(1)]


def test_a_voice_after_it_begins_a_new_silence() -> None:
    talk = Talk(finalise_ms=96)
    talk.voice()
    tail(talk, 2)
    talk.voice(1)
    assert talk.silence(2) == []
    assert talk.silence(1) == [Finalise(1)]


def test_each_turn_has_its_own_loudness() -> None:
    talk = Talk(finalise_ms=96, floor_ms=96, ceiling_ms=96)
    talk.voice()
    talk.silence(3)
    talk.hears("打开灯")
    assert talk.state.fading.voice_db == VOICE_DB
    talk.voice(3, level_db=-50)
    assert talk.state.fading == Fading(voice_db=-50)


@given(levels=st.lists(st.tuples(LEVELS, st.booleans()), max_size=50), first=st.builds(Fading))
def test_the_voice_is_the_loudest_voiced_window_and_the_rest_is_counted(
    levels: list[tuple[float, bool]], first: Fading
) -> None:
    fading, lasting = first, 0
    loudest = first.voice_db
    for level, voiced in levels:
        faint = level < loudest - FAINT_DB
        lasting = lasting + 1 if faint else 0
        loudest = max(loudest, level) if voiced else loudest
        fading = faded(fading, level, voiced=voiced)
        assert fading == Fading(voice_db=loudest, ms=lasting * WINDOW_MS)


def test_windows_before_a_turn_tell_nothing() -> None:
    talk = Talk()
    for at in range(1, 20):
        talk.tell(Window(at * WINDOW_MS, 0.0, -3.0))
    assert talk.state.fading == Fading()
