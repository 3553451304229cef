"""Rewriting keeps the map to the raw text: ascending, complete, evenly spread."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tts_engine.text.spans import Spans


def spans(text: str, start: int = 0) -> Spans:
    return Spans(text=text, ends=tuple(range(start + 1, start + len(text) + 1)), start=start)


def test_a_longer_text_is_spread_over_what_it_replaces() -> None:
    new = spans("a25b", 10).sub(re.compile("25"), lambda _: "WXYZ")
    assert new.text == "aWXYZb"
    assert new.ends == (11, 11, 12, 12, 13, 14)


def test_a_removed_text_belongs_to_the_character_after_it() -> None:
    new = spans("**a**b").sub(re.compile(r"\*+"), lambda _: "")
    assert (new.text, new.ends) == ("ab", (3, 6))


def test_a_group_alone_is_replaced_and_none_keeps_the_match() -> None:
    source = spans("1-2 3-4")
    one = source.sub(re.compile(r"[13](-)"), lambda m: "到" if m[0] == "1-" else None, 1)
    assert one.text == "1到2 3-4"
    assert source.sub(re.compile("x"), lambda _: "y") is source


def test_an_insertion_takes_no_raw_text() -> None:
    new = spans("ab").sub(re.compile("(?=b)"), lambda _: "--")
    assert (new.text, new.ends) == ("a--b", (1, 1, 1, 2))


@given(st.text(alphabet="ab12 ", max_size=30), st.text(alphabet="xy", max_size=5))
def test_the_map_stays_ascending_and_aligned(text: str, new: str) -> None:
    changed = spans(text).sub(re.compile("[0-9]+|b*"), lambda m: new if m[0] else "z")
    assert len(changed.ends) == len(changed.text)
    assert list(changed.ends) == sorted(changed.ends)
    assert changed.text == re.sub("[0-9]+|b*", lambda m: new if m[0] else "z", text)
