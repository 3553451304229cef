"""v2v is a distance on the recording; parts sum to it on one clock, and to less on two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.talk.stereo import RATE, StereoRecording
from pipeline.talk.turn import ClientTurn, measure
from services.scripted.speech import synthetic_speech

BEGAN = 1000.0


def recording(
    turn: ClientTurn, *, voice_s: float = 1.0, answer_at_s: float = 2.0
) -> StereoRecording:
    """Voice from 0 to `voice_s`, silence up to 3 s; an answer with 100 ms of silence before it."""
    made = StereoRecording()
    voice = synthetic_speech(seconds=voice_s, rate=RATE, tail_s=3 - voice_s)
    made.sent = list(voice.reshape(-1, RATE // 50))
    answer = synthetic_speech(seconds=1, rate=RATE, lead_s=0.1)
    made.heard.arrive(round(answer_at_s * RATE), answer, turn)
    return made


def turn(*, same_clock: bool = True, **stamps: float) -> ClientTurn:
    return ClientTurn(report={"stamps": stamps, "v2v_server_ms": 1080.04}, same_clock=same_clock)


def row_of(turn: ClientTurn) -> dict[str, Any]:
    return measure(turn, recording(turn), began=BEGAN)


ALL = {
    "received": 1001.01,
    "vad": 1001.03,
    "endpoint": 1001.25,
    "final": 1001.2,  # speculation: it was there before the decision
    "sent": 1002.0,
    "audible": 1002.1,
}


def test_parts_sum_to_v2v() -> None:
    row = row_of(turn(**ALL))
    assert row["v2v_ms"] == 1100.0
    assert row["v2v_server_ms"] == 1080.0
    assert sum(row["parts_ms"].values()) == pytest.approx(1100.0, abs=0.6)
    assert row["parts_ms"]["endpoint_wait"] == pytest.approx(220)
    assert row["parts_ms"]["asr_final"] == 0
    assert list(row["stamps_s"]) == ["voiced_end", *ALL, "heard"]
    assert row["audio_s"] == 1.1


def test_a_stamp_behind_the_sound_adds_nothing() -> None:
    row = row_of(turn(**ALL | {"sent": 1002.3}))
    assert row["v2v_ms"] == 1100.0
    assert sum(row["parts_ms"].values()) == pytest.approx(1100.0, abs=0.6)
    assert row["parts_ms"]["frame_out"] == 0


def test_voice_after_the_decision_is_not_of_this_turn() -> None:
    seen = turn(**ALL)
    late = recording(seen)
    late.sent[75:80] = list(synthetic_speech(seconds=0.1, rate=RATE).reshape(-1, RATE // 50))
    assert measure(seen, late, began=BEGAN)["v2v_ms"] == 1100.0
    # Without a common clock nobody knows when the decision was.
    seen.same_clock = False
    apart = measure(seen, late, began=BEGAN)
    assert apart["v2v_ms"] == 500.0


def test_another_clock_leaves_v2v_and_the_inner_parts() -> None:
    shifted = {name: at - 5e5 for name, at in ALL.items()}
    row = row_of(turn(same_clock=False, **shifted))
    assert row["v2v_ms"] == 1100.0
    assert {*row["parts_ms"]} == {
        "vad_lag", "endpoint_wait", "asr_final", "gate_wait", "leading_silence"
    }  # fmt: skip
    assert sum(row["parts_ms"].values()) == pytest.approx(1090, abs=0.6)
    assert row["stamps_s"] == {}


def test_a_server_without_reports_leaves_v2v() -> None:
    row = row_of(ClientTurn())
    assert (row["v2v_ms"], row["v2v_server_ms"], row["parts_ms"]) == (1100.0, None, {})


def test_a_pause_is_no_audio() -> None:
    seen = turn(**ALL)
    made = recording(seen)
    made.heard.pause(round(2.5 * RATE))
    made.heard.resume(round(2.8 * RATE))
    row = measure(seen, made, began=BEGAN)
    assert (row["v2v_ms"], row["audio_s"]) == (1100.0, 1.1)


def test_no_answer_is_no_v2v() -> None:
    silent = ClientTurn(transcript="喂")
    row = measure(silent, recording(ClientTurn()), began=BEGAN)
    assert (row["v2v_ms"], row["parts_ms"], row["audio_s"]) == (None, {}, 0.0)


def test_silence_is_no_answer() -> None:
    seen = turn(**ALL)
    silent = recording(ClientTurn())
    silent.heard.flush(0)
    silent.heard.arrive(2 * RATE, np.zeros(RATE, np.int16), seen)
    assert measure(seen, silent, began=BEGAN)["v2v_ms"] is None
    deaf = recording(seen)
    deaf.sent = []
    assert measure(seen, deaf, began=BEGAN)["v2v_ms"] is None
