"""A clause: what is spoken, what it stands for in the raw answer, and how the two map."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One piece of an answer, ready to be synthesised.

    Parameters:
        text: normalised text to be spoken.
        raw: what it stands for in the answer as the LLM wrote it, without what never belongs in
            the context (<think> blocks, tool JSON). The raws of an answer's clauses, joined, are
            the answer.
        ends: for each character of `text`, the length of the prefix of `raw` that has been heard
            once that character has been spoken; ascending, the last one equals len(raw).
        first: the first clause of its answer.
        style: how to say it, from an emotion tag; empty for none.
    """

    text: str
    raw: str
    ends: tuple[int, ...]
    first: bool = False
    style: str = ""

    def heard(self, chars: int) -> str:
        """The prefix of `raw` that was heard when `chars` characters of `text` were spoken."""
        if chars <= 0:
            return ""
        return self.raw[: self.ends[min(chars, len(self.ends)) - 1]]
