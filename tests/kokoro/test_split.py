"""Long speech is cut without loss, its first part is short, and no part exceeds the model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tts_engine.kokoro.phonemes import Phonemes
from tts_engine.kokoro.split import FIRST, SHORTEST, WHOLE, split


def speech(symbols: str) -> Phonemes:
    return Phonemes(symbols, tuple(range(1, len(symbols) + 1)))


@given(st.text("aː ,.", max_size=900))
def test_parts_are_the_whole(symbols: str) -> None:
    parts = split(speech(symbols))
    assert "".join(part.symbols for part in parts) == symbols
    assert [end for part in parts for end in part.ends] == list(range(1, len(symbols) + 1))
    assert all(len(part) <= WHOLE for part in parts)
    if len(symbols) > WHOLE:
        assert len(parts[0]) <= FIRST


def test_short_speech_stays_whole() -> None:
    whole = speech("a" * WHOLE)
    assert split(whole) == [whole]


def test_cut_behind_punctuation_before_spaces() -> None:
    text = ("b" * 50 + ", " + "b" * 20 + " ") * 5
    first = split(speech(text))[0]
    assert first.symbols == "b" * 50 + ","


def test_cut_at_a_space_else_anywhere() -> None:
    assert split(speech(("c" * 40 + " ") * 8))[0].symbols == ("c" * 40 + " ") * 2
    assert len(split(speech("d" * 400))[0]) == FIRST


def test_parts_grow() -> None:
    sizes = [len(part) for part in split(speech("eeeeeeeee," * 60))]
    assert sizes == sorted(sizes[:-1]) + sizes[-1:]
    assert sizes[0] < sizes[1]
    assert sizes[-1] >= SHORTEST
