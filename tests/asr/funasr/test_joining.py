"""Tokens to words, words and segments to text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.asr.funasr.joining import Span, join, text_of, words_of


@pytest.mark.parametrize(
    ("segments", "text"),
    [
        (["我想问一下。", "滨海新区有房吗？"], "我想问一下。滨海新区有房吗？"),
        (["hello there.", "how are you?"], "hello there. how are you?"),
        (["我用", "iPhone", "打电话"], "我用iPhone打电话"),
        (["well", ", yes", "(", "no", ")"], "well, yes (no)"),
        (["コーヒー", "です"], "コーヒーです"),
        (["안녕", "하세요"], "안녕 하세요"),
        (["", " ", "好", ""], "好"),
        ([], ""),
    ],
)
def test_segments_are_joined_as_their_script_is_written(segments: list[str], text: str) -> None:
    assert join(segments) == text


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["你", "好"], "你好"),
        (["in@@", "side", "out"], "inside out"),
        (["我", "in@@", "side", "你"], "我inside你"),
        (["in@@", "你"], "in你"),
        (["go", "in@@"], "go in"),
        (["a", "p", "d", "f", "a", "day"], "APDFA day"),
        (["a", "day"], "a day"),
        (["mp", "3", "b", "2"], "mp 3B2"),
        (["<s>", "好", "<unk>", "<blank>", "</s>"], "好"),
        (["@@", "好"], "好"),
        (["in@@", "<unk>", "side"], "inside"),
    ],
)
def test_tokens_are_written_as_words(tokens: list[str], text: str) -> None:
    assert text_of(tokens) == text


def test_words_know_their_tokens() -> None:
    assert words_of(["<s>", "我", "in@@", "side", "p", "d", "f"]) == [
        Span(text="我", first=1, last=1),
        Span(text="inside", first=2, last=3),
        Span(text="PDF", first=4, last=6),
    ]


@given(st.lists(st.sampled_from(["你", "好", "a", "in@@", "side", "<unk>", "7", "@@"])))
def test_no_token_is_lost_or_moved(tokens: list[str]) -> None:
    spans = words_of(tokens)
    said = [token.removesuffix("@@") for token in tokens if token != "<unk>"]

    assert "".join(span.text for span in spans).lower() == "".join(said)
    assert text_of(tokens).replace(" ", "").lower() == "".join(said)
    assert all(before.last < after.first for before, after in pairwise(spans))


@given(st.lists(st.sampled_from(["你好", "hello", "a b", "。", ""])))
def test_hanzi_never_get_spaces(segments: list[str]) -> None:
    text = join(segments)

    assert "  " not in text
    assert "你好 " not in text
    assert " 你好" not in text
