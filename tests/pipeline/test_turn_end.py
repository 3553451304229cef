"""Invariants: the acoustic model is asked about the sound of the turn, moves its end inside its
bounds, and is never waited for.
"""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.ear import EarSettings
from pipeline.turns.settings import TurnSettings
from services.turn_end.base import TurnEndEngine
from tests.pipeline.harness import conversation
from tts_engine.engine import EngineStats

KEPT = EarSettings(keeps_turn=True)


class Opinion(TurnEndEngine):
    """An engine that thinks what it is told to; None: never."""

    def __init__(self, probability: float | None) -> None:
        self.stats = EngineStats()
        self.heard: list[NDArray[np.float32]] = []
        self._probability = probability

    async def start(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to end."""

    async def probability(self, samples: NDArray[np.float32], *, session: str) -> float | None:
        self.heard.append(samples)
        if self._probability == -1:
            await asyncio.Event().wait()
        return self._probability


async def waited_ms(opinion: Opinion) -> float:
    """Silence after which a turn was ended."""
    turns = TurnSettings(floor_ms=300, ceiling_ms=1500, speculate=False)
    async with conversation(turn_end=opinion, ear=KEPT, turns=turns) as talk:
        await talk.microphone.say(0.6)
        (ended,) = await talk.sink.wait("turn_ended")
        (opened,) = talk.sink.of("turn_opened")[0]
        await talk.sink.wait("end")
        return ended - opened - 600


async def test_what_it_hears_and_what_that_does() -> None:
    opinion = Opinion(0.02)
    assert await waited_ms(opinion) > 350
    [samples] = opinion.heard
    assert samples.dtype == np.float32
    # The turn with its pre-roll, up to the silence at which the text was asked for.
    assert 0.6 + 0.12 <= len(samples) / 16_000 <= 0.6 + 0.3 + 0.5
    assert np.abs(samples).max() > 0.1


@pytest.mark.parametrize("probability", [None, -1, 0.99])
async def test_no_opinion_is_not_waited_for(probability: float | None) -> None:
    assert await waited_ms(Opinion(probability)) <= 350


async def test_a_user_who_goes_on_is_not_judged() -> None:
    opinion = Opinion(-1)
    async with conversation(turn_end=opinion, ear=KEPT, asr={"delay_s": 0.4}) as talk:
        await talk.microphone.say(0.6)
        await talk.microphone.say(0.6)
        await talk.sink.wait("end")
        assert len(talk.sink.of("final")) == 1
