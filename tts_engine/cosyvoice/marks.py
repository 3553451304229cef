# pyright: strict
"""Where the characters lie in an utterance whose length is known only at its end: pure.

The model tells nothing about it. Characters are taken to share the time by their weight, a Latin
letter less than a Hanzi; as long as the utterance is being made its length is an estimate, and what
comes is laid out over the rest of it. At the end every character is spoken.
"""

from __future__ import annotations

import unicodedata
from itertools import accumulate

from tts_engine.engine import Mark

#: weights of a character: it is 1 for a syllable of its own
_LETTER, _SPACE, _PUNCTUATION = 0.3, 0.1, 0.5
#: speech tokens per weight before anything was spoken: 4.5 Hanzi a second
_TOKENS = 25 / 4.5
#: how far one utterance moves the estimate
_LEARN = 0.2


def weight(char: str) -> float:
    """How long a character takes, with a Hanzi as the unit."""
    if char.isspace():
        return _SPACE
    kind = unicodedata.category(char)
    if kind == "Lo":
        return 1.0
    return _LETTER if kind[0] in "LNM" else _PUNCTUATION


def audible(text: str) -> bool:
    """Something of it can be spoken."""
    return any(char.isalnum() for char in text)


class Pace:
    """Speech tokens that a text takes, learned from those that were spoken.

    One a voice: people differ in how fast they speak.
    """

    def __init__(self) -> None:
        self._tokens = _TOKENS

    def expect(self, text: str) -> float:
        """Speech tokens that `text` will take, about."""
        return self._tokens * sum(map(weight, text))

    def learn(self, text: str, tokens: int) -> None:
        """`text`, which is audible, took so many tokens."""
        took = tokens / sum(map(weight, text))
        self._tokens += _LEARN * (took - self._tokens)


class Alignment:
    """Lays the characters of one utterance over its samples.

    Parameters:
        text: not empty.
    """

    def __init__(self, text: str) -> None:
        total = sum(map(weight, text))
        #: for each character, the share of the utterance that is over with it
        self._ends = [end / total for end in accumulate(map(weight, text))]
        self._chars = 0
        self._sample = 0
        self._share = 0.0

    def to(self, sample: int, *, expected: float) -> tuple[Mark, ...]:
        """Marks of the samples up to `sample`, without the last character's.

        Args:
            sample: samples made so far; ascending from call to call.
            expected: samples of the whole utterance, about.
        """
        if sample <= self._sample:
            return ()
        rest = max(expected, sample) - self._sample
        share = self._share + (sample - self._sample) / rest * (1 - self._share)
        marks: dict[int, int] = {}
        while self._chars < len(self._ends) - 1 and self._ends[self._chars] <= share:
            passed = (self._ends[self._chars] - self._share) / (share - self._share)
            at = self._sample + int(passed * (sample - self._sample))
            self._chars += 1
            # Before `sample`: the end of the utterance may come to lie there.
            marks[min(at, sample - 1)] = self._chars
        self._sample, self._share = sample, share
        return tuple(Mark(at, chars) for at, chars in marks.items())

    def end(self, sample: int) -> tuple[Mark, ...]:
        """Marks of the remaining samples, up to the end of the utterance at `sample`."""
        return (*self.to(sample, expected=sample), Mark(sample, len(self._ends)))
