"""Every word of letters has a sound, and suffixes sound as English has them."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tts_engine.kokoro.lexicon import Lexicon, load_lexicon, past_of, plural_of

CASES = [
    # as written, in small letters, as a name
    ("hello", "həlˈO"),
    ("Hello", "həlˈO"),
    ("beijing", "bˌAʤˈɪŋ"),
    ("NASA", "nˈæsə"),
    ("OK", "ˌOkˈA"),
    ("don't", "dˈOnt"),
    ("Qwen", "kwˈɛn"),
    ("used", "jˈuzd"),
    # abbreviations
    ("LLM", "ˌɛlˌɛlˈɛm"),
    ("TTS", "tˌitˌiˈɛs"),
    ("IT", "ˌItˈi"),
    ("US", "jˌuˈɛs"),
    ("URLs", "jˌuˌɑɹˈɛlz"),
    ("GPU's", "ʤˌipˌijˈuz"),
    ("NO", "nˈO"),
    ("XYZQWK", "ˌɛkswˌIzˌikjˌudˌʌbᵊljukˈA"),
    # plural: voiceless, voiced, sibilant
    ("chatbots", "ʧˈætbˌɑts"),
    ("cameras", "kˈæməɹəz"),
    ("smartwatches", "smˈɑɹtwɑʧᵻz"),
    ("emojis", "ɪmˈOʤiz"),
    # past: t, d, d after t and d
    ("emailed", "ˈimˌAld"),
    ("rebooted", "ɹˌibˈuɾᵻd"),
    # compounds, camel case
    ("firewalker", "fˈIəɹwˌɔkəɹ"),
    ("OpenAI", "ˈOpᵊn ˈAˌI"),
    ("CosyVoice", "kˈOzi vˈYs"),
    ("iPhone", "ˈI fˈOn"),
    ("PyTorch", "pˈI tˈɔɹʧ"),
]


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return load_lexicon()


@pytest.mark.parametrize("word,sound", CASES)
def test_words(lexicon: Lexicon, word: str, sound: str) -> None:
    assert lexicon.say(word) == sound


SMALL = Lexicon(
    {
        "wait": "wˈAt",
        "make": "mˈAk",
        "stop": "stˈɑp",
        "try": "tɹˈI",
        "big": "bˈɪɡ",
        "happy": "hˈæpi",
        "quick": "kwˈɪk",
        "possible": "pˈɑsəbᵊl",
        "need": "nˈid",
        "box": "bˈɑks",
        "care": "kˈɛɹ",
        "read": {"DEFAULT": "ɹˈid", "VBD": "ɹˈɛd"},
        "odd": {"DEFAULT": None},
        "kiss": "kˈɪs",
    }
)
INFLECTED = [
    ("waiting", "wˈAɾɪŋ"),
    ("waited", "wˈAɾᵻd"),
    ("waits", "wˈAts"),
    ("making", "mˈAkɪŋ"),
    ("maker", "mˈAkəɹ"),
    ("makes", "mˈAks"),
    ("stopping", "stˈɑpɪŋ"),
    ("stopped", "stˈɑpt"),
    ("tries", "tɹˈIz"),
    ("tried", "tɹˈId"),
    ("bigger", "bˈɪɡəɹ"),
    ("biggest", "bˈɪɡᵻst"),
    ("happier", "hˈæpiəɹ"),
    ("happiest", "hˈæpiᵻst"),
    ("happily", "hˈæpəli"),
    ("happiness", "hˈæpinəs"),
    ("quickly", "kwˈɪkli"),
    ("possibly", "pˈɑsəbli"),
    ("needed", "nˈidᵻd"),
    ("boxes", "bˈɑksᵻz"),
    ("careless", "kˈɛɹləs"),
    ("careful", "kˈɛɹfᵊl"),
    ("readable", "ɹˈidəbᵊl"),
    ("kisses", "kˈɪsᵻz"),
]


@pytest.mark.parametrize("word,sound", INFLECTED)
def test_suffixes(word: str, sound: str) -> None:
    assert SMALL.say(word) == sound


@pytest.mark.parametrize(
    "stem,plural,past",
    [("kˈæt", "kˈæts", "kˈæɾᵻd"), ("bˈæɡ", "bˈæɡz", "bˈæɡd"), ("wˈɪʃ", "wˈɪʃᵻz", "wˈɪʃt")],
)
def test_voicing(stem: str, plural: str, past: str) -> None:
    assert plural_of(stem) == plural
    assert past_of(stem) == past


def test_a_lexicon_without_letters_has_no_sound() -> None:
    assert Lexicon({}).say("zzz") == ""
    assert SMALL.say("odd") == ""


@given(st.text(string.ascii_letters, min_size=1, max_size=12))
@settings(deadline=None)
def test_every_word_sounds(word: str) -> None:
    assert load_lexicon().say(word)
