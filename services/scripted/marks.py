"""What is being said, written into the sound itself: for a recogniser that shall know it exactly.

Every 10 ms the lowest bits of a few samples hold the number of the clip and how many of its
characters have been spoken by then. Nobody hears that (-90 dBFS), and it survives whatever leaves
the samples as they are: no pause, no noise, no pre-roll and no turn too many can put the recogniser
out of step.

        bit 0        32       48           64       80
            | SYNC   | clip   | characters | check  |  16 bits each but SYNC, the highest first
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: samples between two marks: 10 ms at 16 kHz
PERIOD = 160
#: largest number of a clip, and of characters
MOST = 0xFFFF

_SYNC = 0x8F1A_6C35
_SYNC_BITS = 32
_FIELD_BITS = 16
_LENGTH = _SYNC_BITS + 3 * _FIELD_BITS
_CHECK = 0x5A5A


@dataclass(frozen=True, slots=True)
class SpeechMark:
    """Where a clip is.

    Parameters:
        clip: number of the clip, from 1.
        chars: characters of its text that have been spoken.
    """

    clip: int
    chars: int


def _bits(value: int, count: int) -> NDArray[np.int16]:
    return np.array([value >> at & 1 for at in range(count - 1, -1, -1)], np.int16)


_SYNC_PATTERN = _bits(_SYNC, _SYNC_BITS)


def mark_speech(samples: NDArray[np.int16], *, clip: int, ends: Sequence[int]) -> NDArray[np.int16]:
    """Writes the marks of a clip.

    Args:
        samples: int16 at 16 kHz; noise is to be in it already.
        clip: its number, 1 to MOST.
        ends: the sample after which each character of its text has been spoken, not falling.

    Returns:
        Samples that differ by at most 1.
    """
    result = samples.copy()
    for start in range(0, len(samples) - _LENGTH + 1, PERIOD):
        chars = int(np.searchsorted(ends, start, side="right"))
        payload = np.concatenate(
            (
                _SYNC_PATTERN,
                _bits(clip, _FIELD_BITS),
                _bits(chars, _FIELD_BITS),
                _bits(clip ^ chars ^ _CHECK, _FIELD_BITS),
            )
        )
        part = result[start : start + _LENGTH]
        part[:] = (part & ~1) | payload
    return result


class MarkReader:
    """Finds marks in a stream of blocks, wherever they are cut."""

    def __init__(self) -> None:
        self._rest = np.zeros(0, np.int16)

    def feed(self, samples: NDArray[np.float32]) -> list[SpeechMark]:
        """The marks that are whole with this block.

        Args:
            samples: float32 in [-1, 1] at 16 kHz, made from int16 by 1 / 32768.
        """
        block = np.rint(samples * 32768).astype(np.int32).astype(np.int16) & 1
        bits = np.concatenate((self._rest, block))
        self._rest = bits[max(0, len(bits) - _LENGTH + 1) :].copy()
        if len(bits) < _LENGTH:
            return []
        windows = np.lib.stride_tricks.sliding_window_view(
            bits[: len(bits) - _LENGTH + _SYNC_BITS], _SYNC_BITS
        )
        found = np.flatnonzero((windows == _SYNC_PATTERN).all(axis=1))
        marks = (_read(bits[at + _SYNC_BITS : at + _LENGTH]) for at in found)
        return [mark for mark in marks if mark is not None]


def _read(fields: NDArray[np.int16]) -> SpeechMark | None:
    """The mark behind a SYNC, None if it is none."""
    weights = 1 << np.arange(_FIELD_BITS - 1, -1, -1)
    clip, chars, check = (int(field @ weights) for field in fields.reshape(3, _FIELD_BITS))
    return SpeechMark(clip, chars) if clip and check == clip ^ chars ^ _CHECK else None


class MarkedSpeech:
    """What was said since `clear`, by the marks that were heard.

    Parameters:
        text_of: text of a clip by its number.
    """

    def __init__(self, text_of: Callable[[int], str]) -> None:
        self._text_of = text_of
        self._reader = MarkReader()
        self._spans: list[tuple[int, int, int]] = []  # clip, characters before it and up to now

    @property
    def text(self) -> str:
        """The words, as far as they were spoken."""
        parts = (self._text_of(clip)[first:last] for clip, first, last in self._spans)
        return "".join(parts).strip()

    def feed(self, samples: NDArray[np.float32]) -> None:
        """Takes the next block; see `MarkReader.feed`."""
        for mark in self._reader.feed(samples):
            clip, first, last = self._spans[-1] if self._spans else (0, 0, 0)
            if clip == mark.clip and mark.chars >= last:
                self._spans[-1] = (clip, first, mark.chars)
            else:
                self._spans.append((mark.clip, mark.chars, mark.chars))

    def clear(self) -> None:
        """Forgets what was said; a mark of which half has come is still read."""
        self._spans.clear()
