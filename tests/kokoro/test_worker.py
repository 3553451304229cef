"""Jobs take turns, a cancelled one ends, a failing one fails alone, close leaves nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import onnxruntime
import pytest

from tts_engine.errors import AtCapacity, EngineFailed
from tts_engine.kokoro.worker import Worker

Work = Callable[[onnxruntime.RunOptions], Iterator[str]]


def parts(*names: str, gate: threading.Event | None = None) -> Work:
    def work(_: onnxruntime.RunOptions) -> Iterator[str]:
        for name in names:
            if gate is not None:
                assert gate.wait(10)
            yield name

    return work


@pytest.fixture
async def worker():
    worker: Worker[str] = Worker(name="test voice", queue_limit=3)
    worker.start()
    worker.start()  # a second start does nothing
    yield worker
    await worker.close()
    await worker.close()
    assert not any(thread.name == "test voice" for thread in threading.enumerate())


async def test_jobs_take_turns(worker: Worker[str]) -> None:
    gate, order = threading.Event(), list[str]()

    def recorded(*names: str) -> Work:
        def work(_: onnxruntime.RunOptions) -> Iterator[str]:
            assert gate.wait(10)
            for name in names:
                order.append(name)
                yield name

        return work

    one = worker.submit(recorded("a1", "a2", "a3"))
    two = worker.submit(recorded("b1", "b2"))
    assert worker.depth == 2
    gate.set()
    assert [await one.result() for _ in range(4)] == ["a1", "a2", "a3", None]
    assert [await two.result() for _ in range(3)] == ["b1", "b2", None]
    assert order == ["a1", "b1", "a2", "b2", "a3"]
    assert one.waited_s is not None
    assert one.waited_s >= 0


async def test_capacity(worker: Worker[str]) -> None:
    gate = threading.Event()
    jobs = [worker.submit(parts("x", gate=gate)) for _ in range(3)]
    with pytest.raises(AtCapacity):
        worker.submit(parts("y"))
    worker.cancel(jobs[2])
    jobs[2] = worker.submit(parts("z", gate=gate))
    gate.set()
    assert [await job.result() for job in jobs] == ["x", "x", "z"]


async def test_a_cancelled_job_never_goes_on(worker: Worker[str]) -> None:
    gate, entered, made = threading.Event(), threading.Event(), list[str]()

    def slow(options: onnxruntime.RunOptions) -> Iterator[str]:
        entered.set()
        assert gate.wait(10)
        made.append("first")
        yield "first"
        made.append("second")
        yield "second"

    running = worker.submit(slow)
    waiting = worker.submit(parts("never"))
    await asyncio.to_thread(entered.wait, 10)
    worker.cancel(running)
    worker.cancel(waiting)
    assert running.options.terminate
    assert not waiting.options.terminate
    gate.set()
    assert await worker.submit(parts("after")).result() == "after"
    assert made == ["first"]
    assert running._results.empty()
    assert waiting._results.empty()


async def test_stopping_a_run_is_no_failure(worker: Worker[str]) -> None:
    gate, entered = threading.Event(), threading.Event()

    def stopped(_: onnxruntime.RunOptions) -> Iterator[str]:
        entered.set()
        assert gate.wait(10)
        raise RuntimeError("terminate flag is set")
        yield ""

    job = worker.submit(stopped)
    await asyncio.to_thread(entered.wait, 10)
    worker.cancel(job)
    gate.set()
    assert await worker.submit(parts("after")).result() == "after"
    assert job._results.empty()


async def test_a_failure_is_the_jobs_own(worker: Worker[str]) -> None:
    def broken(_: onnxruntime.RunOptions) -> Iterator[str]:
        yield "fine"
        raise ValueError("no such phoneme")

    bad, good = worker.submit(broken), worker.submit(parts("x", "y"))
    assert await bad.result() == "fine"
    with pytest.raises(EngineFailed, match="no such phoneme"):
        await bad.result()
    assert [await good.result() for _ in range(3)] == ["x", "y", None]


async def test_close_fails_what_waits() -> None:
    worker: Worker[str] = Worker(name="closing voice", queue_limit=3)
    with pytest.raises(EngineFailed, match="not running"):
        worker.submit(parts("x"))
    worker.start()
    gate, entered = threading.Event(), threading.Event()

    def slow(_: onnxruntime.RunOptions) -> Iterator[str]:
        entered.set()
        assert gate.wait(10)
        yield "late"

    jobs = [worker.submit(slow), worker.submit(parts("y"))]
    await asyncio.to_thread(entered.wait, 10)
    closing = asyncio.create_task(worker.close())
    for job in jobs:
        with pytest.raises(EngineFailed, match="closed"):
            await job.result()
    gate.set()
    await closing
    with pytest.raises(EngineFailed):
        worker.submit(parts("x"))


def test_a_loop_that_ended_is_survived() -> None:
    """A caller whose loop is gone must not end the thread that serves the others."""
    worker: Worker[str] = Worker(name="lonely voice", queue_limit=3)
    worker.start()
    gate, done = threading.Event(), threading.Event()

    def work(_: onnxruntime.RunOptions) -> Iterator[str]:
        assert gate.wait(10)
        yield "nobody hears this"

    async def leave() -> None:
        worker.submit(work)

    async def ask() -> str | None:
        return await worker.submit(parts("still here")).result()

    asyncio.run(leave())
    gate.set()
    assert asyncio.run(ask()) == "still here"
    done.set()
    asyncio.run(worker.close())
