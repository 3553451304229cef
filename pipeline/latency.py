"""The only definition of every latency stamp, part, rule and unit.

Voice to voice (v2v) is the time from the last voiced sample of the user to the first audible
sample of the answer, at the client. Both ends obey one energy rule: 10 ms frames, RMS above
-45 dBFS, three in a row.

Stamps are seconds on one monotonic clock (CLOCK_MONOTONIC, shared by the processes of a machine).
Parts are increments of the running maximum of the stamps in the order of `PATH`, so they sum to
v2v even when work overlaps; the overlapped work itself is listed beside them.

        voiced_end  the last voiced sample left the microphone            (client)
        received    the frame that holds it was read from the socket
        vad         the detector had seen the window that holds it
        endpoint    the turn core decided that the turn is over
        final       the recogniser's final text was there; before the endpoint, where it was asked
                    for early
        first_token the LLM's first token was there
        clause      the first clause was complete
        chunk       the voice's first chunk was there
        sent        the answer's first frame was handed to the socket
        audible     the first audible sample was due, counted from `sent`
        heard       the first audible sample was played                   (client)

Beside the path, and in no part: `asked`, when the recogniser was asked for the text that was
committed, and `speculated`, when an answer to it was begun before the turn had ended, if the answer
is that one. Its stamps up to `chunk` then lie before the endpoint, and their parts come to nothing.

`v2v_server_ms` spans received..audible: what the daemon can know alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: length of an energy frame, seconds
ENERGY_FRAME_S = 0.010
#: RMS above which a frame counts as sound, dB relative to full scale
ENERGY_THRESHOLD_DBFS = -45.0
#: frames in a row that make sound
ENERGY_RUN = 3

#: stamps in the order of the critical path, each with the part that ends at it
PATH: tuple[tuple[str, str], ...] = (
    ("voiced_end", ""),
    ("received", "frame_in"),
    ("vad", "vad_lag"),
    ("endpoint", "endpoint_wait"),
    ("final", "asr_final"),
    ("first_token", "llm_first_token"),
    ("clause", "first_clause"),
    ("chunk", "tts_first_chunk"),
    ("sent", "gate_wait"),
    ("audible", "leading_silence"),
    ("heard", "frame_out"),
)
#: parts of v2v in the order of the critical path
PARTS: tuple[str, ...] = tuple(part for _, part in PATH[1:])
#: buckets of the v2v histograms, seconds
BUCKETS_S = (
    0.05,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
    0.65,
    0.8,
    1.0,
    1.25,
    1.5,
    2.0,
    2.5,
    3.0,
    4.0,
    6.0,
    10.0,
)


def sounding(samples: NDArray[Any], rate: int) -> NDArray[np.bool_]:
    """Applies the energy rule.

    Args:
        samples: mono audio, int16 or float in [-1, 1].
        rate: samples per second.

    Returns:
        One bool per whole 10 ms frame: the frame belongs to a run of at least ENERGY_RUN frames
        above the threshold.
    """
    size = round(rate * ENERGY_FRAME_S)
    count = len(samples) // size
    if count == 0:
        return np.zeros(0, np.bool_)
    scale = 1 / 32768 if samples.dtype == np.int16 else 1.0
    frames = samples[: count * size].astype(np.float32).reshape(count, size) * scale
    power = np.einsum("ij,ij->i", frames, frames) / size
    loud = power > 10 ** (ENERGY_THRESHOLD_DBFS / 10)
    if count < ENERGY_RUN:
        return np.zeros(count, np.bool_)
    runs = np.convolve(loud, np.ones(ENERGY_RUN, np.int32), "valid") == ENERGY_RUN
    result = np.zeros(count, np.bool_)
    for shift in range(ENERGY_RUN):
        result[shift : shift + len(runs)] |= runs
    return result


def first_sound(samples: NDArray[Any], rate: int) -> int | None:
    """Index of the first audible sample: the start of the first sounding frame."""
    frames = np.flatnonzero(sounding(samples, rate))
    return int(frames[0]) * round(rate * ENERGY_FRAME_S) if len(frames) else None


def last_sound(samples: NDArray[Any], rate: int) -> int | None:
    """Index just past the last voiced sample: the end of the last sounding frame."""
    frames = np.flatnonzero(sounding(samples, rate))
    return (int(frames[-1]) + 1) * round(rate * ENERGY_FRAME_S) if len(frames) else None


def _increments(stamps: dict[str, float]) -> Iterator[tuple[str, float]]:
    """Yields each part with its increment of the running maximum, seconds."""
    high: float | None = None
    for name, part in PATH:
        at = stamps.get(name)
        if high is None:
            high = at
            continue
        gain = max(0.0, at - high) if at is not None else 0.0
        high += gain
        yield part, gain


@dataclass(slots=True, kw_only=True)
class TurnReport:
    """The stamps of one turn, and what follows from them.

    Parameters:
        turn: number of the turn in its conversation, from 1.
        revision: revision of its answer.
        stamps: seconds on the monotonic clock by the names of PATH, and of those beside it; missing
            ones cost nothing.
        work_ms: overlapped work by name, milliseconds: what it took, wherever it lay.
        outcome: "answered", "interrupted" or "failed".
        transcript: what the user said.
        answer: what was heard of the answer.
        underruns: times the answer's audio was not ready when its frame was due.
    """

    turn: int
    revision: int = 0
    stamps: dict[str, float] = field(default_factory=dict[str, float])
    work_ms: dict[str, float] = field(default_factory=dict[str, float])
    outcome: str = ""
    transcript: str = ""
    answer: str = ""
    underruns: int = 0

    def mark(self, name: str, at: float) -> None:
        """Sets a stamp once: the first time counts."""
        self.stamps.setdefault(name, at)

    @property
    def parts_ms(self) -> dict[str, float]:
        """Milliseconds by part; they sum to the span of the stamps present."""
        return {part: gain * 1e3 for part, gain in _increments(self.stamps)}

    @property
    def v2v_server_ms(self) -> float | None:
        """received..audible, or None while either is missing."""
        return self._span("received", "audible")

    @property
    def v2v_ms(self) -> float | None:
        """voiced_end..heard, or None while either end is missing."""
        return self._span("voiced_end", "heard")

    def _span(self, start: str, end: str) -> float | None:
        if start not in self.stamps or end not in self.stamps:
            return None
        inside = [name for name, _ in PATH]
        inside = inside[inside.index(start) : inside.index(end) + 1]
        return (
            sum(
                gain
                for _, gain in _increments({k: v for k, v in self.stamps.items() if k in inside})
            )
            * 1e3
        )

    def to_json(self) -> dict[str, Any]:
        """The report as the faces, the log and `talk --json` show it; times in milliseconds."""
        return {
            "turn": self.turn,
            "revision": self.revision,
            "outcome": self.outcome,
            "transcript": self.transcript,
            "answer": self.answer,
            "v2v_server_ms": self.v2v_server_ms,
            "parts_ms": {k: round(v, 1) for k, v in self.parts_ms.items()},
            "work_ms": {k: round(v, 1) for k, v in self.work_ms.items()},
            "underruns": self.underruns,
            "stamps": dict(self.stamps),
        }
