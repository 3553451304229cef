# pyright: strict
"""Which text of an answer was heard, given how much of its audio was played."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from tts_engine.engine import Mark
from tts_engine.text.clause import Clause


@dataclass(slots=True)
class _Spoken:
    """A clause with its alignment on the clock of the answer's audio: its spoken units.

    A unit is what lies between two marks of the engine: a character, or a word.
    """

    clause: Clause
    starts_ms: float
    ends_ms: list[float] = field(default_factory=list[float])
    chars: list[int] = field(default_factory=list[int])

    def heard_chars(self, played_ms: float) -> int:
        """Characters of the units that were played completely."""
        count = bisect_right(self.ends_ms, played_ms)
        return self.chars[count - 1] if count else 0

    def touched_chars(self, played_ms: float) -> int:
        """Characters of the units of which at least a part was played."""
        if self.starts_ms >= played_ms or not self.chars:
            return 0
        count = min(len(self.chars), bisect_left(self.ends_ms, played_ms) + 1)
        return self.chars[count - 1]


class SpokenText:
    """The text of one answer beside its audio.

    Its clock counts the answer's audio in milliseconds, from its first sample, without gaps.
    """

    def __init__(self) -> None:
        self._clauses: list[_Spoken] = []
        self._tail = ""
        self._tail_ms = 0.0

    def begin(self, clause: Clause, *, at_ms: float) -> None:
        """The audio of `clause` starts at `at_ms`, if the voice makes any of it."""
        self._clauses.append(_Spoken(clause, at_ms))

    def mark(self, marks: tuple[Mark, ...], *, sample_rate: int) -> None:
        """Adds alignment of the clause that began last; samples count from its start."""
        spoken = self._clauses[-1]
        for mark in marks:
            spoken.ends_ms.append(spoken.starts_ms + mark.sample * 1000 / sample_rate)
            spoken.chars.append(mark.chars)

    def finish(self, tail: str, *, at_ms: float) -> None:
        """The audio ends at `at_ms`; `tail` is raw text that follows and has no voice."""
        self._tail, self._tail_ms = tail, at_ms

    def heard(self, played_ms: float) -> str:
        """The raw text that was heard once `played_ms` of the audio were played.

        Always a prefix of the raw answer: all of it up to the end of the last unit that was spoken
        completely. What the voice left out before that (marks only, or a clause that it could not
        make) was passed over, and counts.
        """
        whole = "".join(spoken.clause.raw for spoken in self._clauses)
        reached, end = 0, len(whole)
        for spoken in reversed(self._clauses):
            start = end - len(spoken.clause.raw)
            if part := spoken.clause.heard(spoken.heard_chars(played_ms)):
                reached = start + len(part)
                break
            end = start
        over = reached == len(whole) and played_ms >= self._tail_ms
        return whole[:reached] + (self._tail if over else "")

    def audible(self, since_ms: float, until_ms: float) -> str:
        """The text, as it was spoken, of the audio between two positions; units that lie in it in
        part are in it.
        """
        parts: list[str] = []
        for spoken in self._clauses if since_ms < until_ms else ():
            text = spoken.clause.text
            part = text[spoken.heard_chars(since_ms) : spoken.touched_chars(until_ms)]
            if part:
                parts.append(part)
        return " ".join(parts)
