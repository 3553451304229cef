"""Every table row is spoken exactly as written there, whole or character by character."""

from __future__ import annotations

import pytest

from tests.text.cases import clauses, hidden, markup, numbers, styles
from tts_engine.text.stream import ClauseStream, segment


def spoken(text: str) -> str:
    return "|".join(clause.text for clause in segment(text))


@pytest.mark.parametrize("text, expected", clauses.CASES)
def test_cuts(text: str, expected: str) -> None:
    assert spoken(text) == expected


@pytest.mark.parametrize("text, expected", markup.CASES)
def test_markup(text: str, expected: str) -> None:
    assert spoken(text) == expected


@pytest.mark.parametrize("text, expected", numbers.CASES)
def test_numbers(text: str, expected: str) -> None:
    assert spoken(text) == expected


@pytest.mark.parametrize("text, raw, expected", hidden.CASES)
def test_hidden(text: str, raw: str, expected: str | None) -> None:
    stream = ClauseStream()
    stream.push(text)
    stream.flush()
    assert stream.raw == raw
    if expected is not None:
        assert spoken(text) == expected


@pytest.mark.parametrize("text, expected, expected_styles", styles.CASES)
def test_styles(text: str, expected: str, expected_styles: list[str]) -> None:
    assert spoken(text) == expected
    assert [clause.style for clause in segment(text)] == expected_styles
