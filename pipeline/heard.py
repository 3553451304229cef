"""Which text of an answer was heard, given how much of its audio was played."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from tts_engine.engine import Mark
from tts_engine.text.clause import Clause


@dataclass(slots=True)
class _Spoken:
    """A clause with its alignment on the clock of the answer's audio."""

    clause: Clause
    starts_ms: float
    ends_ms: list[float] = field(default_factory=list[float])
    chars: list[int] = field(default_factory=list[int])


class SpokenText:
    """The text of one answer beside its audio.

    Its clock counts the answer's audio in milliseconds, from its first sample, without gaps.
    """

    def __init__(self) -> None:
        self._clauses: list[_Spoken] = []
        self._tail = ""
        self._tail_ms = 0.0

    def begin(self, clause: Clause, *, at_ms: float) -> None:
        """The audio of `clause` starts at `at_ms`."""
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

        Cut at the end of the last character spoken completely; a clause without a voice (an
        answer of marks only) counts as heard when its place was reached.
        """
        parts: list[str] = []
        for spoken in self._clauses:
            if spoken.starts_ms > played_ms:
                break
            count = bisect_right(spoken.ends_ms, played_ms)
            if count:
                parts.append(spoken.clause.heard(spoken.chars[count - 1]))
        if played_ms >= self._tail_ms:
            parts.append(self._tail)
        return "".join(parts)
