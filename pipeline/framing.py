"""The audio of one answer, from the voice's chunks to frames of its face."""

from __future__ import annotations

import numpy as np
import soxr
from numpy.typing import NDArray

from pipeline.latency import ENERGY_FRAME_S, ENERGY_RUN, first_sound

#: how much is searched for a sound at once, seconds: it is found early, or there is a lot to search
_SEARCH_S = 0.1


class Framer:
    """Cuts audio into frames of one length, at the face's rate, without a gap or a repeat.

    Args:
        rate: of the frames, samples per second.
        frame_ms: their length.
    """

    def __init__(self, *, rate: int, frame_ms: int) -> None:
        self._rate = rate
        self._size = rate * frame_ms // 1000 * 2
        self._pcm = b""
        self._at = 0  # bytes of `_pcm` that have been taken
        self._resampler: soxr.ResampleStream | None = None

    @property
    def rest(self) -> bool:
        """There is audio that was not taken."""
        return self._at < len(self._pcm)

    def push(self, pcm: bytes, rate: int) -> None:
        """Adds audio, int16 mono; of one rate as long as the answer lasts."""
        if rate != self._rate:
            pcm = self._resample(pcm, rate)
        self._pcm = self._pcm[self._at :] + pcm
        self._at = 0

    def finish(self) -> None:
        """Adds what the resampler holds back: no audio follows."""
        if self._resampler is not None:
            last = self._resampler.resample_chunk(np.zeros(0, np.int16), last=True)
            self._pcm = self._pcm[self._at :] + last.tobytes()
            self._at = 0

    def take(self) -> bytes | None:
        """The next whole frame; None if there is none."""
        end = self._at + self._size
        if end > len(self._pcm):
            return None
        frame = self._pcm[self._at : end]
        self._at = end
        return frame

    def take_rest(self) -> bytes:
        """All that was not taken."""
        frame, self._pcm, self._at = self._pcm[self._at :], b"", 0
        return frame

    def _resample(self, pcm: bytes, rate: int) -> bytes:
        if not pcm:
            return b""
        if self._resampler is None:
            # LQ holds back 12 ms of audio, pipecat's default VHQ 75 ms.
            self._resampler = soxr.ResampleStream(rate, self._rate, 1, dtype="int16", quality="LQ")
        return self._resampler.resample_chunk(np.frombuffer(pcm, np.int16)).tobytes()


class SoundFinder:
    """Finds the first audible sample of audio that comes in pieces, by the energy rule."""

    def __init__(self) -> None:
        self._base = 0  # where `_tail` begins
        self._tail: NDArray[np.int16] = np.zeros(0, np.int16)
        #: where it lies, milliseconds; None as long as there was none
        self.found_ms: float | None = None

    def push(self, pcm: bytes, rate: int) -> None:
        """Searches what was added, int16 mono; nothing once it was found."""
        samples = np.frombuffer(pcm, np.int16)
        step = round(rate * _SEARCH_S)
        for start in range(0, len(samples), step):
            if self.found_ms is not None:
                return
            self._search(samples[start : start + step], rate)

    def _search(self, samples: NDArray[np.int16], rate: int) -> None:
        heard = np.concatenate((self._tail, samples))
        at = first_sound(heard, rate)
        if at is not None:
            self.found_ms = (self._base + at) * 1000 / rate
            return
        # a run of sounding frames may have begun in the last of them
        frame = round(rate * ENERGY_FRAME_S)
        done = max(0, len(heard) // frame - (ENERGY_RUN - 1)) * frame
        self._base += done
        self._tail = heard[done:]
