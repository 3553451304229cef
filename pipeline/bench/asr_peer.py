"""pipecat's own FunASR service as a recogniser, to be measured beside ours.

It runs in a process of its own (`asr_peer_worker`). What it cannot do: it makes no partials, and
has nothing to say before the detector has ended the segment.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

import numpy as np

from pipeline.bench.asr_wire import REPORTS, Feed, Ready, Settings, Stop, Text
from services.asr.base import AsrEngine, OnPartial, Recogniser, Samples, Transcript
from tts_engine.engine import EngineStats
from tts_engine.errors import DuplexdError, EngineFailed, TimedOut
from tts_engine.frames import Failed, error_of
from tts_engine.worker_process import WorkerProcess, program

#: silence at which pipecat's detector, as it comes, ends a segment, milliseconds
SILENCE_MS = 200.0
_CHILD = program("pipeline.bench.asr_peer_worker")
#: loading a model of full size takes half a minute on a CPU, of every conversation
_TIMEOUT_S = 600.0


class PipecatFunAsr(AsrEngine):
    """The service, one for each conversation at a time; those that are over leave theirs behind.

    Parameters:
        settings: of the process.
        command: its program.
        timeout_s: bound of a text, with the loading of the conversation's model.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        command: Sequence[str] = _CHILD,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self.stats = EngineStats()
        self._timeout_s = timeout_s
        self._ids = itertools.count()
        self._sessions = itertools.count()
        self._free: list[int] = []
        self._texts: dict[int, asyncio.Future[str]] = {}
        self._worker = WorkerProcess(
            name="pipecat's FunASR service",
            kinds=REPORTS,
            settings=settings,
            on_report=self._on_report,
            on_death=self._fail,
            command=command,
        )

    @property
    def pid(self) -> int | None:
        """Of its process, while there is one."""
        return self._worker.pid

    async def start(self) -> None:
        """See AsrEngine; models are loaded by conversations."""
        await self._worker.start()

    def open(self, *, session: str, on_partial: OnPartial | None = None) -> Recogniser:
        """See AsrEngine; there will be no partials."""
        return _Session(self, self._free.pop() if self._free else next(self._sessions))

    async def close(self) -> None:
        """See AsrEngine."""
        self._fail(EngineFailed("pipecat's FunASR service is closed"))
        await self._worker.close()

    def feed(self, session: int, samples: Samples) -> None:
        """Passes audio on."""
        pcm = (np.clip(samples, -1.0, 1.0) * 32767).astype(np.int16).tobytes()
        self._worker.send(Feed(session=session, payload=pcm))

    async def text(self, session: int) -> str:
        """Ends the segment; its text.

        Raises:
            EngineFailed, TimedOut
        """
        id = next(self._ids)
        future = self._texts[id] = asyncio.get_running_loop().create_future()
        try:
            self._worker.send(Stop(id=id, session=session))
            async with asyncio.timeout(self._timeout_s):
                return await future
        except TimeoutError:
            raise TimedOut(
                f"pipecat's FunASR service did not answer within {self._timeout_s:g} s"
            ) from None
        finally:
            del self._texts[id]

    def leave(self, session: int) -> None:
        """The conversation is over."""
        self._free.append(session)

    def _on_report(self, report: Ready | Text | Failed) -> None:
        match report:
            case Ready():
                pass
            case Text():
                if (future := self._texts.get(report.id)) and not future.done():
                    future.set_result(report.text)
            case Failed():
                error = error_of(report)
                if (future := self._texts.get(report.id)) and not future.done():
                    future.set_exception(error)

    def _fail(self, error: DuplexdError) -> None:
        for future in self._texts.values():
            if not future.done():
                future.set_exception(EngineFailed(error.message, mend=error.mend))


class _Session(Recogniser):
    """A segment at a time: `finalise` ends it."""

    def __init__(self, engine: PipecatFunAsr, session: int) -> None:
        self._engine = engine
        self._session = session

    def feed(self, samples: Samples) -> None:
        self._engine.feed(self._session, samples)

    async def finalise(self) -> Transcript:
        return Transcript(text=await self._engine.text(self._session))

    def restrict(self, languages: tuple[str, ...] | None) -> None:
        del languages  # it tells them apart by itself

    def cancel(self) -> None:
        """It cannot."""

    def reset(self) -> None:
        """A segment that was ended is forgotten."""

    def close(self) -> None:
        self._engine.leave(self._session)
