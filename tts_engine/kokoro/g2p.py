"""Mixed Mandarin and English text to phonemes that know their characters.

Numbers and signs become words in the language around them, the rest is split by script.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from loguru import logger

from tts_engine.kokoro import numbers
from tts_engine.kokoro.g2p_en import english
from tts_engine.kokoro.g2p_en import fold as unaccented
from tts_engine.kokoro.g2p_zh import chinese
from tts_engine.kokoro.lexicon import Lexicon, load_lexicon
from tts_engine.kokoro.phonemes import PAUSES, Phonemes, join
from tts_engine.text.chars import fold, is_hanzi
from tts_engine.text.spans import Spans
from tts_engine.text.words import put_into_words

#: What the vocabulary has for the punctuation of both languages; what is not here is a space.
PUNCTUATION = {
    **{mark: mark for mark in ';:,.!?—…"()“”'},
    "，": ",",
    "、": ",",
    "。": ".",
    "！": "!",
    "？": "?",
    "：": ":",
    "；": ";",
    "–": "—",
    "（": "(",
    "）": ")",
    "「": "“",
    "」": "”",
    "『": "“",
    "』": "”",
    "《": "“",
    "》": "”",
}
_HANZI = "\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_LATIN = "A-Za-z\u00c0-\u024f"
_RUN = re.compile(
    rf"(?P<zh>[{_HANZI}]+)|(?P<en>[{_LATIN}](?:[{_LATIN}'’ -]*[{_LATIN}'’])?)|(?P<other>.)",
    re.DOTALL,
)
#: "10:30 am": capitals are spelled, where "am" would be the verb.
_HALF_DAY = re.compile(r"(?<=[0-9])\s?[ap]m\b", re.ASCII)
_LETTER = re.compile(rf"[{_LATIN}{_HANZI}]")


class MixedG2P:
    """Turns text into phonemes of a vocabulary.

    Parameters:
        vocabulary: the symbols that the model knows; others are dropped.
        lexicon: English words; by default misaki's, loaded at the first use.
    """

    def __init__(self, *, vocabulary: Iterable[str], lexicon: Lexicon | None = None) -> None:
        self._vocabulary = frozenset(vocabulary)
        self._lexicon = lexicon
        self._dropped: set[str] = set()

    def __call__(self, text: str) -> Phonemes:
        """Phonemes of any text; never raises."""
        spans = Spans(text="".join(map(fold, text)), ends=tuple(range(1, len(text) + 1)))
        spans, _ = put_into_words(spans, "zh")
        spans = spans.sub(_HALF_DAY, lambda match: f" {match[0].strip().upper()}")
        spans = spans.sub(numbers.NUMBER, _say_number)
        pieces: list[Phonemes] = []
        for match in _RUN.finditer(spans.text):
            ends = spans.ends[match.start() : match.end()]
            before = spans.begin(match.start())
            if match["zh"]:
                pieces += self._spaced(pieces, chinese(match[0], ends, before))
            elif match["en"]:
                pieces += self._spaced(pieces, self._english(match[0], ends, before))
            else:
                pieces += _punctuation(pieces, match[0], ends[0])
        return self._known(join(pieces))

    def _english(self, text: str, ends: tuple[int, ...], before: int) -> Phonemes:
        if self._lexicon is None:
            self._lexicon = load_lexicon()
        if len(text) == 1:  # "A股", "plan B": the name of the letter
            spelled = self._lexicon.spell(unaccented(text))
            return Phonemes(spelled, ends * len(spelled))
        return english(text, ends, before, self._lexicon)

    @staticmethod
    def _spaced(pieces: list[Phonemes], piece: Phonemes) -> list[Phonemes]:
        """The piece, apart from the speech before it."""
        if pieces and piece and pieces[-1].symbols[-1] not in ' ("“':
            return [Phonemes(" ", pieces[-1].ends[-1:]), piece]
        return [piece] if piece else []

    def _known(self, phonemes: Phonemes) -> Phonemes:
        """Without the symbols that the model does not know."""
        unknown = set(phonemes.symbols) - self._vocabulary
        if not unknown:
            return phonemes
        if unknown - self._dropped:
            self._dropped |= unknown
            logger.warning("Phonemes that the voice does not know: {}", " ".join(sorted(unknown)))
        symbols: list[str] = []
        ends: list[int] = []
        for symbol, end in zip(phonemes.symbols, phonemes.ends, strict=True):
            if symbol not in unknown:
                symbols.append(symbol)
                ends.append(end)
            elif ends:  # its character ends with the sound before it
                ends[-1] = end
        return Phonemes("".join(symbols), tuple(ends))


def _punctuation(pieces: list[Phonemes], char: str, end: int) -> list[Phonemes]:
    """A pause or a bracket; pauses in a row count once, and none comes before all speech."""
    mark = PUNCTUATION.get(char, "")
    if not mark:
        return []
    opening = mark in "(“"
    if opening:
        space = [Phonemes(" ", pieces[-1].ends[-1:])] if pieces else []
        return [*space, Phonemes(mark, (end - 1,))]
    if not pieces or (mark in PAUSES and pieces[-1].symbols[-1] in PAUSES):
        return []
    return [Phonemes(mark, (end,))]


def _say_number(match: re.Match[str]) -> str:
    """In Chinese beside a Hanzi; else like the letters before it, else those behind it."""
    say = numbers.say_zh if _is_chinese(match) else numbers.say_en
    text, start, stop = match.string, *match.span()
    said = say(match)
    # Words of letters must not run into what stands beside the digits.
    before = " " if _LETTER.match(text[start - 1 : start]) and said.isascii() else ""
    after = " " if _LETTER.match(text[stop : stop + 1]) and said.isascii() else ""
    return f"{before}{said}{after}"


def _is_chinese(match: re.Match[str]) -> bool:
    text = match.string
    before, after = text[: match.start()].rstrip(), text[match.end() :].lstrip()
    if any(side and is_hanzi(side) for side in (before[-1:], after[:1])):
        return True
    letters = _LETTER.findall(before)[-1:] or _LETTER.findall(after)[:1]
    return not letters or is_hanzi(letters[0])
