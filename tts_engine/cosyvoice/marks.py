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
#: speech tokens a second
TOKEN_RATE = 25
#: speech tokens per weight before anything was spoken: 4.5 Hanzi a second
_TOKENS = TOKEN_RATE / 4.5
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
        #: for each character, the weight up to its end
        self._ends: list[float] = []
        self._chars = 0
        self._sample = 0
        self._weight = 0.0  # that is spoken
        self.extend(text)

    def extend(self, text: str) -> None:
        """More of the text has come."""
        last = self._ends[-1] if self._ends else 0.0
        self._ends += list(accumulate(map(weight, text), initial=last))[1:]

    def to(self, sample: int, *, expected: float) -> tuple[Mark, ...]:
        """Marks of the samples up to `sample`, without the last character's.

        Args:
            sample: samples made so far; ascending from call to call.
            expected: samples of the whole utterance, about.
        """
        if sample <= self._sample:
            return ()
        rest, left = max(expected, sample) - self._sample, self._ends[-1] - self._weight
        spoken = self._weight + (sample - self._sample) / rest * left
        marks: dict[int, int] = {}
        while self._chars < len(self._ends) - 1 and self._ends[self._chars] <= spoken:
            passed = (self._ends[self._chars] - self._weight) / (spoken - self._weight)
            at = self._sample + int(passed * (sample - self._sample))
            self._chars += 1
            # Before `sample`: the end of the utterance may come to lie there.
            marks[min(at, sample - 1)] = self._chars
        self._sample, self._weight = sample, spoken
        return tuple(Mark(at, chars) for at, chars in marks.items())

    def end(self, sample: int) -> tuple[Mark, ...]:
        """Marks of the remaining samples, up to the end of the utterance at `sample`."""
        return (*self.to(sample, expected=sample), Mark(sample, len(self._ends)))
