"""What was played and what the microphone gave, as `probe.js` has measured it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from services.scripted.speech import synthetic_speech

#: samples of a render quantum
QUANTUM = 128
#: louder than this is sound: -50 dBFS
LEAST_POWER = 1e-5
#: silence that is shorter belongs to the sound around it: two syllables, two zero crossings
JOIN_S = 0.02

_RATE = 48_000


def write_microphone(path: Path, voiced: Sequence[tuple[float, float]], *, seconds: float) -> Path:
    """Writes what the microphone is to hear.

    Args:
        path: of the WAV file.
        voiced: (start, length) of every stretch of voice, seconds.
        seconds: of the whole.
    """
    samples = np.zeros(round(seconds * _RATE), np.int16)
    for start, length in voiced:
        voice = synthetic_speech(seconds=length, rate=_RATE)
        at = round(start * _RATE)
        samples[at : at + len(voice)] = voice
    soundfile.write(path, samples, _RATE)
    return path


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of sound, seconds on the clock of its context."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """Loudness over time: the time of each render quantum, and its power."""

    times: NDArray[np.float64]
    power: NDArray[np.float64]

    def spans(self, *, join_s: float = JOIN_S) -> list[Span]:
        """The stretches of sound.

        Args:
            join_s: longest silence inside a stretch, seconds.
        """
        result: list[Span] = []
        step = float(self.times[1] - self.times[0]) if len(self.times) > 1 else 0.0
        for time in self.times[self.power > LEAST_POWER].tolist():
            if result and time - result[-1].end <= join_s:
                result[-1] = Span(result[-1].start, time + step)
            else:
                result.append(Span(time, time + step))
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """One audio context of a page: what it sent to the loudspeaker, and the microphone beside it.

    Both are on the clock of the context, so that their times compare exactly.
    """

    speaker: Track
    microphone: Track
    #: periods of what was played that began in each render quantum
    cycles: NDArray[np.float64]

    @classmethod
    def read(cls, context: dict[str, Any]) -> Sound:
        """One item of `probe.read()`."""
        step = QUANTUM / context["rate"]
        starts = [start + step * np.arange(len(part) // 3) for start, part in context["parts"]]
        values = [np.reshape(part, (-1, 3)) for _, part in context["parts"]]
        times = np.concatenate([np.zeros(0), *starts])
        power, cycles, microphone = np.concatenate([np.zeros((0, 3)), *values]).T
        return cls(
            speaker=Track(times=times, power=power),
            microphone=Track(times=times, power=microphone),
            cycles=cycles,
        )

    def tone(self, start: float, end: float) -> float:
        """The tone of the longest sound without a hole between two times, Hz.

        A hole splits a period, and moves the count by more than a tone can be told apart by.
        """
        times = self.speaker.times
        step = float(times[1] - times[0])
        spans = self.speaker.spans(join_s=step / 2)
        longest = max(
            (Span(max(span.start, start), min(span.end, end)) for span in spans),
            key=lambda span: span.seconds,
        )
        inside = (times >= longest.start - step / 2) & (times < longest.end - step / 2)
        return float(self.cycles[inside].sum() / (np.count_nonzero(inside) * step))
