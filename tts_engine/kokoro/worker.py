"""The one thread that synthesises, and the bounded, fair queue in front of it.

A job is one utterance. The thread makes one part of it at a time, and jobs take turns, so a long
text of one conversation does not hold up the first words of another.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import onnxruntime
from loguru import logger

from tts_engine.errors import AtCapacity, DuplexdError, EngineFailed

T = TypeVar("T")

#: Makes an utterance part by part. Runs in the worker's thread; the run options are those that its
#: inference must use, so that it can be stopped.
Work = Callable[[onnxruntime.RunOptions], Iterator[T]]


class Job(Generic[T]):
    """An utterance on its way.

    Parameters:
        work: makes it.
    """

    def __init__(self, work: Work[T]) -> None:
        self.options = onnxruntime.RunOptions()
        self.cancelled = False
        #: seconds between queueing and the start; None while it waits
        self.waited_s: float | None = None
        self.parts = work(self.options)
        self._queued = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._results: asyncio.Queue[T | DuplexdError | None] = asyncio.Queue()

    async def result(self) -> T | None:
        """The next part, or None behind the last.

        Raises:
            EngineFailed
        """
        got = await self._results.get()
        if isinstance(got, DuplexdError):
            raise got
        return got

    def started(self) -> None:
        """Called in the worker's thread when the job's turn comes; only the first time counts."""
        if self.waited_s is None:
            self.waited_s = time.monotonic() - self._queued

    def deliver(self, result: T | DuplexdError | None) -> None:
        """Called in the worker's thread."""
        try:
            self._loop.call_soon_threadsafe(self._results.put_nowait, result)
        except RuntimeError:  # its loop is closed: nobody waits any more
            self.cancelled = True


class Worker(Generic[T]):
    """Runs jobs part by part, in turns, in a thread of its own.

    Parameters:
        name: of the thread, and in messages.
        queue_limit: jobs that may wait or run.
    """

    def __init__(self, *, name: str, queue_limit: int) -> None:
        self._name = name
        self._queue_limit = queue_limit
        self._changed = threading.Condition()
        self._waiting: deque[Job[T]] = deque()
        self._running: Job[T] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def depth(self) -> int:
        """Jobs that wait or run."""
        return len(self._waiting) + (self._running is not None)

    def start(self) -> None:
        """Starts the thread; does nothing when it runs or was closed."""
        with self._changed:
            if self._thread is not None or self._closed:
                return
            # A daemon, so that a process that dies without close() does not hang on it.
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    def submit(self, work: Work[T]) -> Job[T]:
        """Queues an utterance; on the event loop.

        Raises:
            AtCapacity: `queue_limit` jobs wait or run.
            EngineFailed: the worker does not run.
        """
        with self._changed:
            if self._thread is None or self._closed:
                raise EngineFailed(f"{self._name} is not running")
            if self.depth >= self._queue_limit:
                raise AtCapacity(
                    f"{self._queue_limit} utterances wait for {self._name}",
                    mend="Raise the voice's queue_limit, or serve fewer sessions",
                )
            job = Job(work)
            self._waiting.append(job)
            self._changed.notify()
        return job

    def cancel(self, job: Job[T]) -> None:
        """Gives a job up: one that waits never starts, one that runs stops at its next node."""
        with self._changed:
            job.cancelled = True
            if job in self._waiting:
                self._waiting.remove(job)
            elif job is self._running:
                job.options.terminate = True

    async def close(self) -> None:
        """Fails every job and joins the thread. Idempotent."""
        with self._changed:
            self._closed = True
            jobs = [*self._waiting, *filter(None, [self._running])]
            self._changed.notify()
        for job in jobs:
            job.deliver(EngineFailed(f"{self._name} was closed"))
            self.cancel(job)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                job = self._running = self._waiting.popleft()
            job.started()
            more = self._step(job)
            with self._changed:
                self._running = None
                if more and not job.cancelled and not self._closed:
                    self._waiting.append(job)

    def _step(self, job: Job[T]) -> bool:
        """Makes one part. Returns whether there may be another."""
        try:
            part = next(job.parts, None)
        # Whatever a job's text brings about is that job's failure, never the thread's.
        except Exception as error:
            if job.cancelled:  # onnxruntime raises when it is told to stop
                return False
            logger.opt(exception=error).error("{} failed", self._name)
            job.deliver(EngineFailed(f"{self._name} failed: {error}"))
            return False
        if not job.cancelled:
            job.deliver(part)
        return part is not None
