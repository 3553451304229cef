"""What was said and what was heard, on one clock: left the microphone, right the loudspeaker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from tts_engine.errors import BadAudio, BadRequest

#: samples per second of both channels
RATE = 24_000


class Playback:
    """A loudspeaker that plays what arrives, gapless, and starts when the first of it comes.

    Positions are samples since the recording began.
    """

    def __init__(self) -> None:
        self._end = 0
        #: pieces in the order of their positions: position, samples
        self.pieces: list[tuple[int, NDArray[np.int16]]] = []

    @property
    def end(self) -> int:
        """Where the audio that has arrived ends."""
        return self._end

    def arrive(self, position: int, samples: NDArray[np.int16]) -> int:
        """Audio arrived at `position`; it is played then, or behind what still plays.

        Returns:
            The position at which it starts to sound.
        """
        start = max(position, self._end)
        self.pieces.append((start, samples))
        self._end = start + len(samples)
        return start

    def flush(self, position: int) -> None:
        """What was not played by `position` is dropped."""
        kept: list[tuple[int, NDArray[np.int16]]] = []
        for start, samples in self.pieces:
            if start < position:
                kept.append((start, samples[: position - start]))
        self.pieces = kept
        self._end = min(self._end, position)


class StereoRecording:
    """Both channels of a conversation."""

    def __init__(self) -> None:
        self.sent: list[NDArray[np.int16]] = []
        self.heard = Playback()

    def left(self) -> NDArray[np.int16]:
        """What was sent, from the start."""
        return np.concatenate(self.sent) if self.sent else np.zeros(0, np.int16)

    def right(self) -> NDArray[np.int16]:
        """What was heard, from the start."""
        channel = np.zeros(self.heard.end, np.int16)
        for start, samples in self.heard.pieces:
            channel[start : start + len(samples)] = samples
        return channel

    def write(self, path: Path) -> None:
        """Writes a stereo file in a format that `check_writable` has accepted."""
        left, right = self.left(), self.right()
        both = np.zeros((max(len(left), len(right)), 2), np.int16)
        both[: len(left), 0] = left
        both[: len(right), 1] = right
        soundfile.write(path, both, RATE, subtype="PCM_16")


def check_writable(path: Path) -> None:
    """Refuses a name under which no recording can be written, before it is made.

    Raises:
        BadRequest: the name's ending is no format for it, or its folder is not there.
    """
    if not soundfile.check_format(path.suffix.removeprefix(".").upper() or "-", "PCM_16"):
        raise BadRequest(f"Cannot write {path}: unknown format", mend="End the name in .wav")
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise BadRequest(f"Cannot write {path}: no such folder", mend="Make it first")


def read_mono(path: Path) -> NDArray[np.int16]:
    """Reads an audio file as mono int16 at RATE.

    Raises:
        BadAudio: it is not there, not audio, or empty.
    """
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, RuntimeError) as error:
        raise BadAudio(f"Cannot read {path}: {error}", mend="Give a WAV or FLAC file") from error
    if not len(samples):
        raise BadAudio(f"{path} holds no audio")
    mono = soxr.resample(samples.mean(axis=1), rate, RATE)
    return (np.clip(mono, -1, 1) * 32767).astype(np.int16)
