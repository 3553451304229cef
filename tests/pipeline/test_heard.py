"""Invariants: heard text is a prefix of the raw answer, cut at the end of the last unit that was
spoken completely, however uneven the units; more is heard the more is played; what is audible is a
run of the words that were spoken.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.heard import SpokenText
from tts_engine.engine import Mark
from tts_engine.text.clause import Clause

RATE = 1000  # so that samples are milliseconds


def clause(text: str, raw: str | None = None, ends: tuple[int, ...] | None = None) -> Clause:
    raw = text if raw is None else raw
    return Clause(text=text, raw=raw, ends=ends or tuple(range(1, len(text) + 1)))


def say(spoken: SpokenText, what: Clause, *ends_ms: int, at_ms: float) -> None:
    """A clause whose characters end at these times of it."""
    spoken.begin(what, at_ms=at_ms)
    spoken.mark(tuple(Mark(end, i + 1) for i, end in enumerate(ends_ms)), sample_rate=RATE)


def test_a_number_is_heard_when_its_last_syllable_was() -> None:
    spoken = SpokenText()
    text = Clause(text="百分之五。", raw="**5%**。", ends=(0, 0, 0, 6, 7))
    say(spoken, text, 100, 200, 300, 400, 500, at_ms=0)
    assert [spoken.heard(ms) for ms in (399, 400, 500)] == ["", "**5%**", "**5%**。"]


def test_a_word_is_heard_whole_or_not_at_all() -> None:
    spoken = SpokenText()
    spoken.begin(clause("Good morning"), at_ms=0)
    spoken.mark((Mark(300, 5), Mark(900, 12)), sample_rate=RATE)
    assert [spoken.heard(ms) for ms in (299, 300, 899, 900)] == [
        "",
        "Good ",
        "Good ",
        "Good morning",
    ]


def test_what_the_voice_could_not_make_was_passed_over() -> None:
    spoken = SpokenText()
    say(spoken, clause("一二三。"), 100, 200, at_ms=0)  # broke off
    say(spoken, clause("四五。"), at_ms=200)  # gave nothing
    assert spoken.heard(200) == "一二"
    say(spoken, clause("六。"), 100, 200, at_ms=200)
    assert spoken.heard(299) == "一二"
    assert spoken.heard(300) == "一二三。四五。六"


def test_what_follows_a_broken_end_was_not_heard() -> None:
    spoken = SpokenText()
    say(spoken, clause("一二三。"), 100, 200, at_ms=0)
    spoken.finish("```x```", at_ms=200)
    assert spoken.heard(1000) == "一二"


def test_an_answer_that_nobody_speaks_is_heard_when_it_is_over() -> None:
    spoken = SpokenText()
    assert spoken.heard(0) == ""
    spoken.finish("🙂", at_ms=0)
    assert spoken.heard(0) == "🙂"


def test_an_apology_is_audible_and_no_part_of_the_answer() -> None:
    spoken = SpokenText()
    say(spoken, clause("好。"), 100, 200, at_ms=0)
    say(spoken, Clause(text="抱歉", raw="", ends=(0, 0)), 100, 200, at_ms=200)
    spoken.finish("\n", at_ms=400)
    assert spoken.heard(400) == "好。\n"
    assert spoken.audible(0, 400) == "好。 抱歉"


def test_units_that_sound_in_part_are_audible() -> None:
    spoken = SpokenText()
    say(spoken, clause("一二三"), 100, 200, 300, at_ms=50)
    say(spoken, clause("四五"), 100, 200, at_ms=350)
    for (since, until), text in {
        (0, 50): "",
        (0, 51): "一",
        (0, 150): "一",
        (0, 151): "一二",
        (150, 400): "二三 四",
        (149, 250): "一二",
        (-500, 9999): "一二三 四五",
        (9999, 400): "",
        (410, 400): "",
    }.items():
        assert spoken.audible(since, until) == text, (since, until)


def test_a_clause_without_audio_is_not_audible() -> None:
    spoken = SpokenText()
    spoken.begin(clause("读"), at_ms=0)
    spoken.mark((Mark(0, 1),), sample_rate=RATE)
    spoken.begin(clause("不"), at_ms=0)
    assert spoken.heard(0) == "读"
    assert spoken.audible(0, 0) == ""


@dataclass(frozen=True)
class Told:
    """A clause as a voice gave it: how long each of its units is, and where it broke off."""

    clause: Clause
    lengths: list[int]
    sizes: list[int]
    made: int


@st.composite
def answers(draw: st.DrawFn) -> list[Told]:
    """Answers whose spoken text is longer or shorter than the raw one, with broken clauses."""
    result: list[Told] = []
    for number in range(draw(st.integers(1, 5))):
        size = draw(st.integers(1, 8))
        text = "".join(chr(0x4E00 + number * 16 + i) for i in range(size))
        raw = "".join(chr(0x61 + (number * 7 + i) % 26) for i in range(draw(st.integers(0, 12))))
        ends = sorted(draw(st.lists(st.integers(0, len(raw)), min_size=size, max_size=size)))
        ends[-1] = len(raw)
        sizes: list[int] = []
        while sum(sizes) < size:
            sizes.append(min(draw(st.integers(1, 3)), size - sum(sizes)))
        lengths = draw(st.lists(st.integers(1, 400), min_size=len(sizes), max_size=len(sizes)))
        made = draw(st.sampled_from([len(sizes), len(sizes), draw(st.integers(0, len(sizes)))]))
        result.append(Told(Clause(text=text, raw=raw, ends=tuple(ends)), lengths, sizes, made))
    return result


def spoken_answer(answer: list[Told]) -> tuple[SpokenText, float]:
    spoken, at = SpokenText(), 0.0
    for told in answer:
        spoken.begin(told.clause, at_ms=at)
        sample = chars = 0
        for length, size in list(zip(told.lengths, told.sizes, strict=True))[: told.made]:
            sample, chars = sample + length, chars + size
            spoken.mark((Mark(sample, chars),), sample_rate=RATE)
        at += sample
    return spoken, at


@settings(deadline=None)
@given(answers(), st.floats(0, 10_000), st.floats(0, 500), st.sampled_from(["", "\n\n"]))
def test_heard_text_is_always_a_prefix(
    answer: list[Told], played: float, more: float, tail: str
) -> None:
    spoken, length = spoken_answer(answer)
    raw = "".join(told.clause.raw for told in answer)
    spoken.finish(tail, at_ms=length)
    heard, later = spoken.heard(played), spoken.heard(played + more)
    assert (raw + tail).startswith(heard)
    assert later.startswith(heard)
    if all(told.made == len(told.sizes) for told in answer):
        assert spoken.heard(length) == raw + tail
    # it ends where a unit ends
    places = {0, len(raw), len(raw + tail)}
    start = 0
    for told in answer:
        chars = 0
        for size in told.sizes:
            chars += size
            places.add(start + told.clause.ends[chars - 1])
        start += len(told.clause.raw)
    assert len(heard) in places


@settings(deadline=None)
@given(answers(), st.floats(-500, 5000), st.floats(0, 5000))
def test_what_is_audible_is_what_was_spoken(
    answer: list[Told], since: float, length: float
) -> None:
    spoken, end = spoken_answer(answer)
    text = " ".join(told.clause.text[: sum(told.sizes[: told.made])] for told in answer)
    audible = spoken.audible(since, since + length).replace(" ", "")
    assert audible in text.replace(" ", "")
    if since <= 0 and since + length > end:
        assert audible == text.replace(" ", "")


@pytest.mark.parametrize("played", [0.0, 99.9])
def test_nothing_is_heard_before_the_first_unit_is_over(played: float) -> None:
    spoken = SpokenText()
    say(spoken, clause("好"), 100, at_ms=0)
    assert spoken.heard(played) == ""
