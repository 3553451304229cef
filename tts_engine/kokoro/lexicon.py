"""English words to phonemes: misaki's dictionary, suffix rules, compounds, letters.

The dictionary is misaki's American English (gold: checked by people, silver: by machine), read as
data: its own G2P would need spaCy and espeak. Alphabet: https://github.com/hexgrad/misaki.
"""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Callable, Mapping
from functools import cache

_VOICELESS = frozenset("ptkfθ")
_SIBILANT = frozenset("szʃʒʧʤ")
_VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻ")
#: a t between one of these and a vowel is a flap
_FLAPPING = _VOWELS | {"ɹ"}
_STRESSES = "ˈˌ"
#: Abbreviations that the dictionary takes for words.
_ABBREVIATIONS = "IT US WHO UN EU AM PM ID TV PC OS UI IP AR VR"
_SPELLED = frozenset(_ABBREVIATIONS.split())
#: Short capitals that are a shouted word, not an abbreviation.
_SHOUTS = (
    "ALL AND ARE BUT CAN DAY DO FOR GET GO HAS HE HER HIM HIS HOW IF IN IS ITS LET ME MY NEW NO "
    "NOT NOW OF OFF OH ON ONE OR OUR OUT SEE SHE SO THE TO TOO TWO UP USE WAS WAY WE WHY YES YOU "
    "BIG RED HOT TOP END FUN CAT DOG OLD BAD SAD"
)
_SHOUTED = frozenset(_SHOUTS.split())
#: Names and words of the trade that the dictionary lacks and letters would spoil.
_NAMES = {
    "qwen": "kwˈɛn",
    "github": "ɡˈɪthˌʌb",
    "google": "ɡˈuɡᵊl",
    "wifi": "wˈIfˌI",
    "chatgpt": "ʧˈætʤˌipˌitˈi",
    "kubernetes": "kˌubəɹnˈɛtiz",
    "deepseek": "dˈipsˌik",
    "xiaozhi": "ʃˌWʤˈi",
    "youtube": "jˈutˌub",
    "py": "pˈI",
    "nginx": "ˈɛnʤɪn ˈɛks",
}
_PIECES = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z']+|[^A-Za-z']+")
_PLURAL_ABBREVIATION = re.compile(r"([A-Z]{2,})('?s)")
#: shortest half of a compound
_HALF = 3

Word = str | Mapping[str, str | None]


class Lexicon:
    """Looks up any word; the answer is never empty for one that has a letter of ASCII.

    Parameters:
        words: phonemes by spelling; those of a heteronym by part of speech, with "DEFAULT".
    """

    def __init__(self, words: Mapping[str, Word]) -> None:
        self._words = words

    def say(self, word: str) -> str:
        """Phonemes of a word of letters and apostrophes."""
        found = self._known(word)
        if found:
            return found
        plural = _PLURAL_ABBREVIATION.fullmatch(word)
        if plural:
            return plural_of(self.spell(plural[1]))
        if word.isupper() and len(word) <= 5:
            return self.spell(word)
        found = self._inflected(word.lower())
        if found:
            return found
        pieces = _PIECES.findall(word)
        if len(pieces) > 1:
            return " ".join(filter(None, (self.say(piece) for piece in pieces)))
        return self._compound(word.lower()) or self.spell(word)

    def spell(self, word: str) -> str:
        """Letter by letter, the last one stressed."""
        letters = [self._entry(letter) for letter in word.upper() if letter.isascii()]
        spelled = "".join(letter.replace("ˈ", "ˌ") for letter in letters if letter)
        head, mark, tail = spelled.rpartition("ˌ")
        return f"{head}ˈ{tail}" if mark else spelled

    def _entry(self, word: str) -> str:
        found = self._words.get(word)
        if found is not None and not isinstance(found, str):
            found = found.get("DEFAULT")
        return found or ""

    def _known(self, word: str) -> str:
        """As it is written, in small letters, or as a name."""
        if word in _SPELLED:
            return ""
        found = self._entry(word)
        if found or (word.isupper() and 1 < len(word) <= 3 and word not in _SHOUTED):
            return found
        lower = word.lower()
        return _NAMES.get(lower) or self._entry(lower) or self._entry(lower.capitalize())

    def _inflected(self, word: str) -> str:
        """A known stem and a suffix."""
        for suffix, attach, stems in _SUFFIXES:
            if word.endswith(suffix) and len(word) > len(suffix) + 1:
                for stem in stems(word[: -len(suffix)]):
                    found = self._known(stem) if len(stem) > 1 else ""
                    if found:
                        return attach(found)
        return ""

    def _compound(self, word: str) -> str:
        """Two known words in one, the first as long as can be."""
        for cut in range(len(word) - _HALF, _HALF - 1, -1):
            first, second = self._known(word[:cut]), self._known(word[cut:])
            if not second:
                second = self._inflected(word[cut:])
            if first and second:
                return first + second.replace("ˈ", "ˌ")
        return ""


