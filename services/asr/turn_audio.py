"""The audio of a turn: a buffer that never copies what it holds, and where to cut it.

Blocks are only ever appended to, so a snapshot taken on the event loop may be joined in another
thread while more is fed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.asr.base import SAMPLE_RATE, Samples

#: samples per block: 1 s
BLOCK = SAMPLE_RATE
#: seconds dropped at once when a turn grows too long. Not block by block, so that the places where
#: a long turn is cut, which are counted from its start, stay for a while.
DROP_S = 30
#: samples per loudness frame: 20 ms
FRAME = 320
#: below this in its loudest frame, audio holds nothing that could be understood
SILENCE_DBFS = -60.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The turn's audio at one moment.

    Parameters:
        start: position of the first sample kept, in samples since the start of the turn.
        end: position after the last one.
        blocks: BLOCK samples each; the last may be filled only in part.
    """

    start: int
    end: int
    blocks: tuple[Samples, ...]

    def join(self) -> Samples:
        """All samples in one array."""
        if not self.blocks:
            return np.empty(0, dtype=np.float32)
        return np.concatenate(self.blocks)[: self.end - self.start]


class TurnAudio:
    """Growing audio of one turn; the oldest is dropped beyond `limit_s` (by DROP_S at once)."""

    def __init__(self, *, limit_s: float) -> None:
        self._limit = int(limit_s) + DROP_S
        self._blocks: list[Samples] = []
        self._start = 0
        self._end = 0

    @property
    def end(self) -> int:
        """Samples fed since the start of the turn."""
        return self._end

    def append(self, samples: Samples) -> None:
        """Adds samples: any length, copied."""
        done = 0
        while done < samples.size:
            used = (self._end - self._start) % BLOCK
            if used == 0:
                self._blocks.append(np.empty(BLOCK, dtype=np.float32))
            taken = min(BLOCK - used, samples.size - done)
            self._blocks[-1][used : used + taken] = samples[done : done + taken]
            done += taken
            self._end += taken
            if len(self._blocks) > self._limit:
                del self._blocks[:DROP_S]
                self._start += DROP_S * BLOCK

    def snapshot(self) -> Snapshot:
        """The audio as it is now; costs nothing per sample."""
        return Snapshot(self._start, self._end, tuple(self._blocks))


def _energies(samples: Samples) -> NDArray[np.float32]:
    """Mean square of each FRAME; a rest shorter than a frame is left out."""
    frames = samples[: samples.size // FRAME * FRAME].reshape(-1, FRAME)
    return np.einsum("ij,ij->i", frames, frames) / FRAME


def is_silent(samples: Samples) -> bool:
    """True when no 20 ms of `samples` reach SILENCE_DBFS."""
    energies = _energies(samples)
    return energies.size == 0 or bool(energies.max() < 10.0 ** (SILENCE_DBFS / 10.0))


def pieces(samples: Samples, *, longest_s: float) -> Iterator[tuple[int, int]]:
    """Cuts long audio at its quietest places.

    Where a piece ends depends only on the `longest_s` that follow its start, so the pieces of
    growing audio stay the same, except the last.

    Args:
        samples: the audio.
        longest_s: a piece is at most this long, and, but for the last, at least half of it.

    Yields:
        Start and end of each piece, in samples.
    """
    longest = int(longest_s * SAMPLE_RATE) // FRAME
    around = 15  # 300 ms: longer than the closure of a plosive inside a word
    start = 0
    while samples.size - start > longest * FRAME:
        energies = _energies(samples[start : start + longest * FRAME])
        loudness = np.convolve(energies, np.ones(around), mode="same")
        first, last = longest // 2, longest - around
        quietest = first + int(loudness[first:last].argmin())
        end = start + quietest * FRAME
        yield start, end
        start = end
    yield start, samples.size
