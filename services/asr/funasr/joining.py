"""Joins what was recognised in pieces: tokens to words, words and segments to text.

Chinese is written without spaces, Latin words with one between them.
"""
# pyright: strict

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: ends a token that is the beginning of a word
_CONTINUES = "@@"
#: tokens that stand for no text
_SILENT = frozenset({"<blank>", "<s>", "</s>", "<unk>", "<OOV>"})
#: a Latin text that begins with one of these goes on with what was before it
_CLINGING = frozenset(",.;:!?%)]}'’”")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A word, or one Hanzi, and the tokens that it was made of.

    Parameters:
        text: as it is written.
        first: place of its first token.
        last: place of its last token.
    """

    text: str
    first: int
    last: int


def join(segments: Iterable[str]) -> str:
    """One text of several segments, such as the parts of a turn between its pauses."""
    text = ""
    for segment in segments:
        piece = segment.strip()
        if text and piece and _spaced(text[-1], piece[0]):
            text += " "
        text += piece
    return text


def words_of(tokens: Sequence[str]) -> list[Span]:
    """The words that Paraformer's tokens write: `in@@ side` is one, every Hanzi is one.

    Single letters and digits that follow each other are an abbreviation, `p d f` is PDF. A word
    whose end has not come yet is one as far as it goes.
    """
    spans: list[Span] = []
    begun: Span | None = None
    for place, token in enumerate(tokens):
        if token in _SILENT:
            continue
        text = token.removesuffix(_CONTINUES)
        if begun is not None and not _is_wide(text[:1]):
            begun = Span(text=begun.text + text, first=begun.first, last=place)
        else:
            if begun is not None:
                spans.append(begun)
            begun = Span(text=text, first=place, last=place)
        if not token.endswith(_CONTINUES):
            spans.append(begun)
            begun = None
    if begun is not None:
        spans.append(begun)
    return _abbreviated([span for span in spans if span.text])


def text_of(tokens: Sequence[str]) -> str:
    """The text that Paraformer's tokens write."""
    return join(span.text for span in words_of(tokens))


def _abbreviated(spans: list[Span]) -> list[Span]:
    out: list[Span] = []
    letters: list[Span] = []

    def flush() -> None:
        if len(letters) > 1:
            text = "".join(span.text for span in letters).upper()
            out.append(Span(text=text, first=letters[0].first, last=letters[-1].last))
        else:
            out.extend(letters)
        letters.clear()

    for span in spans:
        if len(span.text) == 1 and span.text.isascii() and span.text.isalnum():
            letters.append(span)
            continue
        flush()
        out.append(span)
    flush()
    return out


def _spaced(before: str, after: str) -> bool:
    return not (_is_wide(before) or _is_wide(after) or after in _CLINGING or before in "([{")


def _is_wide(letter: str) -> bool:
    """Hanzi, kana and full-width signs, which are written without spaces; Hangul has them."""
    if "\uac00" <= letter <= "\ud7a3" or "\u1100" <= letter <= "\u11ff":
        return False
    return bool(letter) and unicodedata.east_asian_width(letter) in "WF"