@cache
def load_lexicon() -> Lexicon:
    """The American dictionary; takes about 0.3 s the first time."""
    words: dict[str, Word] = {}
    data = importlib.resources.files("misaki.data")
    for name in ("us_silver.json", "us_gold.json"):
        words.update(json.loads((data / name).read_text(encoding="utf-8")))
    return Lexicon(words)


def plural_of(stem: str) -> str:
    """The sound of -s and -'s."""
    if stem[-1] in _SIBILANT:
        return f"{stem}ᵻz"
    return stem + ("s" if stem[-1] in _VOICELESS else "z")


def past_of(stem: str) -> str:
    """The sound of -ed."""
    if stem[-1] == "t":
        return f"{_flapped(stem)}ᵻd"
    if stem[-1] == "d":
        return f"{stem}ᵻd"
    return stem + ("t" if stem[-1] in "pkfθsʃʧ" else "d")


def _flapped(stem: str) -> str:
    """Before a vowel, a final t behind a vowel or r is a flap."""
    sounds = [sound for sound in stem[:-1] if sound not in _STRESSES]
    if stem[-1] == "t" and sounds and sounds[-1] in _FLAPPING:
        return f"{stem[:-1]}ɾ"
    return stem


def _before_vowel(ending: str) -> Callable[[str], str]:
    return lambda stem: _flapped(stem) + ending


def _adverb_of(stem: str) -> str:
    """The sound of -ly: "possible" loses its own l first."""
    return f"{stem.removesuffix('ᵊl').removesuffix('l')}li"


def _plain(stem: str) -> list[str]:
    return [stem]


def _silent_e(stem: str) -> list[str]:
    """wait-ing, mak(e)-ing, stop(p)-ing, t(ie)-ying."""
    stems = [stem, f"{stem}e"]
    if len(stem) > 2 and stem[-1] == stem[-2] and stem[-1] not in "aeiou":
        stems.insert(0, stem[:-1])
    return stems


def _y(stem: str) -> list[str]:
    return [f"{stem}y"]


#: suffix, how it sounds, which stems it may hang on; the first that fits counts
_SUFFIXES: tuple[tuple[str, Callable[[str], str], Callable[[str], list[str]]], ...] = (
    ("'s", plural_of, _plain),
    ("ies", plural_of, _y),
    ("es", plural_of, lambda stem: [f"{stem}e", stem]),
    ("s", plural_of, lambda stem: [] if stem.endswith("s") else [stem]),
    ("ied", past_of, _y),
    ("ed", past_of, _silent_e),
    ("ing", _before_vowel("ɪŋ"), _silent_e),
    ("ier", lambda stem: f"{stem}əɹ", _y),
    ("er", _before_vowel("əɹ"), _silent_e),
    ("iest", lambda stem: f"{stem}ᵻst", _y),
    ("est", _before_vowel("ᵻst"), _silent_e),
    ("ily", lambda stem: f"{stem[:-1]}əli", _y),
    ("ly", _adverb_of, lambda stem: [stem, f"{stem}le"]),
    ("iness", lambda stem: f"{stem}nəs", _y),
    ("ness", lambda stem: f"{stem}nəs", _plain),
    ("less", lambda stem: f"{stem}ləs", _plain),
    ("ful", lambda stem: f"{stem}fᵊl", _plain),
    ("able", _before_vowel("əbᵊl"), _silent_e),
)
