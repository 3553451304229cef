"""Measures a speaker by the clock: the first chunk, texts of several lengths, several at a time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.bench.progress import OnProgress
from pipeline.bench.tts_result import Cost, Spoken, Step, TtsResult
from pipeline.bench.tts_speakers import Speaker, timed
from pipeline.bench.tts_texts import INTRODUCTION, text_of
from tts_engine.errors import DuplexdError

#: characters of the texts, and requests at a time, that are measured unless others are wanted
LENGTHS = (20, 50, 100, 200)
COUNTS = (1, 2, 4, 8, 10)
#: characters of the texts that are spoken several at a time
SHORT = 50
#: requests at a time of which `decode_steps_per_token` is told
SHARED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What is measured.

    Parameters:
        lengths: characters of the texts.
        counts: requests at a time.
        repeat: requests of each length, and of each of those at a time.
    """

    lengths: Sequence[int] = LENGTHS
    counts: Sequence[int] = COUNTS
    repeat: int = 5

    @property
    def texts(self) -> int:
        """How many texts are spoken in it."""
        return self.repeat * (1 + len(self.lengths) + sum(self.counts)) + 1


async def sweep(speaker: Speaker, plan: Sweep, on_progress: OnProgress) -> TtsResult:
    """Measures a speaker that is ready.

    Raises:
        DuplexdError: what one request at a time fails with; of several at a time it is counted.
    """
    result = TtsResult(about=speaker.about)
    done = 0

    def tell(texts: int, words: str) -> None:
        nonlocal done
        on_progress(done / plan.texts, words)
        done += texts

    tell(1, "the first request")
    result.first = [_cost(await timed(speaker, INTRODUCTION))]
    tell(plan.repeat, "later requests")
    result.later = [_cost(await timed(speaker, INTRODUCTION)) for _ in range(plan.repeat)]
    for length in plan.lengths:
        tell(plan.repeat, f"{length} characters")
        result.by_length[length] = await one_by_one(speaker, length, plan.repeat)
    for count in plan.counts:
        tell(count * plan.repeat, f"{count} at a time")
        result.by_concurrency[count] = await at_a_time(speaker, count, plan.repeat)
    shared = result.by_concurrency.get(SHARED)
    result.decode_steps_per_token = shared.decode_steps_per_token if shared else None
    result.memory_mb = speaker.memory_mb
    return result


async def one_by_one(speaker: Speaker, length: int, repeat: int) -> Step:
    """Texts of so many characters, one after the other.

    Raises:
        DuplexdError: of the first that fails.
    """
    began = time.perf_counter()
    spoken = [await timed(speaker, text_of(length, turn=turn)) for turn in range(repeat)]
    return Step(spoken=spoken, wall_s=time.perf_counter() - began, memory_mb=speaker.memory_mb)


async def at_a_time(speaker: Speaker, count: int, repeat: int) -> Step:
    """So many clients, each of which asks for its next text when it has heard the last one."""
    spoken: list[Spoken] = []
    failures: Counter[str] = Counter()

    async def client(number: int) -> None:
        for turn in range(repeat):
            try:
                spoken.append(await timed(speaker, text_of(SHORT, turn=number + turn)))
            except DuplexdError as error:
                failures[error.code] += 1

    before, began = speaker.decoding, time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(count)))
    took, after = time.perf_counter() - began, speaker.decoding
    return Step(
        spoken=spoken,
        wall_s=took,
        failures=failures,
        decode_steps_per_token=_per_token(before, after),
        memory_mb=speaker.memory_mb,
    )


def _per_token(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    if before is None or after is None or after[1] == before[1]:
        return None
    return (after[0] - before[0]) / (after[1] - before[1])


def _cost(spoken: Spoken) -> Cost:
    return Cost(wall_s=spoken.first_s)
