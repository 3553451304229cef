"""Invariant: every utterance is counted, once, by the definitions in docs/benchmarks.md."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.bench.analysis import (
    Measured,
    answers_after,
    bound_excess_ms,
    by_kind,
    clause_tokens,
    commits,
    engines_s,
    first_audible,
    measured,
    own_summary,
    percentiles,
    ratios,
    summary,
)
from pipeline.bench.wire import News
from pipeline.talk.stereo import RATE, Piece
from services.scripted.spec import INSTANT, parse_spec

SPEC = parse_spec("scripted:asr=60,llm=150@50,tts=150")


def turn(at: float, text: str = "好") -> News:
    return News(at=at, kind="turn", text=text)


def audio(at: float, answer: str) -> News:
    return News(at=at, kind="audio", answer=answer, samples=np.ones(10, np.int16))


def told(at: float, answer: str, **stamps: float) -> News:
    report = {"stamps": stamps, "v2v_server_ms": 400.0, "underruns": 2}
    return News(at=at, kind="report", answer=answer, event={"report": report})


def of(news: list[News], *heard_at: tuple[str, float]) -> Measured:
    return measured(news, clip="c", kind="paused", start=10.0, end=13.0, heard_at=heard_at)


def test_an_answer_after_the_true_end_counts_from_it() -> None:
    found = of([turn(13.3), audio(13.6, "a")], ("a", 13.62))
    assert found.v2v_ms == pytest.approx(620)
    assert not found.cutoff
    assert found.heard == ("好",)
    assert found.parts_ms == {}


def test_a_turn_committed_before_the_true_end_was_cut_off() -> None:
    news = [turn(11.5, "帮我"), audio(11.9, "a"), turn(13.3, "订票"), audio(13.8, "b")]
    found = of(news, ("a", 11.9), ("b", 13.8))
    assert found.cutoff
    assert found.v2v_ms == pytest.approx(800)
    assert found.heard == ("帮我", "订票")


def test_the_answer_to_a_part_is_no_answer_to_the_whole() -> None:
    # It is heard after the end, but answers what was committed before.
    found = of([turn(12.9, "帮我"), audio(13.1, "a")], ("a", 13.1))
    assert found.cutoff
    assert found.v2v_ms is None


@pytest.mark.parametrize(
    "news",
    [
        [],
        [turn(13.3)],
        [turn(13.3, ""), audio(13.5, "a")],
        [News(at=13.2, kind="opened"), turn(13.3), audio(13.5, "silent")],
    ],
)
def test_an_utterance_after_which_nothing_is_heard_was_missed(news: list[News]) -> None:
    found = of(news)
    assert found.v2v_ms is None
    assert not found.cutoff
    assert found.stamps == {}


def test_what_was_before_the_utterance_is_not_its_own() -> None:
    assert commits([turn(9.0), turn(10.0, ""), turn(11.0)], start=10.0)[0].at == 11.0
    # An answer that begins before any turn is committed answers none.
    assert answers_after([audio(13.1, "greeting"), turn(13.3)], end=13.0) == []
    late = [turn(13.3), audio(13.6, "a"), audio(13.7, "a"), turn(14.0), audio(14.1, "b")]
    assert answers_after(late, end=13.0) == ["a", "b"]


def test_stamps_sum_to_voice_to_voice_and_are_never_later_than_the_sound() -> None:
    stamps = {"received": 13.01, "endpoint": 13.3, "sent": 13.65, "audible": 13.7}
    news = [
        turn(13.31),
        News(at=13.4, kind="text", answer="a", text="你"),
        News(at=13.5, kind="text", answer="a", text="好"),
        audio(13.62, "a"),
        told(15.0, "b"),
        told(15.0, "a", **stamps),
    ]
    found = of(news, ("a", 13.62))
    assert found.stamps["sent"] == found.stamps["audible"] == found.stamps["heard"] == 13.62
    assert sum(found.parts_ms.values()) == pytest.approx(found.v2v_ms)
    assert (found.answer, found.underruns, found.v2v_server_ms) == ("你好", 2, 400.0)
    assert found.to_json()["parts_ms"]["endpoint_wait"] == pytest.approx(290)


def test_the_first_audible_sample_is_found_across_pieces() -> None:
    quiet, loud = np.zeros(RATE // 10, np.int16), np.full(RATE // 10, 5000, np.int16)
    pieces = [
        Piece(start=1000, samples=quiet, source="a"),
        Piece(start=9000, samples=loud, source="a"),
    ]
    assert first_audible(pieces) == pytest.approx(9000, abs=RATE // 100)
    assert first_audible(pieces[:1]) is None
    assert first_audible([]) is None


# --- the bound --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        ("好的，我现在就看。", 6),  # 好的 ， 我现 在就 看 。
        ("明天多云转晴，最高气温二十三度。", 4),
        ("没有标点", 2),
        ("", 0),
    ],
)
def test_tokens_of_the_first_clause(answer: str, tokens: int) -> None:
    assert clause_tokens(answer) == tokens


def test_what_the_engines_take() -> None:
    assert engines_s(SPEC, "明天多云转晴，最高气温二十三度。") == pytest.approx(
        0.06 + 0.15 + 3 / 50 + 0.15
    )
    assert engines_s(INSTANT, "好。") == 0
    assert engines_s(parse_spec("scripted:asr=60"), "") == pytest.approx(0.06)


def stamped(**stamps: float) -> Measured:
    return Measured(
        clip="c",
        kind="command",
        v2v_ms=500.0,
        cutoff=False,
        answer="明天多云转晴，出门不用带伞。",
        stamps=stamps,
    )


@pytest.mark.parametrize(
    ("stamps", "excess"),
    [
        # the engines decide: asked + 420 ms
        ({"asked": 1.0, "endpoint": 1.2, "sent": 1.43}, 10),
        # the decision does
        ({"asked": 1.0, "endpoint": 1.9, "sent": 1.904}, 4),
        ({"endpoint": 1.2, "sent": 1.4}, None),
    ],
)
def test_excess_over_the_bound(stamps: dict[str, float], excess: float | None) -> None:
    found = bound_excess_ms(stamped(**stamps), SPEC)
    assert found == (None if excess is None else pytest.approx(excess))


# --- many -------------------------------------------------------------------------------------
def test_percentiles_pass_over_what_was_missed() -> None:
    assert percentiles([None, 100.0, 300.0, None, 200.0]) == {
        "p50": 200.0,
        "p90": 280.0,
        "p95": 290.0,
        "p99": 298.0,
        "max": 300.0,
    }
    assert set(percentiles([None]).values()) == {None}


def case(v2v_ms: float | None, *, cutoff: bool = False, kind: str = "command") -> Measured:
    return Measured(clip="c", kind=kind, v2v_ms=v2v_ms, cutoff=cutoff)


def test_rates_are_shares_of_all_utterances() -> None:
    turns = [case(400.0), case(None), case(600.0, cutoff=True, kind="paused"), case(500.0)]
    found = summary(turns)
    assert found["turns"] == 4
    assert (found["false_cutoff_rate"], found["missed_rate"]) == (0.25, 0.25)
    assert found["v2v"]["p50"] == 500
    kinds = by_kind(turns)
    assert [*kinds] == ["command", "paused"]
    assert kinds["paused"]["false_cutoff_rate"] == 1.0
    assert summary([])["missed_rate"] == 0.0


def test_the_gate_counts_where_audio_was_ready() -> None:
    ready = stamped(asked=1.0, chunk=1.1, endpoint=1.2, final=1.05, sent=1.203)
    late = stamped(asked=1.0, chunk=1.5, endpoint=1.2, final=1.3, sent=1.51)
    found = own_summary([ready, late, case(None)], spec=INSTANT, speculation=True)
    assert found["commit_to_byte_ms"]["p50"] == pytest.approx(3)
    assert found["ready_at_gate_rate"] == 0.5
    assert found["framework_ms"]["p50"] is None
    assert found["bound_excess_ms"]["max"] == pytest.approx(310)
    assert found["missed_rate"] == pytest.approx(0.3333)


def test_the_framework_counts_without_speculation() -> None:
    one = stamped(endpoint=1.2, final=1.26, sent=1.27)
    other = stamped(endpoint=1.2, final=1.1, sent=1.214)
    found = own_summary([one, other], spec=None, speculation=False)
    assert found["framework_ms"]["p50"] == pytest.approx(12)
    assert found["bound_excess_ms"]["p95"] is None
    assert found["commit_to_byte_ms"]["p50"] is None


def test_ratios_are_of_medians() -> None:
    peers = {"default": summary([case(1000.0)]), "timeout": summary([case(None)])}
    assert ratios(summary([case(600.0)]), peers) == {"default": 0.6, "timeout": None}
    assert ratios(summary([]), peers) == {"default": None, "timeout": None}


def test_audio_without_a_decision_was_not_ready() -> None:
    assert not stamped(sent=1.0).ready_at_gate
