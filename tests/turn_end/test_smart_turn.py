"""Opinions are the model's, come off the loop, and only for who asked last; no opinion is None."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from pipecat.audio.turn.smart_turn._whisper_features import compute_whisper_log_mel_features

from services.scripted.speech import synthetic_speech
from services.turn_end import smart_turn
from services.turn_end.smart_turn import WINDOW, SmartTurn, features, load_smart_turn
from tests.asr.fakes import Gate
from tts_engine.errors import EngineFailed

Samples = NDArray[np.float32]


def speech(seconds: float) -> Samples:
    pcm = synthetic_speech(seconds=seconds, tail_s=0.2)
    return (pcm / 32768).astype(np.float32)


class FakeModel:
    """Says the first sample; stops at the gate of a session's number, if there is one."""

    def __init__(self) -> None:
        self.heard: list[float] = []
        self.threads: set[int] = set()
        self.gate: Gate | None = None
        self.error: Exception | None = None

    def __call__(self, samples: Samples) -> float:
        if samples.size == WINDOW:
            return 0.5  # the warm-up
        self.threads.add(threading.get_ident())
        if self.gate is not None:
            self.gate.pass_through()
        if self.error is not None:
            raise self.error
        self.heard.append(round(float(samples[0]), 3))
        return self.heard[-1]


@pytest.fixture
def model() -> FakeModel:
    return FakeModel()


@pytest.fixture
async def engine(model: FakeModel) -> AsyncIterator[SmartTurn]:
    engine = SmartTurn(queue_limit=2, load=lambda: model)
    await engine.start()
    yield engine
    await engine.close()


def saying(value: float) -> Samples:
    return np.full(100, value, dtype=np.float32)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nothing tells; the loop turns meanwhile
            await asyncio.sleep(0)


def ask(engine: SmartTurn, value: float, session: str) -> asyncio.Task[float | None]:
    return asyncio.create_task(engine.probability(saying(value), session=session))


# --- the model -------------------------------------------------------------------------------
@pytest.mark.parametrize("seconds", [0.5, 3, 9])
def test_features_are_those_that_the_model_was_made_with(seconds: float) -> None:
    heard = speech(seconds)
    padded = np.zeros(WINDOW, dtype=np.float32)
    padded[-min(WINDOW, heard.size) :] = heard[-WINDOW:]
    expected = compute_whisper_log_mel_features(padded)
    assert features(heard).shape == expected.shape == (80, 800)
    assert np.abs(features(heard) - expected).max() < 1e-3


async def test_the_bundled_model_has_an_opinion_of_anything() -> None:
    engine = SmartTurn()
    await engine.start()
    try:
        for heard in (speech(2), speech(20), np.zeros(16_000, np.float32), np.zeros(0, np.float32)):
            probability = await engine.probability(heard, session="a")
            assert probability is not None
            assert 0.0 <= probability <= 1.0
        assert engine.stats.jobs == 4
    finally:
        await engine.close()


async def test_a_model_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def joinpath(self, _: str) -> Broken:
            return self

        def read_bytes(self) -> bytes:
            return b"not a model"

    monkeypatch.setattr(smart_turn.resources, "files", lambda _: Broken())
    with pytest.raises(EngineFailed, match="cannot be loaded"):
        load_smart_turn()


async def test_a_model_that_cannot_compute_fails_at_the_start() -> None:
    def broken(_: Samples) -> float:
        raise RuntimeError("illegal instruction")

    with pytest.raises(EngineFailed, match="illegal instruction"):
        await SmartTurn(load=lambda: broken).start()


# --- the queue -------------------------------------------------------------------------------
async def test_an_opinion(engine: SmartTurn, model: FakeModel) -> None:
    waited: list[float] = []
    engine.stats.on_wait = waited.append
    assert await ask(engine, 0.25, "a") == 0.25
    assert (engine.stats.depth, engine.stats.jobs, engine.stats.errors) == (0, 1, {})
    assert len(waited) == 1
    assert threading.get_ident() not in model.threads


async def test_the_loop_runs_while_the_model_computes(engine: SmartTurn, model: FakeModel) -> None:
    model.gate = Gate()
    asked = ask(engine, 0.5, "a")
    await model.gate.reached()
    turns = 0
    while turns < 100:
        await asyncio.sleep(0)
        turns += 1
    assert not asked.done()
    model.gate.opened.set()
    assert await asked == 0.5


async def test_a_later_request_of_the_session_overtakes(
    engine: SmartTurn, model: FakeModel
) -> None:
    model.gate = Gate()
    running = ask(engine, 0.1, "a")
    await model.gate.reached()
    waiting = ask(engine, 0.2, "a")
    assert await running is None
    other = ask(engine, 0.3, "b")
    last = ask(engine, 0.4, "a")
    assert await waiting is None
    model.gate.opened.set()
    assert await asyncio.gather(other, last) == [0.3, 0.4]
    # The one that waited was never computed; of the one that ran nobody heard.
    assert model.heard == [0.1, 0.3, 0.4]


async def test_who_is_cancelled_costs_nothing_more(engine: SmartTurn, model: FakeModel) -> None:
    model.gate = Gate()
    running = ask(engine, 0.1, "a")
    await model.gate.reached()
    waiting = ask(engine, 0.2, "b")
    await until(lambda: engine.stats.depth == 2)
    waiting.cancel()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(asyncio.CancelledError):
        await running
    model.gate.opened.set()
    model.gate = None
    assert await ask(engine, 0.3, "b") == 0.3
    assert 0.2 not in model.heard
    await until(lambda: engine.stats.depth == 0)


async def test_at_capacity_there_is_no_opinion(engine: SmartTurn, model: FakeModel) -> None:
    model.gate = Gate()
    running = ask(engine, 0.1, "a")
    await model.gate.reached()
    waiting = [ask(engine, 0.2, "b"), ask(engine, 0.3, "c")]
    await until(lambda: engine.stats.depth == 3)
    assert await ask(engine, 0.4, "d") is None
    assert engine.stats.errors == {"at_capacity": 1}
    model.gate.opened.set()
    assert await asyncio.gather(running, *waiting) == [0.1, 0.2, 0.3]


async def test_the_buffer_may_be_used_again(engine: SmartTurn, model: FakeModel) -> None:
    model.gate = Gate()
    running = ask(engine, 0.1, "a")
    await model.gate.reached()
    buffer = saying(0.2)
    asked = asyncio.create_task(engine.probability(buffer, session="b"))
    await until(lambda: engine.stats.depth == 2)
    buffer[:] = 0.9
    model.gate.opened.set()
    assert await asyncio.gather(running, asked) == [0.1, 0.2]


async def test_a_failure_is_counted_and_is_no_opinion(engine: SmartTurn, model: FakeModel) -> None:
    model.error = RuntimeError("out of memory")
    assert await ask(engine, 0.1, "a") is None
    assert engine.stats.errors == {"engine_failed": 1}
    model.error = None
    assert await ask(engine, 0.2, "a") == 0.2


async def test_close_ends_what_waits(engine: SmartTurn, model: FakeModel) -> None:
    model.gate = Gate()
    running, waiting = ask(engine, 0.1, "a"), ask(engine, 0.2, "b")
    await model.gate.reached()
    await until(lambda: engine.stats.depth == 2)
    closing = asyncio.create_task(engine.close())
    assert await asyncio.gather(running, waiting) == [None, None]
    model.gate.opened.set()
    await closing
    await engine.close()
    assert await ask(engine, 0.3, "a") is None
    assert model.heard == [0.1]
