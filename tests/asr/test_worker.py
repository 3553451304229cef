"""Finals run in order and ahead of partials; what is withdrawn costs nothing; all ends joined."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from services.asr.worker import Check, DecodeWorker
from tts_engine.engine import EngineStats
from tts_engine.errors import AtCapacity, BadAudio, EngineFailed

from .fakes import Gate


@pytest.fixture
def stats() -> EngineStats:
    return EngineStats()


@pytest.fixture
async def worker(stats: EngineStats) -> AsyncIterator[DecodeWorker[str]]:
    worker: DecodeWorker[str] = DecodeWorker(name="tester", queue_limit=2, stats=stats)
    worker.start()
    yield worker
    await worker.close()


def held(gate: Gate, log: list[str], name: str) -> Callable[[Check], str]:
    def run(check: Check) -> str:
        gate.pass_through()
        check()
        log.append(name)
        return name

    return run


def plain(log: list[str], name: str) -> Callable[[Check], str]:
    def run(check: Check) -> str:
        log.append(name)
        return name

    return run


async def test_finals_run_in_order(worker: DecodeWorker[str], stats: EngineStats) -> None:
    gate, log = Gate(), list[str]()
    jobs = [worker.submit(held(gate, log, "a"))]
    await gate.reached()
    jobs += [worker.submit(plain(log, "b")), worker.submit(plain(log, "c"))]
    assert stats.depth == 3
    gate.opened.set()
    assert await asyncio.gather(*(job.future for job in jobs)) == ["a", "b", "c"]
    assert log == ["a", "b", "c"]
    assert (stats.depth, stats.jobs) == (0, 3)


async def test_capacity(worker: DecodeWorker[str], stats: EngineStats) -> None:
    gate, log = Gate(), list[str]()
    running = worker.submit(held(gate, log, "a"))
    await gate.reached()
    waiting = [worker.submit(plain(log, "b")), worker.submit(plain(log, "c"))]
    with pytest.raises(AtCapacity, match="2 utterances wait"):
        worker.submit(plain(log, "d"))
    assert stats.errors == {"at_capacity": 1}
    worker.withdraw(waiting[0])
    worker.submit(plain(log, "d"))
    gate.opened.set()
    await asyncio.gather(running.future, waiting[1].future)
    assert waiting[0].future.cancelled()
    assert "b" not in log


async def test_a_partial_is_taken_only_when_idle(worker: DecodeWorker[str]) -> None:
    gate, log = Gate(), list[str]()
    final = worker.submit(held(gate, log, "final"))
    assert worker.offer(plain(log, "partial")) is None
    await gate.reached()
    assert worker.offer(plain(log, "partial")) is None
    gate.opened.set()
    await final.future
    assert log == ["final"]


async def test_a_partial_gives_way_to_a_final(
    worker: DecodeWorker[str], stats: EngineStats
) -> None:
    gate, log = Gate(), list[str]()
    partial = worker.offer(held(gate, log, "partial"))
    assert partial is not None
    await gate.reached()
    final = worker.submit(plain(log, "final"))
    assert partial.future.cancelled()
    gate.opened.set()
    assert await final.future == "final"
    assert log == ["final"]
    assert (stats.depth, stats.jobs) == (0, 1)


async def test_failures_are_the_callers_own(worker: DecodeWorker[str], stats: EngineStats) -> None:
    def broken(check: Check) -> str:
        raise RuntimeError("no memory")

    def refused(check: Check) -> str:
        raise BadAudio("no")

    with pytest.raises(EngineFailed, match="tester failed: RuntimeError: no memory") as caught:
        await worker.submit(broken).future
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(BadAudio):
        await worker.submit(refused).future
    assert await worker.submit(plain([], "well")).future == "well"
    assert stats.errors == {"engine_failed": 1, "bad_audio": 1}


async def test_close_fails_what_waits_and_joins(stats: EngineStats) -> None:
    worker: DecodeWorker[str] = DecodeWorker(name="closing", queue_limit=2, stats=stats)
    worker.start()
    gate, log = Gate(), list[str]()
    running = worker.submit(held(gate, log, "a"))
    await gate.reached()
    waiting = worker.submit(plain(log, "b"))
    closing = asyncio.create_task(worker.close())
    for job in (running, waiting):
        with pytest.raises(EngineFailed, match="closing is closed"):
            await job.future
    gate.opened.set()
    await closing
    assert log == []
    assert all(thread.name != "closing" for thread in threading.enumerate())
    with pytest.raises(EngineFailed, match="is closed"):
        worker.submit(plain(log, "c"))
    assert worker.offer(plain(log, "c")) is None
    await worker.close()
    assert stats.depth == 0


async def test_a_worker_that_was_not_started(stats: EngineStats) -> None:
    worker: DecodeWorker[str] = DecodeWorker(name="idle", queue_limit=2, stats=stats)
    with pytest.raises(EngineFailed, match="was not started"):
        worker.submit(plain([], "a"))
    assert worker.offer(plain([], "a")) is None
    await worker.close()
