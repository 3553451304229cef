"""What a language model would answer alike is the same text; what is said otherwise is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.turns.same_text import same_text

SAME = [
    ("今天天气怎么样", "今天天气怎么样?"),
    ("今天天气怎么样？", "今天天气怎么样?"),
    ("今天 天气，怎么样。", "今天天气怎么样"),
    ("嗯，好的。", "嗯好的"),
    ("What time is it", "what time is it?"),
    ("It's late.", "its late"),
    ("It’s late", "It's late"),
    ("well-known", "well known"),
    ("ＡＢＣ１２３", "abc123"),
    ("1,000 people", "1000 people"),
    ("open YouTube", "Open you tube"),
    ("", "。"),
    (" hello\n", "hello"),
    ("he said \u201cstop\u201d", "he said stop"),
    ("今天_天气", "今天天气"),
]
OTHER = [
    ("今天天气怎么样", "今天天气怎么样呢"),
    ("打开灯", "打开等"),
    ("turn on", "turn off"),
    ("3.5", "35"),
    ("1.5 litres", "15 litres"),
    ("-5", "5"),
    ("5%", "5"),
    ("10:30", "1030"),
    ("1/2", "12"),
    ("C#", "C"),
    ("C++", "C"),
    ("$5", "5"),
    ("a@b.com", "a b.com"),
    ("", "嗯"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_same(a: str, b: str) -> None:
    assert same_text(a, b)
    assert same_text(b, a)


@pytest.mark.parametrize(("a", "b"), OTHER)
def test_other(a: str, b: str) -> None:
    assert not same_text(a, b)
    assert not same_text(b, a)


@given(st.text(), st.text(), st.text())
def test_an_equivalence(a: str, b: str, c: str) -> None:
    assert same_text(a, a)
    assert same_text(a, b) == same_text(b, a)
    if same_text(a, b) and same_text(b, c):
        assert same_text(a, c)


@given(st.text("天地人abcXYZ 好", max_size=20), st.sampled_from("。，？！、 ,.?!;"))
def test_a_mark_at_the_end_changes_nothing(text: str, mark: str) -> None:
    assert same_text(text, text + mark)
