"""A worker process seen from the event loop: orders go in, reports come out.

`tts_engine.worker_side` is its other end; what passes between the two are `tts_engine.frames`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tts_engine.child_process import ChildProcess
from tts_engine.errors import EngineFailed, NotReady, TimedOut
from tts_engine.frames import Failed, Frames, encode, error_of
from tts_engine.kept_process import KeptProcess
from tts_engine.restart import RestartPolicy

#: bytes read at a time
_READ = 1 << 18


def program(module: str) -> tuple[str, ...]:
    """The command that runs `main` of a module of ours."""
    code = f"import sys; sys.path.insert(0, sys.argv.pop()); from {module} import main; main()"
    # -P keeps the working directory off the import path; ours is put there whatever it is.
    return (sys.executable, "-P", "-c", code, str(Path(__file__).resolve().parents[1]))


class WorkerProcess(KeptProcess[AsyncGenerator[Any, None]]):
    """Keeps a worker alive. One life: not to be started again.

    Parameters:
        name: what it is called in logs and messages.
        kinds: the messages that it tells.
        settings: the message that it is told first.
        on_report: called on the event loop with what it tells, the first says that it is ready;
            must not raise.
        on_death: called when it died, with what is to be told to those who waited; must not raise.
        command: the program.
        start_timeout_s: for loading and warming, of the first start and of restarts.
        policy: when to restart.
        grace_s: time between SIGTERM and SIGKILL when closing.
    """

    def __init__(
        self,
        *,
        name: str,
        kinds: Iterable[type[Any]],
        settings: Any,
        on_report: Callable[[Any], None],
        on_death: Callable[[EngineFailed], None],
        command: Sequence[str],
        start_timeout_s: float = 600.0,
        policy: RestartPolicy | None = None,
        grace_s: float = 3.0,
    ) -> None:
        super().__init__(
            name=name,
            command=command,
            start_timeout_s=start_timeout_s,
            policy=policy,
            grace_s=grace_s,
        )
        self._kinds = tuple(kinds)
        self._settings = settings
        self._on_report = on_report
        self._on_death = on_death

    def send(self, order: Any) -> None:
        """Gives the worker an order.

        Raises:
            NotReady: it is not there.
        """
        if self.state != "ready" or self._child is None:
            raise NotReady(f"The {self._name} is not running: {self.state}")
        self._child.write(encode(order))

    def kill(self) -> None:
        """Ends a worker that hangs; it is started again."""
        if self._child is not None:
            self._child.kill()

    async def _launch(self) -> AsyncGenerator[Any, None]:
        """Brings up a worker; what it tells from then on."""
        self._child = child = await ChildProcess.spawn(
            self._command, name=self._name, grace_s=self._grace_s
        )
        child.write(encode(self._settings))
        reports = _reports(child.stdout, Frames(self._kinds))
        try:
            async with asyncio.timeout(self._start_timeout_s):
                first = await anext(reports, None)
        except TimeoutError:
            await child.stop()
            raise TimedOut(
                f"The {self._name} was not ready after {self._start_timeout_s:g} s"
                f"{child.last_words()}"
            ) from None
        if first is None or isinstance(first, Failed):
            await child.stop()
            if first is None:
                raise EngineFailed(f"{child.obituary()} before it was ready{child.last_words()}")
            raise error_of(first)
        child.forget_log()
        self._enter("ready", f"process {child.pid}")
        self._on_report(first)
        return reports

    async def _outlive(self, launched: AsyncGenerator[Any, None]) -> str:
        """Passes on what the worker tells, until its end."""
        async for report in launched:
            self._on_report(report)
        cause = await self._bury()
        self._on_death(EngineFailed(cause))
        return cause

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


async def _reports(stream: asyncio.StreamReader, frames: Frames) -> AsyncGenerator[Any, None]:
    """What the worker tells, until its end."""
    while data := await stream.read(_READ):
        for report in frames.feed(data):
            yield report
