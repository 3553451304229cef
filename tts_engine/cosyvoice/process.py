"""The worker process seen from the event loop: started, watched, started again when it dies.

start() -> starting -> ready <-> restarting
|                     |  five quick deaths in a row
v                     v
start() raises           failed -> (every 30 s) -> ready
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from loguru import logger

from tts_engine.child_process import ChildProcess
from tts_engine.cosyvoice.wire import Failed, Frames, Order, Report, Settings, encode, error_of
from tts_engine.errors import DuplexdError, EngineFailed, TimedOut
from tts_engine.restart import Backoff, RestartPolicy

NAME = "CosyVoice worker"
#: bytes read at a time
_READ = 1 << 18
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop()); "
    "from tts_engine.cosyvoice.worker import main; main()"
)
#: -P keeps the working directory off the import path; ours is put there whatever it is
CHILD = (sys.executable, "-P", "-c", _PROGRAM, str(Path(__file__).resolve().parents[2]))

State = Literal["starting", "ready", "restarting", "failed", "closed"]


class WorkerProcess:
    """Keeps a worker alive. One life: not to be started again.

    Parameters:
        settings: of the worker.
        on_report: called on the event loop with what it tells, the first is Ready; must not raise.
        on_death: called when it died, with what is to be told to those who waited; must not raise.
        start_timeout_s: for loading and warming, of the first start and of restarts.
        policy: when to restart.
        command: the program.
        grace_s: time between SIGTERM and SIGKILL when closing.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        on_report: Callable[[Report], None],
        on_death: Callable[[EngineFailed], None],
        start_timeout_s: float = 600.0,
        policy: RestartPolicy | None = None,
        command: Sequence[str] = CHILD,
        grace_s: float = 3.0,
    ) -> None:
        self._settings = settings
        self._on_report = on_report
        self._on_death = on_death
        self._start_timeout_s = start_timeout_s
        self._backoff = Backoff(policy or RestartPolicy())
        self._command = tuple(command)
        self._grace_s = grace_s
        self._child: ChildProcess | None = None
        self._task: asyncio.Task[Any] | None = None
        self.state: State = "starting"

    @property
    def pid(self) -> int | None:
        """Process id, while there is one."""
        return self._child.pid if self._child else None

    async def start(self) -> None:
        """Returns once the worker is ready.

        Raises:
            DuplexdError: what the worker could not do.
            EngineFailed: it ended, or `close` was called meanwhile.
            TimedOut: it was not ready in time.
        """
        launch = self._task = asyncio.create_task(self._launch(), name=f"start of the {NAME}")
        try:
            await asyncio.wait({launch})
        except asyncio.CancelledError:
            await self.close()
            raise
        if self.state == "closed" or launch.cancelled():
            raise EngineFailed(f"The {NAME} was closed while it was starting")
        if error := launch.exception():
            self.state = "failed"
            raise error
        self._task = asyncio.create_task(self._supervise(launch.result()), name=NAME)

    async def close(self) -> None:
        """Ends the worker: SIGTERM, after the grace time SIGKILL; reaped on return. Idempotent."""
        self.state = "closed"
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        child, self._child = self._child, None
        if child is not None:
            await child.stop()

    def send(self, order: Order) -> None:
        """Gives the worker an order.

        Raises:
            EngineFailed: it is not there.
        """
        if self.state != "ready" or self._child is None:
            raise EngineFailed(f"The {NAME} is not running: {self.state}")
        self._child.write(encode(order))

    def kill(self) -> None:
        """Ends a worker that hangs; it is started again."""
        if self._child is not None:
            self._child.kill()

    async def _launch(self) -> AsyncGenerator[Report, None]:
        """Brings up a worker; what it tells from then on."""
        self._child = child = await ChildProcess.spawn(
            self._command, name=NAME, grace_s=self._grace_s
        )
        child.write(encode(self._settings))
        reports = _reports(child.stdout)
        try:
            async with asyncio.timeout(self._start_timeout_s):
                first = await anext(reports, None)
        except TimeoutError:
            await child.stop()
            raise TimedOut(
                f"The {NAME} was not ready after {self._start_timeout_s:g} s{child.last_words()}"
            ) from None
        if first is None or isinstance(first, Failed):
            await child.stop()
            if first is None:
                raise EngineFailed(f"{child.obituary()} before it was ready{child.last_words()}")
            raise error_of(first)
        self._enter("ready", f"process {child.pid}")
        self._on_report(first)
        return reports

    async def _supervise(self, reports: AsyncGenerator[Report, None]) -> None:
        """Passes on what the worker and its successors tell, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            since = clock()
            async for report in reports:
                self._on_report(report)
            cause = await self._bury()
            self._on_death(EngineFailed(cause))
            reports = await self._revive(cause, served_s=clock() - since)

    async def _bury(self) -> str:
        """Waits for the end of a worker that has closed its output; what happened."""
        child = self._child
        assert child is not None
        try:
            async with asyncio.timeout(self._grace_s):
                return await child.ended()
        except TimeoutError:
            await child.stop()
            return await child.ended()

    async def _revive(self, cause: str, *, served_s: float) -> AsyncGenerator[Report, None]:
        """Tries until a new worker is up."""
        while True:
            verdict = self._backoff.died(served_s=served_s)
            state: State = "failed" if verdict.failed else "restarting"
            self._enter(state, f"{cause}; next try in {verdict.delay_s:g} s")
            await asyncio.sleep(verdict.delay_s)
            try:
                return await self._launch()
            except DuplexdError as error:
                cause, served_s = str(error), 0.0

    def _enter(self, state: State, detail: str) -> None:
        self.state = state
        level = {"restarting": "WARNING", "failed": "ERROR"}.get(state, "INFO")
        logger.log(level, f"{NAME}: {state} ({detail})")


async def _reports(stream: asyncio.StreamReader) -> AsyncGenerator[Report, None]:
    """What the worker tells, until its end."""
    frames = Frames()
    while data := await stream.read(_READ):
        for report in frames.feed(data):
            yield report
