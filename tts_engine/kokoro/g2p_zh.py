"""Mandarin text to phonemes: jieba's words, pypinyin's readings, misaki's alphabet."""

from __future__ import annotations

from functools import cache
from typing import Any

from tts_engine.kokoro.phonemes import Phonemes, join


@cache
def _tools() -> tuple[Any, Any, Any]:
    """jieba.lcut, pypinyin.lazy_pinyin and misaki's ZHG2P: slow to import, so imported late."""
    import logging

    import jieba
    from misaki.zh import ZHG2P
    from pypinyin import lazy_pinyin

    jieba.setLogLevel(logging.WARNING)  # it announces its dictionary on stderr
    jieba.initialize()
    return jieba.lcut, lazy_pinyin, ZHG2P


@cache
def _syllable(pinyin: str) -> str:
    """Phonemes of a syllable like "hao3"; empty for what is no syllable."""
    _, _, misaki = _tools()
    try:
        # Non-syllabic marks under glides are not in the model's vocabulary.
        return misaki.py2ipa(pinyin).replace("\u032f", "")
    # misaki reports syllables that it does not know with errors of several kinds.
    except (ValueError, AssertionError, KeyError):
        return ""


def chinese(text: str, ends: tuple[int, ...], before: int) -> Phonemes:
    """Phonemes of a run of Hanzi, with a space between words, as the model was trained.

    Args:
        text: nothing but Hanzi.
        ends: for each character, the characters of the utterance spoken with it.
        before: the same before the text.
    """
    lcut, lazy_pinyin, _ = _tools()
    pieces: list[Phonemes] = []
    done = iter(ends)
    for word in lcut(text):
        if pieces:
            pieces.append(Phonemes(" ", (before,)))
        readings = lazy_pinyin(word, style=_tone3(), neutral_tone_with_five=True)
        if len(readings) != len(word):  # characters that have no reading came in one piece
            readings = [""] * len(word)
        for reading in readings:
            end = next(done)
            symbols = _syllable(reading)
            # A syllable counts as spoken with its last phoneme.
            pieces.append(
                Phonemes(symbols, (before,) * (len(symbols) - 1) + (end,) * bool(symbols))
            )
            before = end
    return join(pieces)


@cache
def _tone3() -> Any:
    from pypinyin import Style

    return Style.TONE3
