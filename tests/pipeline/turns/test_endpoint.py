"""The wait lies between floor and ceiling, falls with completeness and with the probability."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.turns.completeness import completeness
from pipeline.turns.endpoint import wait_ms
from pipeline.turns.settings import TurnSettings

SETTINGS = TurnSettings(floor_ms=200, ceiling_ms=1200)

#: by completeness, and the wait: without an opinion, "done", "no idea", "not done"
TABLE = [
    ("打开灯。", 200, 200, 200, 300),
    ("打开灯", 200, 200, 200, 300),
    ("turn on the light", 200, 200, 200, 300),
    ("现在几点?", 200, 200, 200, 300),
    ("一共三百二十。", 311, 200, 311, 456),
    ("一共三百二十", 644, 367, 644, 922),
    ("明天北京，", 922, 711, 922, 1133),
    ("我想去北京然后", 1200, 1100, 1200, 1200),
    ("我想去北京然后。", 1200, 1100, 1200, 1200),
    ("I want to", 1200, 1100, 1200, 1200),
    ("", 200, 200, 200, 200),
    ("。", 200, 200, 200, 200),
]


@pytest.mark.parametrize(("text", "none", "done", "unsure", "going_on"), TABLE)
def test_table(text: str, none: int, done: int, unsure: int, going_on: int) -> None:
    waits = [wait_ms(SETTINGS, text=text, probability=p) for p in (None, 1.0, 0.5, 0.0)]
    assert [round(wait) for wait in waits] == [none, done, unsure, going_on]


TEXTS = st.sampled_from([row[0] for row in TABLE]) | st.text(max_size=20)
BOUNDS = st.tuples(st.floats(0, 5000), st.floats(0, 5000))
PROBABILITIES = st.none() | st.floats(allow_nan=True)


@given(BOUNDS, TEXTS, PROBABILITIES)
def test_within_the_bounds(
    bounds: tuple[float, float], text: str, probability: float | None
) -> None:
    floor, ceiling = bounds
    settings = TurnSettings(floor_ms=floor, ceiling_ms=ceiling)
    wait = wait_ms(settings, text=text, probability=probability)
    assert floor <= wait <= max(floor, ceiling)


@given(TEXTS, st.lists(st.floats(0, 1), min_size=2))
def test_falls_with_the_probability(text: str, probabilities: list[float]) -> None:
    waits = [wait_ms(SETTINGS, text=text, probability=p) for p in sorted(probabilities)]
    assert all(later <= earlier for earlier, later in pairwise(waits))


@given(st.lists(TEXTS.filter(lambda text: any(map(str.isalnum, text))), min_size=2), PROBABILITIES)
def test_falls_with_completeness(texts: list[str], probability: float | None) -> None:
    texts = sorted(texts, key=completeness)
    waits = [wait_ms(SETTINGS, text=text, probability=probability) for text in texts]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(waits))


@given(TEXTS, st.floats(0, 1))
def test_the_sound_moves_it_only_softly(text: str, probability: float) -> None:
    without = wait_ms(SETTINGS, text=text, probability=None)
    moved = wait_ms(SETTINGS, text=text, probability=probability)
    assert abs(moved - without) <= 300 + 1e-9
    if without in (SETTINGS.floor_ms, SETTINGS.ceiling_ms):
        assert abs(moved - without) <= 100 + 1e-9


def test_a_floor_above_the_ceiling_is_obeyed() -> None:
    settings = TurnSettings(floor_ms=2000, ceiling_ms=1200)
    assert wait_ms(settings, text="然后", probability=0.0) == 2000
