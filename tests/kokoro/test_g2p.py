"""Any text becomes phonemes of the vocabulary, in the order of its characters, without raising."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loguru import logger

from tests.kokoro.conftest import SYMBOLS
from tts_engine.kokoro import g2p_zh
from tts_engine.kokoro.g2p import MixedG2P
from tts_engine.kokoro.g2p_zh import chinese
from tts_engine.kokoro.lexicon import Lexicon

CASES = [
    # Mandarin, words apart
    ("你好", "ni↓xau↓"),
    ("今天天气很好。", "ʨi→ntʰjɛ→ntʰjɛ→nʨʰi↘ xə↓n xau↓."),
    ("银行很行", "i↗nxa↗ŋ xə↓nɕi↗ŋ"),
    ("重庆", "ꭧʰʊ↗ŋʨʰi↘ŋ"),
    ("嗯，", "n↗,"),
    # numbers in the language around them
    ("我有3个", "wo↓ jou↓ sa→nkɤ↘"),
    ("2024年", "ɚ↘li↗ŋɚ↘ sɨ↘njɛ↗n"),
    ("I have 3 cats", "ˌI hæv θɹˈi kˈæts"),
    ("GPT4很强", "ʤˌipˌitˈi sɨ↘ xə↓n ʨʰja↗ŋ"),
    ("iPhone 15, ok", "ˈI fˈOn fˌɪftˈin, ˌOkˈA"),
    ("R2 is out", "ˈɑɹ tˈu ɪz ˈWt"),
    ("8", "pa→"),
    ("at 7 am", "æt sˈɛvən ˌAˈɛm"),
    # English
    ("the apple, the pear", "ði ˈæpᵊl, ðə pˈɛɹ"),
    ("to end a to do", "tʊ ˈɛnd ɐ tə dˈu"),
    ("the", "ðə"),
    ("plan B", "plˈæn bˈi"),
    ("café’s", "kæfˈAz"),
    ("'quoted'", "kwˈOɾᵻd"),
    ("e-mail", "ˈi mˈAl"),
    # both
    ("我用Python写", "wo↓jʊ↘ŋ pˈIθˌɑn ɕje↓"),
    ("A股", "ˈA ku↓"),
    ("OK，好", "ˌOkˈA, xau↓"),
    # pauses
    ("好！！。", "xau↓!"),
    ("dogs' bone", "dˈɔɡz bˈOn"),
    ("，好", "xau↓"),
    ("好……", "xau↓…"),
    ("好（对）吗", "xau↓ (twei↘) ma"),
    ("“好”", "“xau↓”"),
    # nothing to say
    ("", ""),
    ("🙂", ""),
    ("дом", ""),
]


@pytest.mark.parametrize("text,symbols", CASES)
def test_reading(g2p: MixedG2P, text: str, symbols: str) -> None:
    assert g2p(text).symbols == symbols


@given(st.text(max_size=40))
@settings(deadline=None, max_examples=150)
def test_any_text(text: str) -> None:
    _check(MixedG2P(vocabulary=SYMBOLS), text)


@given(
    st.lists(
        st.sampled_from(
            ["你好", "银行", "3.5%", "12:30", "OpenAI", "the", "，", "。", " ", "“", "2个"]
        )
    ).map("".join)
)
@settings(deadline=None, max_examples=100)
def test_any_mixture(text: str) -> None:
    _check(MixedG2P(vocabulary=SYMBOLS), text)


def _check(g2p: MixedG2P, text: str) -> None:
    phonemes = g2p(text)
    assert len(phonemes.symbols) == len(phonemes.ends)
    assert set(phonemes.symbols) <= set(SYMBOLS)
    assert list(phonemes.ends) == sorted(phonemes.ends)
    assert all(0 <= end <= len(text) for end in phonemes.ends)


def test_ends_are_those_of_the_syllables(g2p: MixedG2P) -> None:
    phonemes = g2p("你好，OK")
    assert phonemes.symbols.startswith("ni↓xau↓,")
    assert phonemes.ends[:8] == (0, 0, 1, 1, 1, 1, 2, 3)
    assert phonemes.ends[-1] == 5


def test_a_number_is_spread_over_its_digits(g2p: MixedG2P) -> None:
    assert g2p("有123个").ends[-1] == 5
    assert set(g2p("有123个").ends) >= {1, 4, 5}


def test_unknown_symbols_are_dropped_and_told_once() -> None:
    told: list[str] = []
    sink = logger.add(lambda message: told.append(str(message)), level="WARNING")
    try:
        g2p = MixedG2P(vocabulary=set(SYMBOLS) - {"↓"}, lexicon=Lexicon({}))
        assert g2p("你好").symbols == "nixau"
        assert g2p("你好").ends[-1] == 2
    finally:
        logger.remove(sink)
    assert len(told) == 1
    assert "↓" in told[0]


def test_hanzi_without_a_reading_take_their_place() -> None:
    phonemes = chinese("好\U0002a6d6", (1, 2), 0)
    assert phonemes.symbols.strip() == "xau↓"
    assert phonemes.ends[-1] <= 2


def test_a_word_whose_readings_do_not_match_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, misaki = g2p_zh._tools()
    monkeypatch.setattr(g2p_zh, "_tools", lambda: (list, lambda *_, **__: ["hao3", "ma5"], misaki))
    assert chinese("好吗", (1, 2), 0).symbols.strip() == ""
