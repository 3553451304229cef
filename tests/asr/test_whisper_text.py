"""Repeats made by the model are found, people's own short repeats and plain text are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.asr.whisper_text import (
    is_subtitle,
    join_pieces,
    repeat_period,
    tidy,
    units,
    without_repeats,
)

ONCE = "播放周杰伦的晴天"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("今天 18 度, OK?", ["今", "天", "18", "度", "ok"]),
        ("I don't know.", ["i", "don't", "know"]),
        ("  ...！", []),
        ("打开AC吧", ["打", "开", "ac", "吧"]),
    ],
)
def test_units(text: str, expected: list[str]) -> None:
    assert units(text) == expected


@pytest.mark.parametrize(
    "text, period",
    [
        ("", 0),
        (ONCE, 0),
        (ONCE * 2, 8),
        (f"{ONCE}, {ONCE}!", 8),
        (ONCE * 3 + "播放周", 8),
        ("希望你以后比我好" + ONCE * 3, 8),
        ("希望你以后比我好" + ONCE * 2, 0),
        ("对对对", 0),
        ("好的好的", 0),
        ("no no no no", 0),
        ("Turn it off. Turn it off.", 3),
        ("the cat sat on the mat and the cat ran", 0),
    ],
)
def test_repeat_period(text: str, period: int) -> None:
    assert repeat_period(text) == period


@pytest.mark.parametrize(
    "text, expected",
    [
        (ONCE * 5 + "播放", ONCE),
        (f"{ONCE}! {ONCE}!", ONCE),
        ("你好，" + ONCE * 3, "你好，" + ONCE),
        ("Turn it off. Turn it off.", "Turn it off"),
    ],
)
def test_without_repeats(text: str, expected: str) -> None:
    assert without_repeats(text, repeat_period(text)) == expected


@given(st.text(alphabet="天地人ab ", min_size=1, max_size=12), st.integers(2, 5))
def test_what_is_cut_is_the_beginning(phrase: str, times: int) -> None:
    text = " ".join([phrase] * times)
    period = repeat_period(text)
    if period:
        once = without_repeats(text, period)
        assert text.startswith(once)
        assert len(units(once)) < len(units(text))


@pytest.mark.parametrize(
    "text",
    ["字幕由志愿者提供", "谢谢观看", "Thanks for watching!", "you", "Bye.", "请订阅我的频道"],
)
def test_subtitles(text: str) -> None:
    assert is_subtitle(text)


@pytest.mark.parametrize("text", ["谢谢你", "thank you for the help", "你好", "are you there"])
def test_not_subtitles(text: str) -> None:
    assert not is_subtitle(text)


def test_tidy_drops_halves_of_characters_and_line_breaks() -> None:
    assert tidy("  播放\n 周\ufffd ") == "播放 周"


@pytest.mark.parametrize(
    "texts, joined",
    [
        ([], ""),
        (["one"], "one"),
        (["one", "two"], "one two"),
        (["一", "二"], "一二"),
        (["一。", "two"], "一。two"),
        (["one", "二"], "one二"),
    ],
)
def test_join_pieces(texts: list[str], joined: str) -> None:
    assert join_pieces(texts) == joined
