"""What was said and what was heard, on one clock: left the microphone, right the loudspeaker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from tts_engine.errors import BadAudio, BadRequest

#: samples per second of both channels
RATE = 24_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """Samples that were played without a gap.

    Parameters:
        start: position of the first one.
        samples: mono int16 at RATE.
        source: whose they are.
    """

    start: int
    samples: NDArray[np.int16]
    source: object

    @property
    def end(self) -> int:
        """Position just past the last one."""
        return self.start + len(self.samples)


class Playback:
    """A loudspeaker that plays what arrives, gapless, and starts when the first of it comes.

    Positions are samples since the recording began, and do not go back from call to call.
    """

    def __init__(self) -> None:
        self._end = 0
        #: what waits while it is paused; None: it plays
        self._held: list[Piece] | None = None
        #: what was or will be played, in the order of their positions
        self.pieces: list[Piece] = []

    @property
    def end(self) -> int:
        """Where the audio that will be played ends; what a pause holds is not counted."""
        return self._end

    def of(self, source: object) -> list[Piece]:
        """What was or will be played of a source."""
        return [piece for piece in self.pieces if piece.source is source]

    def arrive(self, position: int, samples: NDArray[np.int16], source: object = None) -> None:
        """Audio arrived at `position`; it is played then, or behind what still plays."""
        piece = Piece(start=max(position, self._end), samples=samples, source=source)
        if self._held is not None:
            self._held.append(piece)
            return
        self.pieces.append(piece)
        self._end = piece.end

    def pause(self, position: int) -> None:
        """Falls silent at `position`, and keeps what was not played."""
        if self._held is None:
            self._held = self._cut(position)

    def resume(self, position: int) -> None:
        """Goes on at `position`, from the exact sample."""
        held, self._held = self._held, None
        for piece in held or ():
            self.arrive(position, piece.samples, piece.source)

    def flush(self, position: int) -> None:
        """What was not played by `position` is dropped; a pause is over."""
        self._cut(position)
        self._held = None

    def _cut(self, position: int) -> list[Piece]:
        """Takes out what would be played from `position` on."""
        kept: list[Piece] = []
        taken: list[Piece] = []
        for piece in self.pieces:
            played = max(0, position - piece.start)
            if played:
                kept.append(replace(piece, samples=piece.samples[:played]))
            if len(piece.samples) > played:
                taken.append(replace(piece, samples=piece.samples[played:]))
        self.pieces = kept
        self._end = min(self._end, position)
        return taken


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
        for piece in self.heard.pieces:
            channel[piece.start : piece.end] = piece.samples
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
        with path.open("rb") as file:
            samples, rate = soundfile.read(file, dtype="float32", always_2d=True)
    except OSError as error:
        raise BadAudio(f"Cannot read {path}: {error.strerror or error}") from error
    except RuntimeError as error:
        raise BadAudio(f"Cannot read {path}: {error}", mend="Give a WAV or FLAC file") from error
    if not len(samples):
        raise BadAudio(f"{path} holds no audio")
    mono = soxr.resample(samples.mean(axis=1), rate, RATE)
    return (np.clip(mono, -1, 1) * 32767).astype(np.int16)
