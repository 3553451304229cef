"""A recogniser that hears when a test says so, and tells what became of its jobs."""

from __future__ import annotations

import asyncio

from services.asr.base import (
    SAMPLE_RATE,
    AsrEngine,
    OnPartial,
    Recogniser,
    Samples,
    Transcript,
    Word,
)
from tts_engine.engine import EngineStats


class ValveAsr(AsrEngine):
    """Recognises a piece whenever it is given a text, a failure, or its own length.

    Attributes:
        asked: lengths of the pieces that it was asked for, seconds.
        ended: how many of those are over, whether recognised or not.
        open_handles: those that are not closed.
        languages, hints: what the handles were told, in their order.
        restarting: it is not ready.
    """

    def __init__(self) -> None:
        self.stats = EngineStats()
        self.asked: list[float] = []
        self.ended = 0
        self.open_handles = 0
        self.languages: list[tuple[str, ...] | None] = []
        self.hints: list[tuple[str, ...]] = []
        self.restarting = False
        self.valve: asyncio.Queue[Exception | Transcript] = asyncio.Queue()

    @property
    def ready(self) -> bool:
        return not self.restarting

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def give(self, *parts: Exception | str | Transcript) -> None:
        """What the pieces are, in the order in which they are asked for."""
        for part in parts:
            self.valve.put_nowait(
                Transcript(text=part, language="en") if isinstance(part, str) else part
            )

    def open(self, *, session: str, on_partial: OnPartial | None = None) -> ValveRecogniser:
        self.open_handles += 1
        return ValveRecogniser(self)


class ValveRecogniser(Recogniser):
    """A handle; made by `ValveAsr.open`."""

    def __init__(self, engine: ValveAsr) -> None:
        self._engine = engine
        self._fed = 0

    def feed(self, samples: Samples) -> None:
        self._fed += len(samples)

    async def finalise(self) -> Transcript:
        self._engine.asked.append(self._fed / SAMPLE_RATE)
        try:
            part = await self._engine.valve.get()
        finally:
            self._engine.ended += 1
        if isinstance(part, Exception):
            raise part
        return part

    def restrict(self, languages: tuple[str, ...] | None) -> None:
        self._engine.languages.append(languages)

    def hint(self, words: tuple[str, ...]) -> None:
        self._engine.hints.append(words)

    def cancel(self) -> None:
        pass

    def reset(self) -> None:
        self._fed = 0

    def close(self) -> None:
        self._engine.open_handles -= 1


def word(text: str, start_s: float, end_s: float) -> Word:
    return Word(text=text, start_s=start_s, end_s=end_s)
