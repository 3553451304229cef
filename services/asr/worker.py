"""The one thread in which a recogniser decodes, and the bounded queue in front of it.

Finals run in the order they came. Partials are only a courtesy: one is taken when the thread has
nothing to do, and gives way as soon as a final comes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from loguru import logger

from tts_engine.engine import EngineStats
from tts_engine.errors import AtCapacity, DuplexdError, EngineFailed

T = TypeVar("T")

#: called by a job between its steps; raises Withdrawn when nobody wants the result any more
Check = Callable[[], None]


class Withdrawn(Exception):
    """Ends a job whose result is not wanted; never seen outside the worker."""


class Job(Generic[T]):
    """A piece of work and the future of its result."""

    def __init__(self, run: Callable[[Check], T], *, final: bool) -> None:
        self.run = run
        self.final = final
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.withdrawn = False
        self.queued_at = time.monotonic()

    def check(self) -> None:
        """Raises Withdrawn when the job was withdrawn."""
        if self.withdrawn:
            raise Withdrawn


class DecodeWorker(Generic[T]):
    """Runs jobs one after another in a thread of its own.

    Every method is called on the event loop and returns at once.

    Parameters:
        name: of the thread, and in messages.
        queue_limit: finals that may wait.
        stats: updated on the event loop.
    """

    def __init__(self, *, name: str, queue_limit: int, stats: EngineStats) -> None:
        self._name = name
        self._queue_limit = queue_limit
        self._stats = stats
        self._changed = threading.Condition()
        self._waiting: deque[Job[T]] = deque()
        self._running: Job[T] | None = None
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread."""
        self._loop = asyncio.get_running_loop()
        # A daemon, so that a process that dies without close() does not hang on it.
        self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        self._thread.start()

    def submit(self, run: Callable[[Check], T]) -> Job[T]:
        """Queues a final.

        Raises:
            AtCapacity: `queue_limit` finals wait.
            EngineFailed: the worker is closed or was not started.
        """
        with self._changed:
            self._refuse_when_closed()
            for partial in [job for job in (*self._waiting, self._running) if job]:
                if not partial.final:
                    self._withdraw(partial)
            if len(self._waiting) >= self._queue_limit:
                raise self.failed(
                    AtCapacity(
                        f"{self._queue_limit} utterances wait for {self._name}",
                        mend="Raise the recogniser's queue_limit, or serve fewer sessions",
                    )
                )
            return self._enqueue(Job(run, final=True))

    def offer(self, run: Callable[[Check], T]) -> Job[T] | None:
        """Queues a partial, if the worker is idle.

        Returns:
            The job, or None when there is other work.
        """
        with self._changed:
            if self._closed or self._thread is None or self._waiting or self._running:
                return None
            return self._enqueue(Job(run, final=False))

    def withdraw(self, job: Job[T]) -> None:
        """Gives up a job: one that waits is never started, one that runs ends at its next step.

        Its future is cancelled. Does nothing to a job that is done.
        """
        with self._changed:
            self._withdraw(job)

    async def close(self) -> None:
        """Fails every job with EngineFailed and joins the thread. Idempotent."""
        with self._changed:
            self._closed = True
            for job in [job for job in (*self._waiting, self._running) if job]:
                if not job.future.done():
                    job.future.set_exception(EngineFailed(f"{self._name} is closed"))
                    job.future.exception()  # a partial's is read by nobody
                self._withdraw(job)
            self._changed.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def failed(self, error: DuplexdError) -> DuplexdError:
        """Counts and logs a failure; returns it, to be raised."""
        self._stats.errors[error.code] = self._stats.errors.get(error.code, 0) + 1
        logger.warning(f"{self._name}: {error}")
        return error

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise EngineFailed(f"{self._name} is closed")
        if self._thread is None:
            raise EngineFailed(f"{self._name} was not started")

    def _enqueue(self, job: Job[T]) -> Job[T]:
        self._waiting.append(job)
        self._stats.depth += 1
        self._changed.notify()
        return job

    def _withdraw(self, job: Job[T]) -> None:
        job.withdrawn = True
        job.future.cancel()
        if job in self._waiting:
            self._waiting.remove(job)
            self._stats.depth -= 1

    def _work(self) -> None:
        loop = self._loop
        assert loop is not None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                self._running = job = self._waiting.popleft()
            waited_s = time.monotonic() - job.queued_at
            result: T | None = None
            error: Exception | None = None
            try:
                result = job.run(job.check)
            except Exception as raised:
                error = raised
            # Before the result is told: whoever hears of it may offer the next partial at once.
            with self._changed:
                self._running = None
            loop.call_soon_threadsafe(self._settle, job, waited_s, result, error)

    def _settle(
        self, job: Job[T], waited_s: float, result: T | None, error: Exception | None
    ) -> None:
        self._stats.depth -= 1
        self._stats.on_wait(waited_s)
        if job.future.done() or isinstance(error, Withdrawn):
            return
        self._stats.jobs += 1
        if error is None:
            job.future.set_result(result)  # pyright: ignore[reportArgumentType] - T may be None
            return
        failure = (
            error
            if isinstance(error, DuplexdError)
            else EngineFailed(f"{self._name} failed: {type(error).__name__}: {error}")
        )
        failure.__cause__ = error if failure is not error else None
        job.future.set_exception(self.failed(failure))
        job.future.exception()  # whoever waits still gets it; a partial's is read by nobody
