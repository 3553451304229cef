# pyright: strict
"""Subtitles of what was recognised, as SubRip and as WebVTT. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

from services.asr.recording import Segment

#: columns of a subtitle, two for a Hanzi: what two lines hold
_COLUMNS = 64
#: where a text is best broken: behind a sentence, behind a clause, between words
_BREAKS = tuple(
    re.compile(pattern)
    for pattern in (
        r"[。！？!?…]+[”’」』\"')）]*\s*|\.+[\"')]*\s+",
        r"[，、；：]\s*|[,;:]\s+",
        r"\s+",
    )
)


@dataclass(frozen=True, slots=True)
class Cue:
    """A subtitle.

    Parameters:
        start_s, end_s: when it is shown, seconds.
        text: one line, not empty.
    """

    start_s: float
    end_s: float
    text: str


def cues(segments: Iterable[Segment]) -> Iterator[Cue]:
    """The subtitles of segments.

    Long ones are divided; when their parts are said is known by their words, and where the engine
    did not tell those, by how much of the text they are.
    """
    for segment in segments:
        clock = _Clock(segment)
        for start, end in _parts(segment.text):
            text = segment.text[start:end].strip()
            if text:
                yield Cue(clock.at(start), clock.at(end), text)


def srt(segments: Iterable[Segment]) -> str:
    """SubRip; empty where nothing was said."""
    return "".join(
        f"{number}\n{_time(cue.start_s, ',')} --> {_time(cue.end_s, ',')}\n{cue.text}\n\n"
        for number, cue in enumerate(cues(segments), start=1)
    )


def vtt(segments: Iterable[Segment]) -> str:
    """WebVTT."""
    shown = (
        f"{_time(cue.start_s, '.')} --> {_time(cue.end_s, '.')}\n{escape(cue.text, quote=False)}\n"
        for cue in cues(segments)
    )
    return "\n".join(["WEBVTT\n", *shown])


def _time(seconds: float, point: str) -> str:
    ms = round(seconds * 1000)
    return (
        f"{ms // 3_600_000:02d}:{ms // 60_000 % 60:02d}:{ms // 1000 % 60:02d}{point}{ms % 1000:03d}"
    )


def _parts(text: str) -> list[tuple[int, int]]:
    """Start and end of each part, which is as long as it may be, and broken as well as it can."""
    parts: list[tuple[int, int]] = []
    start = 0
    while start < len(text):
        end = _end(text, start)
        parts.append((start, end))
        start = end
    return parts


def _end(text: str, start: int) -> int:
    end, columns = start, 0
    while end < len(text) and columns + _width(text[end]) <= _COLUMNS:
        columns += _width(text[end])
        end += 1
    if end == len(text):
        return end
    for pattern in _BREAKS:
        ends = [found.end() for found in pattern.finditer(text, start, end)]
        # not one that leaves next to nothing before it
        good = [place for place in ends if place - start >= (end - start) / 3]
        if good:
            return good[-1]
    return end


def _width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


class _Clock:
    """When each character of a segment is said."""

    def __init__(self, segment: Segment) -> None:
        #: places in the text and times, neither of which goes back
        self._known: list[tuple[int, float]] = [(0, segment.start_s)]
        place, folded = 0, segment.text.casefold()
        if len(folded) == len(segment.text):
            for word in segment.words:
                found = folded.find(word.text.casefold(), place)
                if found >= 0:
                    place = found + len(word.text)
                    self._know(found, word.start_s)
                    self._know(place, word.end_s)
        self._know(len(segment.text), segment.end_s)

    def _know(self, place: int, time_s: float) -> None:
        before_place, before_s = self._known[-1]
        self._known.append((max(place, before_place), max(time_s, before_s)))

    def at(self, place: int) -> float:
        """Seconds."""
        known = self._known
        after = next(n for n in range(1, len(known)) if known[n][0] >= place)
        (before, from_s), (behind, to_s) = known[after - 1], known[after]
        share = (place - before) / (behind - before) if behind > before else 1.0
        return from_s + share * (to_s - from_s)
