"""Errors are counted in one form of both texts, and nothing that is spoken is lost in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.bench.asr_score import Edits, normalised, scored, total, worst

TEXT = st.text(st.sampled_from("打开灯嗯十二24 ,，。%aB'’-1"), max_size=20)


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("歡迎大家，來體驗！", "欢迎大家来体验"),
        ("嗯，那个……打开灯", "嗯那个打开灯"),
        ("２４个", "二十四个"),
        ("2024年5月1日", "二零二四年五月一日"),
        ("涨了３．５％", "涨了百分之三点五"),
        ("打开 Wi-Fi 吧", "打开wifi吧"),
        ("ＡＢＣ", "abc"),
        ("", ""),
        ("。", ""),
    ],
)
def test_chinese(written: str, form: str) -> None:
    assert normalised(written, "zh") == form


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("He was NOT, an ill-disposed man.", "he was not an ill disposed man"),
        ("Don’t say 'uh'!", "don't say uh"),
        ("I have 21 cats", "i have twenty one cats"),
        ("covid19", "covid nineteen"),
        ("the 1st of May", "the first of may"),
        ("snake_case", "snake case"),
    ],
)
def test_english(written: str, form: str) -> None:
    assert normalised(written, "en") == form


@given(TEXT, st.sampled_from(["zh", "en"]))
def test_a_form_is_letters_and_single_spaces(text: str, language: str) -> None:
    form = normalised(text, language)
    assert all(char.isalnum() or char in " '" for char in form)
    assert form == " ".join(form.split())
    assert form == form.lower()
    if language == "zh":
        assert " " not in form


@given(TEXT, TEXT, st.sampled_from(["zh", "en"]))
def test_edits_lead_from_one_to_the_other(said: str, heard: str, language: str) -> None:
    edits = scored(name="a", language=language, said=said, heard=heard).edits

    def units(text: str) -> int:
        form = normalised(text, language)
        return len(form) if language == "zh" else len(form.split())

    assert edits.units == units(said)
    assert edits.hits + edits.substitutions + edits.insertions == units(heard)
    assert (edits.errors == 0) == (normalised(said, language) == normalised(heard, language))


def test_what_went_wrong_is_marked() -> None:
    line = scored(name="a", language="zh", said="打开客厅的灯。", heard="打开客厅等了")
    assert line.edits == Edits(hits=4, substitutions=2)
    assert line.marked == "打开客厅[的灯→等了]"
    line = scored(
        name="a", language="en", said="one two three four", heard="one three four five six"
    )
    assert line.edits == Edits(hits=3, deletions=1, insertions=2)
    assert line.marked == "one [two→] three four [→five six]"


def test_the_same_in_other_words_is_right() -> None:
    assert scored(name="a", language="zh", said="二十四小時", heard="24小时").edits.rate == 0


def test_what_is_heard_in_noise_is_too_much() -> None:
    line = scored(name="a", language="", said="", heard="谢谢 thanks")
    assert line.edits == Edits(insertions=8)
    assert line.edits.rate is None
    assert scored(name="a", language="", said="", heard="").edits == Edits()


def test_all_of_them() -> None:
    pairs = [("one two", "one"), ("three", "three"), ("four five six", "for fife six"), ("a", "b")]
    lines = [scored(name=said, language="en", said=said, heard=heard) for said, heard in pairs]
    assert total(lines) == Edits(hits=3, substitutions=3, deletions=1)
    assert total(lines).rate == 4 / 7
    assert [each.name for each in worst(lines, 2)] == ["four five six", "a"]
    assert total([]).rate is None
