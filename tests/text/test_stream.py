"""Clauses depend on the text alone, keep all of the raw answer, come early, and are bounded."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.text.cases import clauses, hidden, markup, numbers, styles
from tts_engine.text.clause import Clause
from tts_engine.text.stream import ClauseStream, segment

FRAGMENTS = [
    *(row[0] for table in (clauses, hidden, markup, numbers, styles) for row in table.CASES),
    *"。，！？…、；：“”（）\n .!?,;:'\"$¥%-~*_`#|[](){}<>/\\&@+=^°×→😊²·—1",
    *(
        "```",
        "**",
        "https://a.b/c",
        "<think>",
        "</think>",
        '{"name":',
        "](",
        "![",
        "1. ",
        "你们",
        "ab",
    ),
]
answers = st.one_of(
    st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join),
    st.text(max_size=80),
)


def stream_of(tokens: list[str]) -> tuple[list[Clause], ClauseStream]:
    stream = ClauseStream()
    found = [clause for token in tokens for clause in stream.push(token)]
    return found + stream.flush(), stream


def cut_up(text: str, places: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[a:b] for a, b in pairwise(edges)]


def check(found: list[Clause]) -> None:
    for at, clause in enumerate(found):
        assert any(char.isalnum() for char in clause.text)
        assert clause.text == clause.text.strip()
        assert len(clause.ends) == len(clause.text)
        assert list(clause.ends) == sorted(clause.ends)
        assert clause.ends[0] >= 0
        assert clause.ends[-1] == len(clause.raw)
        assert clause.heard(len(clause.text)) == clause.raw
        assert clause.first == (at == 0)


@given(answers, st.lists(st.integers(0, 500), max_size=20))
@settings(max_examples=300, deadline=None)
def test_tokens_do_not_matter(text: str, places: list[int]) -> None:
    whole, _ = stream_of([text])
    assert stream_of(list(text))[0] == whole
    assert stream_of(cut_up(text, places))[0] == whole


@given(answers)
@settings(max_examples=500, deadline=None)
def test_nothing_of_the_answer_is_lost(text: str) -> None:
    found, stream = stream_of([text])
    check(found)
    assert "".join(clause.raw for clause in found) + stream.tail == stream.raw
    whole = segment(text)
    check(whole)
    assert not whole or "".join(clause.raw for clause in whole) == stream.raw
    assert [clause.text for clause in whole] == [clause.text for clause in found]


@given(st.text(alphabet=st.characters(exclude_characters="<{["), max_size=200))
@settings(max_examples=200, deadline=None)
def test_without_hidden_parts_the_raw_is_the_answer(text: str) -> None:
    assert stream_of([text])[1].raw == text


@given(st.text(alphabet=st.characters(), max_size=100))
@settings(max_examples=300, deadline=None)
def test_any_unicode_is_taken(text: str) -> None:
    check(segment(text))


@given(st.text(alphabet="你好，。 a1-<[(*`~", max_size=600), st.integers(6, 80))
@settings(max_examples=100, deadline=None)
def test_clauses_are_bounded(text: str, limit: int) -> None:
    stream = ClauseStream(max_chars=limit)
    for clause in stream.push(text) + stream.flush():
        wide = sum("\u4e00" <= char <= "\u9fff" for char in clause.text)
        # A sign or a unit has a longer name.
        assert len(clause.text) - wide <= 8 * (4 * limit + 2)
        assert wide <= 2 * limit


@pytest.mark.parametrize(
    "text",
    [
        "今天我们去公园里玩得非常开心因为天气特别好" * 30,
        "the quick brown fox jumps over the lazy dog " * 50,
        "supercalifragilistic" * 100,
        "今天天气很好，我们" * 50,
        "....." * 500,
        "a(((((" * 500,
        "，，，，，" * 500 + "好",
    ],
)
def test_a_text_without_ends_is_cut(text: str) -> None:
    found = segment(text)
    check(found)
    assert all(len(clause.text) <= 205 for clause in found)


def test_a_long_clause_is_cut_at_its_comma_or_else_at_a_space() -> None:
    long_ = "我来看看，" + "苹" * 40 + "、" + "果" * 40
    assert [len(clause.text) for clause in segment(long_)] == [5, 41, 40]
    words = segment("The " + "elephant " * 40)
    assert all(clause.text.endswith("elephant") for clause in words)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("我来看看，", "我来看看，"),
        ("**我来看看**，", "我来看看，"),
        ("# 好的！", "好的！"),
        ("[开心]好的。", "好的。"),
        ("<think>啊</think>好的。", "好的。"),
        ("有3.5个苹果，", "有3.5个苹果，"),
        ("“我来看看。”", "“我来看看。”"),
        ("Yes. ", "Yes."),
        ("I am here, ", "I am here,"),
        ("好的\n", "好的"),
    ],
)
def test_the_first_clause_comes_with_its_last_character(text: str, expected: str) -> None:
    stream = ClauseStream()
    assert stream.push(text[:-1]) == []
    assert [clause.text for clause in stream.push(text[-1])] == [expected]


def test_what_follows_the_last_clause_is_the_tail() -> None:
    stream = ClauseStream()
    [clause] = stream.push("好的。\n```\ncode\n```\n😊")
    assert stream.flush() == []
    assert (clause.raw, stream.tail) == ("好的。", "\n```\ncode\n```\n😊")
    [whole] = segment("好的。\n😊")
    assert whole.raw == "好的。\n😊"
    assert whole.ends == (1, 2, 5)


def test_ends_say_what_was_heard() -> None:
    [clause] = segment("**气温**是25℃左右")
    assert clause.text == "气温是25摄氏度左右"
    assert [clause.heard(n) for n in (0, 1, 2, 3, 5)] == [
        "",
        "**气",
        "**气温",
        "**气温**是",
        "**气温**是25",
    ]
    assert clause.heard(8) == "**气温**是25℃"
    assert clause.heard(99) == clause.raw


def test_the_minimums_are_parameters() -> None:
    stream = ClauseStream(first_min_hanzi=2, later_min_chars=2)
    found = stream.push("好的，我来。你看，行。") + stream.flush()
    assert [clause.text for clause in found] == ["好的，", "我来。", "你看，行。"]


def test_the_default_language_is_a_parameter() -> None:
    stream = ClauseStream(language="en")
    stream.push("25°C")
    assert stream.flush()[0].text == "25 degrees Celsius"


@pytest.mark.parametrize(
    "text",
    [
        "今天我们去公园里玩得非常开心" * 7_000,
        "a" * 100_000,
        "**今天**的 weather 😊 是 3.5 " * 4_000,
        "<think>" + "想 a < b " * 14_000,
        "```\n" + "x = `1` " * 12_000,
        "![" * 50_000,
    ],
)
def test_a_long_answer_takes_no_more_time_for_each_character(text: str) -> None:
    started = time.process_time()
    stream_of([text[at : at + 4] for at in range(0, len(text), 4)])
    assert time.process_time() - started < 30.0  # some 2 s; square time would be minutes


@pytest.mark.parametrize(
    "unit",
    [
        "今天天气很好，我们去公园吧。",
        "The quick brown fox, jumps over 3.14 dogs. ",
        "**a** [b](c) ",
        *(
            "[",
            "![",
            "](",
            "<a ",
            "&a",
            "`",
            "~",
            "#",
            "-",
            "“",
            "\\a",
            "a@",
            "1,",
            ".",
            "a.b",
            "1-",
            '{"name":',
        ),
    ],
)
@pytest.mark.parametrize("prefix", ["", "[x](", "```"])
def test_time_is_linear(unit: str, prefix: str) -> None:
    text = prefix + unit * (10_000 // len(unit))
    started = time.process_time()
    stream_of(list(text))
    assert time.process_time() - started < 2.0
