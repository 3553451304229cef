# pyright: strict
"""What `bench tts` found out: pure.

Two kinds of figures are told apart everywhere: wall time, which is what a listener waits, and
processor time, which is what can be compared on a busy machine without a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from pipeline.bench.analysis import percentiles, rounded

#: the seconds of an utterance whose costs are compared
SECONDS = (1, 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What something took.

    Parameters:
        wall_s: by the clock.
        cpu_s: of the processor, over all threads; None: not known.
    """

    wall_s: float
    cpu_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """One text that was spoken.

    Parameters:
        first_s: from the request to its first audio.
        total_s: to its last.
        audio_s: how long it plays.
    """

    first_s: float
    total_s: float
    audio_s: float

    @property
    def rtf(self) -> float:
        """Seconds of work a second of audio."""
        return self.total_s / self.audio_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Texts that were spoken under the same circumstances.

    Parameters:
        spoken: those that came to their end.
        wall_s: how long all of it took.
        failures: the others, by code.
        decode_steps_per_token: passes of the language model a speech token; None: not known.
        memory_mb: held afterwards; None: not known.
    """

    spoken: Sequence[Spoken]
    wall_s: float
    failures: Mapping[str, int] = field(default_factory=dict[str, int])
    decode_steps_per_token: float | None = None
    memory_mb: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The step as the object has it."""
        audio_s = sum(each.audio_s for each in self.spoken)
        return {
            "requests": len(self.spoken),
            "failures": dict(self.failures),
            "first_chunk_ms": percentiles(1e3 * each.first_s for each in self.spoken),
            "total_ms": percentiles(1e3 * each.total_s for each in self.spoken),
            "rtf": percentiles((each.rtf for each in self.spoken), 3),
            "audio_s": round(audio_s, 2),
            "requests_per_s": round(len(self.spoken) / self.wall_s, 3),
            "audio_s_per_s": round(audio_s / self.wall_s, 3),
            "decode_steps_per_token": rounded(self.decode_steps_per_token, 3),
            "memory_mb": rounded(self.memory_mb, 0),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondCost:
    """Processor time of one second of speech, by the stage that takes it.

    Parameters:
        llm: 25 speech tokens.
        flow: their mel frames.
        vocoder: their samples.
        euler_steps: of the flow's ten that were taken, the others being the same; None: all.
    """

    llm: float
    flow: float
    vocoder: float
    euler_steps: int | None = None

    @property
    def total(self) -> float:
        """All stages."""
        return self.llm + self.flow + self.vocoder


@dataclass(slots=True, kw_only=True)
class TtsResult:
    """What was found of one engine.

    Parameters:
        about: which, and how it was measured.
        first: to the first audio, of first requests.
        later: the same of those that follow.
        by_length: by characters of the text.
        by_concurrency: by requests at a time.
        seconds: what the n-th second of an utterance costs.
        decode_steps_per_token: see `Step`; of four requests at a time.
        memory_mb: held when all was measured; with random weights after four requests at a time.
        peer: the same of the engine that it is compared with.
        compare: what `ratio` is of.
    """

    about: str
    first: list[Cost] = field(default_factory=list[Cost])
    later: list[Cost] = field(default_factory=list[Cost])
    by_length: dict[int, Step] = field(default_factory=dict[int, Step])
    by_concurrency: dict[int, Step] = field(default_factory=dict[int, Step])
    seconds: dict[int, SecondCost] = field(default_factory=dict[int, SecondCost])
    decode_steps_per_token: float | None = None
    memory_mb: float | None = None
    peer: TtsResult | None = None
    compare: Literal["cpu", "wall"] = "wall"

    def to_json(self) -> dict[str, Any]:
        """The one object that --json prints."""
        return {
            **self._own_json(),
            "peer": self.peer._own_json() if self.peer else None,
            "ratio": {
                "of": self.compare,
                "first": self._ratio("first"),
                "later": self._ratio("later"),
            },
        }

    def _own_json(self) -> dict[str, Any]:
        first_s = self._wall_s("first")
        later = percentiles(1e3 * each.wall_s for each in self.later)
        costs = {f"second_{at}": rounded(cost.total, 3) for at, cost in self.seconds.items()}
        return {
            "engine": self.about,
            "first_chunk_ms": {
                "first": None if first_s is None else rounded(1e3 * first_s),
                "later_p50": later["p50"],
                "later_p95": later["p95"],
            },
            "first_chunk_cpu_s": {
                "first": rounded(self.cpu_s("first"), 3),
                "later": rounded(self.cpu_s("later"), 3),
            },
            "first_chunk_runs": {"first": len(self.first), "later": len(self.later)},
            "by_length": {str(n): step.to_json() for n, step in self.by_length.items()},
            "by_concurrency": {str(n): step.to_json() for n, step in self.by_concurrency.items()},
            "cpu_s_per_audio_s": {
                **dict.fromkeys(f"second_{at}" for at in SECONDS),
                **costs,
                "stages": {
                    f"second_{at}": {
                        "llm": rounded(cost.llm, 3),
                        "flow": rounded(cost.flow, 3),
                        "vocoder": rounded(cost.vocoder, 3),
                    }
                    for at, cost in self.seconds.items()
                },
                "euler_steps": {
                    f"second_{at}": cost.euler_steps
                    for at, cost in self.seconds.items()
                    if cost.euler_steps is not None
                },
            },
            "decode_steps_per_token": rounded(self.decode_steps_per_token, 3),
            "memory_mb": rounded(self.memory_mb, 0),
        }

    def cpu_s(self, which: Literal["first", "later"]) -> float | None:
        """Processor time to the first audio, the median."""
        costs = self.first if which == "first" else self.later
        known = [each.cpu_s for each in costs if each.cpu_s is not None]
        return _median(known)

    def _wall_s(self, which: Literal["first", "later"]) -> float | None:
        costs = self.first if which == "first" else self.later
        return _median(each.wall_s for each in costs)

    def _ratio(self, which: Literal["first", "later"]) -> float | None:
        if self.peer is None:
            return None
        if self.compare == "cpu":
            own, other = self.cpu_s(which), self.peer.cpu_s(which)
        else:
            own, other = self._wall_s(which), self.peer._wall_s(which)
        return rounded(own / other, 3) if own is not None and other else None


def _median(values: Any) -> float | None:
    known = [*values]
    return median(known) if known else None
