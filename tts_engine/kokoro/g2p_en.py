"""English text to phonemes, word by word."""

from __future__ import annotations

import re
import unicodedata

from tts_engine.kokoro.lexicon import Lexicon
from tts_engine.kokoro.phonemes import Phonemes, join, spread

#: The apostrophe behind a plural is silent, and looks like a closing quote.
_WORD = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)*")
_VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻɐ")
#: Words whose sound depends on whether a vowel follows: before a consonant, before a vowel.
_LINKING = {"the": ("ðə", "ði"), "to": ("tə", "tʊ")}
_WEAK = {"a": "ɐ", "an": "ɐn", "i": "ˌI"}


def english(text: str, ends: tuple[int, ...], before: int, lexicon: Lexicon) -> Phonemes:
    """Phonemes of Latin text with spaces between its words; other characters are left out.

    Args:
        text: letters, apostrophes and spaces.
        ends: for each character, the characters of the utterance spoken with it.
        before: the same before the text.
        lexicon: the dictionary.
    """
    words = list(_WORD.finditer(fold(text)))
    said = [_say(match[0].replace("’", "'"), lexicon) for match in words]
    pieces: list[Phonemes] = []
    for index, (match, symbols) in enumerate(zip(words, said, strict=True)):
        linking = _LINKING.get(match[0].lower())
        if linking:
            following = said[index + 1].lstrip("ˈˌ") if index + 1 < len(said) else ""
            symbols = linking[following[:1] in _VOWELS]
        stop = match.end()
        pieces.append(spread(symbols, ends[match.start() : stop], before))
        before = ends[stop - 1]
        pieces.append(Phonemes(" ", (before,)))
    return join(pieces[:-1])


def fold(text: str) -> str:
    """Letters without their accents, one for one: "café" -> "cafe"."""
    return "".join(unicodedata.normalize("NFD", char)[0] for char in text)


def _say(word: str, lexicon: Lexicon) -> str:
    if word.lower() in _WEAK and (len(word) == 1 or not word.isupper()):
        return _WEAK[word.lower()]
    return lexicon.say(word)
