"""So many conversations at a time hear utterances, each the next one when its last is over."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.bench.asr_corpus import Utterance
from pipeline.bench.asr_listening import Heard, Listener, Manner
from pipeline.bench.asr_result import Step
from services.asr.base import AsrEngine, Samples
from tts_engine.errors import AtCapacity, EngineFailed, TimedOut

#: the beginnings of conversations that speak are spread over so long, seconds
_SPREAD_S = 1.0
#: what a recogniser may fail with
_FAILURES = (AtCapacity, TimedOut, EngineFailed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A recogniser that is measured.

    Parameters:
        about: for reports.
        engine: started.
        manner: how it listens to what is spoken.
        cpu_s: processor time that it has used.
        memory_mb: that it holds.
    """

    about: str
    engine: AsrEngine
    manner: Manner
    cpu_s: Callable[[], float]
    memory_mb: Callable[[], float]


@dataclass(slots=True, kw_only=True)
class Crowd:
    """Conversations of one side.

    Parameters:
        side: who hears.
        count: how many at a time.
        spoken: at the pace of speech; False: as files, as fast as they are taken.
        kept: recordings that are decoded already.
        tolerant: failures are counted; else the first is raised.
        tick: called for every utterance that is over.
    """

    side: Side
    count: int
    spoken: bool
    kept: Mapping[Path, Samples] = field(default_factory=dict[Path, Samples])
    tolerant: bool = True
    tick: Callable[[], None] = lambda: None
    _heard: list[tuple[Utterance, Heard]] = field(init=False, default_factory=list)
    _failures: Counter[str] = field(init=False, default_factory=Counter[str])
    #: processor time of decoding files, which is not the recogniser's
    _decoding_s: float = field(init=False, default=0.0)

    async def hear(
        self, said: Sequence[Utterance]
    ) -> tuple[Step, Sequence[tuple[Utterance, Heard]]]:
        """Hears all of it; every conversation has recognised something before the clock starts.

        Returns:
            What was measured, and what was heard.

        Raises:
            BadAudio: of a recording.
            AtCapacity, TimedOut, EngineFailed: unless they are counted.
        """
        manner = self.side.manner if self.spoken else None
        listeners = [
            Listener(self.side.engine, name=f"bench-{number}", manner=manner)
            for number in range(self.count)
        ]
        try:
            first = await self._samples(said[0])
            await asyncio.gather(*(self._warm_up(each, first) for each in listeners))
            self._decoding_s = 0.0
            used, began = self.side.cpu_s(), time.monotonic()
            work = iter(said)
            await asyncio.gather(
                *(self._converse(each, work, number) for number, each in enumerate(listeners))
            )
            wall_s, used = time.monotonic() - began, self.side.cpu_s() - used
        finally:
            for each in listeners:
                each.close()
        step = Step(
            heard=[heard for _, heard in self._heard],
            wall_s=wall_s,
            cpu_s=max(0.0, used - self._decoding_s),
            memory_mb=self.side.memory_mb(),
            failures=self._failures,
        )
        return step, self._heard

    async def _warm_up(self, listener: Listener, samples: Samples) -> None:
        try:
            await listener.warm_up(samples)
        except _FAILURES:  # it will fail again where that is counted
            if not self.tolerant:
                raise

    async def _converse(self, listener: Listener, work: Iterator[Utterance], number: int) -> None:
        if self.spoken:
            await asyncio.sleep(_SPREAD_S * number / self.count)
        for utterance in work:
            samples = await self._samples(utterance)
            try:
                self._heard.append((utterance, await listener.hear(samples)))
            except _FAILURES as error:
                if not self.tolerant:
                    raise
                self._failures[error.code] += 1
            self.tick()

    async def _samples(self, utterance: Utterance) -> Samples:
        kept = self.kept.get(utterance.path)
        if kept is not None:
            return kept

        def decode() -> tuple[Samples, float]:
            began = time.thread_time()
            return utterance.samples(), time.thread_time() - began

        samples, took_s = await asyncio.to_thread(decode)
        self._decoding_s += took_s
        return samples
