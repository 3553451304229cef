"""A made-up code that stands for speech: it can be understood exactly, wherever it is cut.

A letter of `LETTERS` is said by samples of one value; letters are told apart by a gap of zeros, and
a longer stretch of zeros is a pause.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.asr.base import SAMPLE_RATE, Samples

LETTERS = "今天气怎么样我想听音乐现在几点了你好吗abcdefgh"
#: samples of a pause: 500 ms
PAUSE = SAMPLE_RATE // 2
_VALUE = 100
_GAP = SAMPLE_RATE // 50


def say(text: str, *, letter_s: float = 0.2) -> Samples:
    """Speech; a space is a pause."""
    parts: list[NDArray[np.int16]] = []
    for letter in text:
        if letter == " ":
            parts.append(np.zeros(PAUSE + _GAP, np.int16))
            continue
        value = (LETTERS.index(letter) + 1) * _VALUE
        parts += [
            np.full(int(letter_s * SAMPLE_RATE), value, np.int16),
            np.zeros(_GAP, np.int16),
        ]
    return np.concatenate(parts).astype(np.float32) * np.float32(1 / 32768)


def understood(samples: NDArray[np.int16]) -> str:
    """The letters in a piece of audio."""
    starts = np.flatnonzero(np.diff(samples, prepend=np.int16(0)))
    values = [int(samples[at]) for at in starts]
    return "".join(
        LETTERS[value // _VALUE - 1]
        for value in values
        if value > 0 and value % _VALUE == 0 and value // _VALUE <= len(LETTERS)
    )


def plain(text: str) -> str:
    """A text without its punctuation."""
    return "".join(letter for letter in text if letter.isalnum())
