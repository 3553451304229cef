# pyright: strict
"""What is wanted of a recording, and what was recognised in it. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from services.asr.base import Word
from services.asr.funasr.joining import join

#: hotwords of a recording, and characters of each: what is longer is a sentence
MAX_HOTWORDS, MAX_HOTWORD = 100, 40
_BETWEEN = re.compile(r"[,，、;；|。\n\r\t]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How a recording is to be heard.

    Parameters:
        languages: that may be spoken in it; None: all that the recogniser knows.
        hotwords: names and terms that are likely.
    """

    languages: tuple[str, ...] | None = None
    hotwords: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A piece of a recording.

    Parameters:
        start_s, end_s: where it lies, seconds from the start of the recording.
        text: what is said in it; not empty.
        language: of the text.
        log_prob: mean log probability per token, where the engine knows it.
        words: where the engine knows their times, counted as those of the segment.
        emotion, events: see `services.asr.base.Transcript`.
    """

    start_s: float
    end_s: float
    text: str
    language: str = ""
    log_prob: float | None = None
    words: tuple[Word, ...] = ()
    emotion: str = ""
    events: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What was recognised.

    Parameters:
        segments: in their order.
        audio_s: length of the recording, seconds.
    """

    segments: tuple[Segment, ...]
    audio_s: float

    @property
    def text(self) -> str:
        """All of it."""
        return join(segment.text for segment in self.segments)

    @property
    def language(self) -> str:
        """That most of the text is in; empty when nothing was said."""
        said: Counter[str] = Counter()
        for segment in self.segments:
            said[segment.language] += len(segment.text)
        return max(said, key=said.__getitem__, default="")


def continued(before: str, text: str) -> str:
    """What a text gets longer by with the next segment.

    Args:
        before: the text, or its end.
        text: of the segment.
    """
    last = before[-1:]
    return join((last, text))[len(last) :]


def hotwords_of(*texts: str) -> tuple[str, ...]:
    """The words and terms of lists, which are separated by commas or lines; each once."""
    words = (" ".join(word.split()) for text in texts for word in _BETWEEN.split(text))
    return tuple(_short(words))[:MAX_HOTWORDS]


def _short(words: Iterable[str]) -> dict[str, None]:
    return {word: None for word in words if 0 < len(word) <= MAX_HOTWORD}
