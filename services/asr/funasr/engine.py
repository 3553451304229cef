"""FunASR as a recogniser: the models run in a process of their own, this side is asyncio.

torch holds the GIL for longer than a conversation can wait, so nothing of it is imported here. Each
handle keeps the audio of its turn; when the worker dies, whoever waited for a text fails, and the
new worker is given all the audio again.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence

from loguru import logger

from services.asr.base import SAMPLE_RATE, AsrEngine, OnPartial
from services.asr.funasr.recogniser import FunAsrRecogniser
from services.asr.funasr.stats import RecognitionStats
from services.asr.funasr.wire import (
    REPORTS,
    Cancel,
    Feed,
    Final,
    Finished,
    Forget,
    Partial,
    Ready,
    Report,
    Settings,
    Stepped,
)
from tts_engine.errors import AtCapacity, DuplexdError, EngineFailed, TimedOut
from tts_engine.frames import Failed, error_of
from tts_engine.restart import RestartPolicy
from tts_engine.worker_process import WorkerProcess, program

#: the worker's program
CHILD = program("services.asr.funasr.worker")


class FunAsrEngine(AsrEngine):
    """A recogniser in a worker process, shared by all conversations; one life.

    Parameters:
        settings: of the worker.
        languages: that turns may be in.
        hotwords: names and terms that are likely in every turn.
        partials: are made, where there is a streaming model.
        queue_limit: finals that may wait or be made.
        timeout_s: bound of `finalise`, with waiting.
        start_timeout_s: limit for loading and warming, of restarts too.
        policy: when to start the worker again.
        command: the worker's program.
        grace_s: time between SIGTERM and SIGKILL when closing.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        languages: Sequence[str] = ("zh", "en"),
        hotwords: Sequence[str] = (),
        partials: bool = True,
        queue_limit: int = 64,
        timeout_s: float = 20.0,
        start_timeout_s: float = 600.0,
        policy: RestartPolicy | None = None,
        command: Sequence[str] = CHILD,
        grace_s: float = 3.0,
    ) -> None:
        self._stats = RecognitionStats(stride_s=settings.chunk_ms / 1000)
        self.stats = self._stats
        self.languages = tuple(languages)
        self.hotwords = tuple(hotwords)
        self.timeout_s = timeout_s
        self.max_turn_s = settings.max_turn_s
        #: samples that the streaming model takes at a time
        self.chunk = settings.chunk_ms * SAMPLE_RATE // 1000
        #: whether partials are made
        self.partials = partials and settings.mode != "offline"
        self._queue_limit = queue_limit
        self._ids = itertools.count()
        self._turns: dict[int, FunAsrRecogniser] = {}
        self._finals: dict[int, asyncio.Future[Finished]] = {}
        self._heard = 0.0
        self.worker = WorkerProcess(
            name="FunASR worker",
            kinds=REPORTS,
            settings=settings,
            on_report=self._on_report,
            on_death=self._on_death,
            command=command,
            start_timeout_s=start_timeout_s,
            policy=policy,
            grace_s=grace_s,
        )

    @property
    def ready(self) -> bool:
        """It takes audio now; False while there is no worker."""
        return self.worker.state == "ready"

    async def start(self) -> None:
        """See AsrEngine.

        Raises:
            ModelError, EngineFailed, TimedOut: the worker cannot be started.
        """
        started = time.monotonic()
        await self.worker.start()
        logger.info("FunASR is ready after {:.1f} s", time.monotonic() - started)

    def open(self, *, session: str, on_partial: OnPartial | None = None) -> FunAsrRecogniser:
        """See AsrEngine."""
        return FunAsrRecogniser(engine=self, session=session, on_partial=on_partial)

    async def close(self) -> None:
        """See AsrEngine."""
        self._fail_all(EngineFailed("FunASR is closed"))
        await self.worker.close()

    # --- for its handles ------------------------------------------------------------------------
    def begin(self, recogniser: FunAsrRecogniser) -> int:
        """A number for a turn; what the worker hears in it is told to the handle."""
        turn = next(self._ids)
        self._turns[turn] = recogniser
        return turn

    def feed(self, order: Feed) -> None:
        """Gives the worker audio; while there is none it is lost, and asked for again then."""
        if self.ready:
            self.worker.send(order)

    def forget(self, turn: int) -> None:
        """Ends a turn."""
        del self._turns[turn]
        if self.ready:
            self.worker.send(Forget(turn=turn))

    def ask(
        self, turn: int, *, languages: Sequence[str], hotwords: Sequence[str]
    ) -> tuple[int, asyncio.Future[Finished]]:
        """Asks for the text of a turn as far as it was fed.

        Returns:
            Its number, to be given to `settle` in any case, and what becomes of it.

        Raises:
            AtCapacity: as many as may wait do.
            EngineFailed: there is no worker.
        """
        id = next(self._ids)
        order = Final(
            id=id,
            turn=turn,
            came=time.monotonic(),
            languages=list(languages),
            hotwords=list(hotwords),
        )
        try:
            self._refuse_when_full()
            self.worker.send(order)
        except DuplexdError as error:
            self._count(error)
            raise
        future = self._finals[id] = asyncio.get_running_loop().create_future()
        self.stats.depth += 1
        return id, future

    def _refuse_when_full(self) -> None:
        if len(self._finals) >= self._queue_limit:
            raise AtCapacity(
                f"{self._queue_limit} turns wait for FunASR",
                mend="Raise asr.funasr.queue_limit, or serve fewer sessions",
            )

    def settle(self, id: int) -> None:
        """Forgets a final that is over, or has to be: its future is cancelled."""
        future = self._finals.pop(id)
        self.stats.depth -= 1
        if not future.done():
            future.cancel()
            if self.ready:
                self.worker.send(Cancel(id=id))

    def timed_out(self) -> TimedOut:
        """A final did not come in time; a worker that says nothing at all is ended."""
        if time.monotonic() - self._heard >= self.timeout_s:
            self.worker.kill()
        error = TimedOut(
            f"FunASR did not answer within {self.timeout_s:g} s",
            mend="Give it a faster device or more threads, or serve fewer sessions",
        )
        self._count(error)
        return error

    def _count(self, error: DuplexdError) -> None:
        """Counts a failure, and writes its one log line."""
        self.stats.failed(error)
        logger.warning("FunASR: {}", error)

    # --- what the worker tells --------------------------------------------------------------------
    def _on_report(self, report: Report) -> None:
        self._heard = time.monotonic()
        match report:
            case Ready():
                for recogniser in list(self._turns.values()):
                    recogniser.feed_again()
            case Partial():
                if recogniser := self._turns.get(report.turn):
                    recogniser.on_partial(report)
            case Finished():
                future = self._finals.get(report.id)
                if future is not None and not future.done():
                    self.stats.jobs += 1
                    self.stats.on_wait(report.waited_s)
                    future.set_result(report)
            case Stepped():
                self._stats.stride_s, self._stats.due = report.stride_s, report.due
                for wait in report.waits:
                    self._stats.on_partial_wait(wait)
            case Failed():
                self._on_failure(report)

    def _on_failure(self, report: Failed) -> None:
        future, error = self._finals.get(report.id), error_of(report)
        if future is not None and not future.done():
            self._count(error)
            _refuse(future, error)
        elif report.id in self._turns:  # its partials end here; its text may come yet
            self._count(error)

    def _on_death(self, error: EngineFailed) -> None:
        self._stats.due = 0
        self._fail_all(error)

    def _fail_all(self, error: EngineFailed) -> None:
        for future in self._finals.values():
            if not future.done():
                self._count(error)
                _refuse(future, EngineFailed(error.message, mend=error.mend))


def _refuse(future: asyncio.Future[Finished], error: DuplexdError) -> None:
    future.set_exception(error)
    future.exception()  # whoever waits still gets it; there may be nobody
