"""Invariant: a first clause without a mark ends before a connecting word once it is long enough;
later clauses do not, and short beginnings stay whole.
"""

from __future__ import annotations

import pytest

from tts_engine.text.stream import segment


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            "The sky is blue because the sun shines.",
            ["The sky is blue", "because the sun shines."],
        ),
        ("It is because of you.", ["It is because of you."]),
        (
            "On a rainy day you should stay indoors and read about the trip to the sea.",
            ["On a rainy day", "you should stay indoors and read about the trip to the sea."],
        ),
        (
            "Paris was the capital long before most other towns of France.",
            ["Paris was the capital long", "before most other towns of France."],
        ),
        ("You can go to the park.", ["You can go to the park."]),
        ("天空呈现出蓝色是因为阳光散射。", ["天空呈现出蓝色是", "因为阳光散射。"]),
        ("天空蓝是因为阳光散射。", ["天空蓝是因为阳光散射。"]),
        (
            "Hi. The sky is blue today because the sun shines.",
            ["Hi.", "The sky is blue today because the sun shines."],
        ),
    ],
)
def test_the_first_clause_ends_early(text: str, expected: list[str]) -> None:
    assert [clause.text.strip() for clause in segment(text)] == expected
