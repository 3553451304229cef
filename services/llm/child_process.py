"""A child process that serves HTTP: it gets its key on its standard input, and reports its address
on its standard output.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from loguru import logger

from tts_engine.child_process import ChildProcess, lines
from tts_engine.errors import EngineFailed, TimedOut


def reported_address(line: str) -> str | None:
    """The address in a report line `{"address": "http://host:port"}`; None for any other line."""
    try:
        report = json.loads(line)
    except ValueError:
        return None
    address = report.get("address") if isinstance(report, dict) else None
    return address if isinstance(address, str) else None


class ServerProcess(ChildProcess):
    """A running server. It must be ended with `stop`, also after it died by itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._address: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._report = asyncio.create_task(self._read_report(), name=f"report of the {self._name}")

    async def ready(self, timeout_s: float) -> str:
        """Waits for the child's report; a child that fails to give it has been stopped.

        Returns:
            The address it serves at.

        Raises:
            EngineFailed: it ended, or closed its stdout, before.
            TimedOut: no report within `timeout_s` seconds.
        """
        try:
            async with asyncio.timeout(timeout_s):
                address = await asyncio.shield(self._address)
        except TimeoutError:
            await self.stop()
            raise TimedOut(
                f"The {self._name} was not ready after {timeout_s:g} s{self.last_words()}"
            ) from None
        if address is None:
            await self.stop()
            raise EngineFailed(f"{self.obituary()} before it was ready{self.last_words()}")
        self.forget_log()
        return address

    async def _drain(self) -> None:
        await super()._drain()
        await asyncio.wait({self._report}, timeout=1.0)
        self._report.cancel()

    async def _read_report(self) -> None:
        try:
            async for line in lines(self.stdout):
                address = reported_address(line)
                if address is None:
                    logger.debug(f"{self._name}: {line}")
                elif not self._address.done():
                    self._address.set_result(address)
        finally:
            if not self._address.done():
                self._address.set_result(None)
