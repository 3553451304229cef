"""The passes of `bench asr`: every recogniser hears the same, alone and several at a time.

Where there are two recognisers they take turns, pass by pass, so that what the machine does
meanwhile is about the same for both.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pipeline.bench.asr_corpus import Utterance
from pipeline.bench.asr_crowd import Crowd, Side
from pipeline.bench.asr_listening import Heard
from pipeline.bench.asr_result import AsrResult, Level, Step
from pipeline.bench.asr_score import Scored, scored
from pipeline.bench.progress import OnProgress
from services.asr.base import Samples

#: conversations at a time that are measured unless others are wanted
COUNTS = (1, 2, 4, 8)
#: utterances that each conversation hears where there are most; all levels hear the same ones
_EACH = 3
#: an utterance that is spoken takes about as long as so many files
_SLOWER = 8.0


class Passes:
    """Measures recognisers.

    Parameters:
        sides: ours, then whom it is compared with.
        utterances: what they hear.
        counts: conversations at a time.
        paced: they hear it at the pace of speech, too.
        on_progress: is told how far it is.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        utterances: Sequence[Utterance],
        *,
        counts: Sequence[int] = COUNTS,
        paced: bool = True,
        on_progress: OnProgress,
    ) -> None:
        self._sides = sides
        self._utterances = utterances
        self._counts = counts
        self._paces = (False, True) if paced else (False,)
        most = _EACH * max(counts, default=0)
        self._sample = list(itertools.islice(itertools.cycle(utterances), most))
        self._on_progress = on_progress
        self._done = 0.0
        levels = [(1, len(utterances)), *((count, len(self._sample)) for count in counts)]
        self._all = len(sides) * sum(
            _work(spoken, count) * length for spoken in self._paces for count, length in levels
        )

    async def run(self) -> list[AsrResult]:
        """Measures; one result a side.

        Raises:
            BadAudio: of a recording.
            AtCapacity, TimedOut, EngineFailed: what one conversation at a time fails with; of
                several it is counted.
        """
        results = [
            AsrResult(about=side.about, asked_ms=side.manner.silence_ms) for side in self._sides
        ]
        alone = await self._level(1, self._utterances, {}, alone=True)
        for result, (level, lines) in zip(results, alone, strict=True):
            result.alone, result.lines = level, lines
        kept = {each.path: await asyncio.to_thread(each.samples) for each in set(self._sample)}
        for count in self._counts:
            found = await self._level(count, self._sample, kept)
            for result, (level, _) in zip(results, found, strict=True):
                result.by_concurrency[count] = level
        return results

    async def _level(
        self,
        count: int,
        said: Sequence[Utterance],
        kept: Mapping[Path, Samples],
        *,
        alone: bool = False,
    ) -> list[tuple[Level, list[Scored]]]:
        """What each side makes of the same utterances, as files and spoken; the files' texts."""
        steps: list[list[Step]] = [[] for _ in self._sides]
        lines: list[list[Scored]] = [[] for _ in self._sides]
        for spoken in self._paces:
            for number, side in enumerate(self._sides):
                crowd = Crowd(
                    side=side,
                    count=count,
                    spoken=spoken,
                    kept=kept,
                    tolerant=not alone,
                    tick=self._ticker(side, count, spoken),
                )
                step, heard = await crowd.hear(said)
                steps[number].append(step)
                if alone and not spoken:
                    lines[number] = [_scored(utterance, each) for utterance, each in heard]
        levels = [Level(files=each[0], spoken=each[1] if each[1:] else None) for each in steps]
        return list(zip(levels, lines, strict=True))

    def _ticker(self, side: Side, count: int, spoken: bool) -> Callable[[], None]:
        words = f"{side.about}: {count} at a time, {'as spoken' if spoken else 'files'}"

        def tick() -> None:
            self._done += _work(spoken, count)
            self._on_progress(min(1.0, self._done / self._all), words)

        return tick


def _work(spoken: bool, count: int) -> float:
    """How long an utterance takes beside others."""
    return _SLOWER / count if spoken else 1.0


def _scored(utterance: Utterance, heard: Heard) -> Scored:
    return scored(
        name=utterance.name,
        language=utterance.language,
        said=utterance.text,
        heard=heard.text,
    )
