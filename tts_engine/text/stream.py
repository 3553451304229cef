"""An answer's tokens in, clauses for the voice out.

    token -> HiddenFilter -> MarkupFilter -> Segmenter -> put_into_words -> Clause
             <think>, tool   markdown, HTML,  cuts          numbers, units,
             calls           emoji, URLs                    signs

Every stage takes one character at a time, so the clauses depend on the text alone and never on how
it was cut into tokens, and each character is looked at a bounded number of times.
"""

from __future__ import annotations

from dataclasses import replace

from tts_engine.text.clause import Clause
from tts_engine.text.dropped import Dropped, in_order
from tts_engine.text.hidden import HiddenFilter
from tts_engine.text.marks import MarkupFilter
from tts_engine.text.segment import Cut, Segmenter
from tts_engine.text.words import Language, put_into_words


class ClauseStream:
    """The clauses of one answer.

    The raws of all clauses and `tail`, joined, are `raw`. `tail` is not empty when the answer ends
    with something that cannot be spoken (a newline, an emoji, a code block) and the last clause had
    been handed out before that came.

    Args:
        first_min_hanzi: the first clause may end at a comma once it has as many Hanzi,
        first_min_words: or as many words; they add up in mixed text. A sentence end always ends it.
        later_min_chars: a later sentence shorter than this, in Hanzi, is joined with the next; the
            second and third clause may be somewhat shorter. At a comma a later clause ends when
            it is twice as long as the one before it.
        max_chars: the longest clause, in Hanzi; three Latin letters count for one.
        language: of numbers in text that has neither Hanzi nor Latin words.
    """

    def __init__(
        self,
        *,
        first_min_hanzi: int = 4,
        first_min_words: int = 3,
        later_min_chars: int = 10,
        max_chars: int = 60,
        language: Language = "zh",
    ) -> None:
        self._hidden = HiddenFilter()
        self._markup = MarkupFilter()
        self._segmenter = Segmenter(
            first_min_hanzi=first_min_hanzi,
            first_min_words=first_min_words,
            later_min_chars=later_min_chars,
            max_chars=max_chars,
        )
        self._language: Language = language
        self._raw: list[str] = []
        self._drops: list[Dropped] = []  # by clauses' own rules
        self._done = 0  # how much of the raw answer is in clauses
        self._first = True

    @property
    def raw(self) -> str:
        """What belongs in the context so far: the answer without reasoning and tool calls."""
        return "".join(self._raw)

    @property
    def tail(self) -> str:
        """The part of `raw` that is in no clause yet."""
        return "".join(self._raw[self._done :])

    @property
    def hidden(self) -> tuple[Dropped, ...]:
        """The parts of what was pushed that do not belong in the context."""
        return tuple(self._hidden.drops)

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """The parts of `raw` that are not spoken, in order; complete when the answer is over."""
        stages = (*self._markup.drops, *self._segmenter.drops, *self._drops)
        return in_order(stages, len(self._raw))

    def push(self, token: str) -> list[Clause]:
        """Takes the next piece of the answer; gives the clauses that are complete now."""
        clauses: list[Clause] = []
        for char in token:
            for kept in self._hidden.feed(char):
                self._keep(kept, clauses)
        return clauses

    def flush(self) -> list[Clause]:
        """The answer is over; gives what is left of it, unless nothing of that can be spoken."""
        clauses: list[Clause] = []
        for kept in self._hidden.finish():
            self._keep(kept, clauses)
        cuts = [cut for piece in self._markup.finish() for cut in self._segmenter.feed(piece)]
        cuts += self._segmenter.finish()
        for cut in cuts:
            # What follows the last word belongs to the last clause.
            end = len(self._raw) if cut is cuts[-1] else cut.spans.ends[-1]
            clauses.append(self._clause(cut, end))
        return clauses

    def _keep(self, char: str, clauses: list[Clause]) -> None:
        self._raw.append(char)
        for piece in self._markup.feed(char):
            cuts = self._segmenter.feed(piece)
            clauses += [self._clause(cut, cut.spans.ends[-1]) for cut in cuts]

    def _clause(self, cut: Cut, end: int) -> Clause:
        spans, self._language = put_into_words(cut.spans, self._language, settled=not self._first)
        self._drops += spans.drops
        start, self._done = self._done, end
        first, self._first = self._first, False
        return Clause(
            text=spans.text,
            raw="".join(self._raw[start:end]),
            ends=(*(e - start for e in spans.ends[:-1]), end - start),
            first=first,
            style=cut.style,
        )


def segment(text: str) -> list[Clause]:
    """The clauses of a whole text; their raws, joined, are the text without what is hidden."""
    stream = ClauseStream()
    clauses = stream.push(text) + stream.flush()
    if clauses and stream.tail:
        last = clauses[-1]
        raw = last.raw + stream.tail
        clauses[-1] = replace(last, raw=raw, ends=(*last.ends[:-1], len(raw)))
    return clauses
