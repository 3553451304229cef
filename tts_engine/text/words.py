"""A clause's numbers, units and signs in words, in the language around them."""

from __future__ import annotations

import re
from typing import Literal

from tts_engine.text.abbreviations import ABBREVIATION_RULES
from tts_engine.text.chars import is_hanzi
from tts_engine.text.clean import clean
from tts_engine.text.numbers import DATE_RULES, NUMBER_RULES, SIGN_RULES
from tts_engine.text.spans import Spans
from tts_engine.text.spelled import SPELLED_RULES
from tts_engine.text.symbols import SYMBOL_RULES
from tts_engine.text.units import UNIT_RULES

Language = Literal["zh", "en"]

_RULES = (
    *DATE_RULES,
    *SPELLED_RULES,
    *NUMBER_RULES,
    *UNIT_RULES,
    *SIGN_RULES,
    *ABBREVIATION_RULES,
    *SYMBOL_RULES,
)
#: Text without any of these has nothing to rewrite.
_NEEDED = re.compile(r"[0-9+×÷=≈≠≤≥<>±→&@#½⅓⅔¼¾²³^*°℃℉/√π①-⑳Ⅰ-Ⅻ]|[A-Za-z]\.|周[一-日]")
_LATIN_WORD = re.compile(r"(?<![0-9A-Za-z.@])[A-Za-z]{2,}")  # not the "km" of "3km"


def put_into_words(
    spans: Spans, language: Language, *, settled: bool = False
) -> tuple[Spans, Language]:
    """Rewrites a clause for the voice.

    Args:
        spans: the clause without markup.
        language: of the text before it, for a clause that tells nothing itself ("25°C").
        settled: it is the language of text indeed; then a lone Latin word ("iOS 17.5.1") is a name.

    Returns:
        The spoken text, and the clause's language.
    """
    text = spans.text
    hanzi = sum(map(is_hanzi, text))
    latin = len(_LATIN_WORD.findall(text))
    if hanzi or latin > settled:
        language = "zh" if hanzi >= latin else "en"
    if _NEEDED.search(text):
        chinese = language == "zh"
        for rule in _RULES:
            spans = spans.sub(
                rule.pattern,
                lambda match, say=rule.say: say(match, chinese or _beside_hanzi(match)),
                rule.group,
                rule.name,
            )
    return clean(spans), language


def _beside_hanzi(match: re.Match[str]) -> bool:
    """In English text a Chinese neighbour still makes a number Chinese."""
    before = match.string[: match.start()].rstrip()[-1:]
    after = match.string[match.end() :].lstrip()[:1]
    return any(side and is_hanzi(side) for side in (before, after))
