"""How much of what was said was understood: errors of characters and of words.

Both texts are brought into one form first, in this order; docs/benchmarks.md has it in words:

1. full-width letters, digits and signs become ASCII, traditional Chinese simplified;
2. numbers, dates, units and signs are written as they are spoken, by the text layer of the voice;
3. Unicode's compatible forms (NFKC), lower case;
4. whatever is no letter, digit or apostrophe inside a word is dropped; so is all space in Chinese.

Nothing that is spoken is dropped: fillers (嗯, uh) count as any other word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import jiwer

from services.asr.whisper import load_simplifier
from services.language import language_of
from tts_engine.kokoro.numbers import NUMBER, say_en, say_zh
from tts_engine.text.spans import Spans
from tts_engine.text.words import put_into_words

#: full-width letters, digits and what stands in numbers; punctuation has its own rules there
_FULL = {ord("\uff01") + at: chr(0x21 + at) for at in range(94)}
_FULL = {code: char for code, char in _FULL.items() if char.isalnum() or char in "%.+-/@#&$"}
_NO_WORD = re.compile(r"(?<![^\W_])'|'(?![^\W_])|[^\w']|_")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """What has to be done to what was said to get what was understood.

    Parameters:
        hits: units that were understood: characters of Chinese, words of English.
        substitutions, deletions, insertions: those that were not.
    """

    hits: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def units(self) -> int:
        """Of what was said."""
        return self.hits + self.substitutions + self.deletions

    @property
    def errors(self) -> int:
        """All of them."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float | None:
        """Errors a unit; None: nothing was said."""
        return self.errors / self.units if self.units else None

    def __add__(self, other: Edits) -> Edits:
        """Of both together."""
        return Edits(
            hits=self.hits + other.hits,
            substitutions=self.substitutions + other.substitutions,
            deletions=self.deletions + other.deletions,
            insertions=self.insertions + other.insertions,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """An utterance, and how it was understood.

    Parameters:
        name: of the recording.
        language: "zh", "en", or "" where nothing is said.
        said, heard: as they are written.
        edits: between the two in one form.
        marked: both in that form, with [said→heard] where they differ.
    """

    name: str
    language: str
    said: str
    heard: str
    edits: Edits
    marked: str


def scored(*, name: str, language: str, said: str, heard: str) -> Scored:
    """Compares what was said in a language with what was understood.

    Args:
        name: of the recording.
        language: "zh": characters count; "en": words; "": nothing is said, and the script of what
            was understood decides.
        said, heard: the texts.
    """
    units = language or language_of(heard)
    found = jiwer.process_words(_spaced(said, units), _spaced(heard, units))
    return Scored(
        name=name,
        language=language,
        said=said,
        heard=heard,
        edits=Edits(
            hits=found.hits,
            substitutions=found.substitutions,
            deletions=found.deletions,
            insertions=found.insertions,
        ),
        marked=_marked(found, "" if units == "zh" else " "),
    )


def total(lines: Iterable[Scored]) -> Edits:
    """Of all utterances together: long ones count more."""
    return sum((each.edits for each in lines), Edits())


def worst(lines: Iterable[Scored], count: int) -> list[Scored]:
    """Those with the most errors, without those that have none."""
    wrong = [each for each in lines if each.edits.errors]
    return sorted(wrong, key=lambda each: (-each.edits.errors, each.edits.units))[:count]


def normalised(text: str, language: str) -> str:
    """A text in the form in which it is compared: units of Chinese without space between them.

    Args:
        text: as it is written.
        language: "zh" or "en".
    """
    text = text.translate(_FULL).replace("’", "'")
    if language == "zh":
        text = _simplifier()(text)
    spans = Spans(text=text, ends=tuple(range(1, len(text) + 1)))
    spans, _ = put_into_words(spans, "zh" if language == "zh" else "en", settled=True)
    text = NUMBER.sub(say_zh if language == "zh" else _say_en, spans.text)
    text = _NO_WORD.sub(" ", unicodedata.normalize("NFKC", text).lower())
    return _SPACE.sub("" if language == "zh" else " ", text).strip()


def _spaced(text: str, language: str) -> str:
    """Its units with spaces between them."""
    text = normalised(text, language)
    return " ".join(text) if language == "zh" else text


def _say_en(match: re.Match[str]) -> str:
    """The words of a number, which must not run into what stands beside the digits."""
    return f" {say_en(match)} "


def _marked(found: jiwer.WordOutput, between: str) -> str:
    [said], [heard], [pieces] = found.references, found.hypotheses, found.alignments
    parts: list[str] = []
    for piece in pieces:
        before = between.join(said[piece.ref_start_idx : piece.ref_end_idx])
        after = between.join(heard[piece.hyp_start_idx : piece.hyp_end_idx])
        parts.append(before if piece.type == "equal" else f"[{before}→{after}]")
    return between.join(parts)


@cache
def _simplifier() -> Callable[[str], str]:
    return load_simplifier()
