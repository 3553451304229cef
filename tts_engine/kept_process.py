"""A child process that is kept alive: started, watched, started again when it dies.

start() -> starting -> ready <-> restarting
              |                     |  five quick deaths in a row
              v                     v
         start() raises           failed -> (every 30 s) -> ready
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Literal, TypeVar

from loguru import logger

from tts_engine.child_process import ChildProcess
from tts_engine.errors import DuplexdError, EngineFailed
from tts_engine.restart import Backoff, RestartPolicy

State = Literal["starting", "ready", "restarting", "failed", "closed"]
#: what `_launch` gives of a child that is ready
Launched = TypeVar("Launched")


class KeptProcess(ABC, Generic[Launched]):
    """Keeps a child alive. One life: not to be started again.

    Parameters:
        name: what it is called in logs and messages.
        command: the program.
        start_timeout_s: for what it has to load, of the first start and of restarts.
        policy: when to restart.
        grace_s: time between SIGTERM and SIGKILL when closing.
    """

    def __init__(
        self,
        *,
        name: str,
        command: Sequence[str],
        start_timeout_s: float,
        policy: RestartPolicy | None,
        grace_s: float,
    ) -> None:
        self._name = name
        self._command = tuple(command)
        self._start_timeout_s = start_timeout_s
        self._backoff = Backoff(policy or RestartPolicy())
        self._grace_s = grace_s
        self._child: ChildProcess | None = None
        self._task: asyncio.Task[Any] | None = None
        self.state: State = "starting"

    @property
    def pid(self) -> int | None:
        """The child's process id, while there is one."""
        return self._child.pid if self._child else None

    async def start(self) -> None:
        """Returns once the child is ready.

        Raises:
            DuplexdError: what the child could not do.
            EngineFailed: it ended, or `close` was called meanwhile.
            TimedOut: it was not ready in time.
        """
        launch = self._task = asyncio.create_task(self._launch(), name=f"start of the {self._name}")
        try:
            await asyncio.wait({launch})
        except asyncio.CancelledError:
            await self.close()
            raise
        if self.state == "closed" or launch.cancelled():
            raise EngineFailed(f"The {self._name} was closed while it was starting")
        if error := launch.exception():
            self._enter("failed", str(error))
            raise error
        self._task = asyncio.create_task(self._supervise(launch.result()), name=self._name)

    async def close(self) -> None:
        """Ends the child: SIGTERM, after the grace time SIGKILL; reaped on return. Idempotent."""
        self.state = "closed"
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        child, self._child = self._child, None
        if child is not None:
            await child.stop()

    @abstractmethod
    async def _launch(self) -> Launched:
        """Brings up a child as `_child`, and enters "ready".

        Raises:
            DuplexdError: it is gone again.
        """

    @abstractmethod
    async def _outlive(self, launched: Launched) -> str:
        """Serves a child until it is gone; what happened to it."""

    async def _supervise(self, launched: Launched) -> None:
        """Watches the child and its successors, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            since = clock()
            cause = await self._outlive(launched)
            launched = await self._revive(cause, served_s=clock() - since)

    async def _revive(self, cause: str, *, served_s: float) -> Launched:
        """Tries until a new child is up."""
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
        logger.log(level, f"{self._name}: {state} ({detail})")
