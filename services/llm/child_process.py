"""One life of a child process: spawned, its report awaited, its log kept, ended and reaped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Sequence

from loguru import logger

from tts_engine.errors import EngineFailed, TimedOut

#: lines of the child's log kept for error messages
KEPT_LINES = 40
#: lines of the child's log that an error message quotes
QUOTED_LINES = 4
#: bytes of a line that are kept; the rest of a longer one is dropped
LINE_LIMIT = 4096


async def lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Yields lines until the end, whatever the bytes are, in bounded memory."""
    rest = b""
    while data := await stream.read(LINE_LIMIT):
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line[:LINE_LIMIT].decode(errors="replace").rstrip()
        rest = rest[:LINE_LIMIT]
    if rest:
        yield rest.decode(errors="replace").rstrip()


def reported_address(line: str) -> str | None:
    """The address in a report line `{"address": "http://host:port"}`; None for any other line."""
    try:
        report = json.loads(line)
    except ValueError:
        return None
    address = report.get("address") if isinstance(report, dict) else None
    return address if isinstance(address, str) else None


class ChildProcess:
    """A running child. It must be ended with `stop`, also after it died by itself."""

    def __init__(self, process: asyncio.subprocess.Process, *, name: str, grace_s: float) -> None:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self._process = process
        self._name = name
        self._grace_s = grace_s
        self._stdin = process.stdin  # held open: its end tells the child that we are gone
        self._kept: deque[str] = deque(maxlen=KEPT_LINES)
        self._address: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._pumps = (
            asyncio.create_task(self._read_report(process.stdout)),
            asyncio.create_task(self._read_log(process.stderr)),
        )

    @classmethod
    async def spawn(
        cls, command: Sequence[str], *, hello: str, name: str, grace_s: float = 3.0
    ) -> ChildProcess:
        """Starts a command.

        Args:
            command: program and arguments.
            hello: a line written to its stdin, which then stays open.
            name: what it is called in logs and messages.
            grace_s: time between SIGTERM and SIGKILL in `stop`.

        Raises:
            EngineFailed: it cannot be started at all.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C in the terminal is for us, we end the child
            )
        except OSError as error:
            raise EngineFailed(f"The {name} could not be started: {error}") from error
        child = cls(process, name=name, grace_s=grace_s)
        child._stdin.write(f"{hello}\n".encode())
        return child

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

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
                f"The {self._name} was not ready after {timeout_s:g} s{self._last_words()}"
            ) from None
        if address is None:
            await self.stop()
            raise EngineFailed(f"{self.obituary()} before it was ready{self._last_words()}")
        return address

    async def ended(self) -> str:
        """Waits until the process is gone.

        Returns:
            What happened, with its last log lines.
        """
        await self._process.wait()
        await self._drain()
        return self.obituary() + self._last_words()

    async def stop(self) -> None:
        """Terminates, kills after the grace time, and reaps. Idempotent."""
        try:
            self._signal(signal.SIGTERM)
            async with asyncio.timeout(self._grace_s):
                await self._process.wait()
        except TimeoutError:
            logger.warning(f"{self._name}: SIGTERM ignored for {self._grace_s:g} s, killing it")
        finally:
            self._signal(signal.SIGKILL)
        await self._process.wait()
        await self._drain()
        self._stdin.close()

    def obituary(self) -> str:
        """How the process ended."""
        code = self._process.returncode or 0
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit status {code}"
        return f"The {self._name} {how}"

    def _last_words(self) -> str:
        kept = [line for line in self._kept if line][-QUOTED_LINES:]
        return f": {' | '.join(kept)}" if kept else ""

    def _signal(self, number: signal.Signals) -> None:
        # Not by the process object: it looks for the exit status first, and takes it away from
        # asyncio, which then reports 255.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def _drain(self) -> None:
        """Lets the readers reach the end of what the dead process wrote."""
        await asyncio.wait(self._pumps, timeout=1.0)
        for pump in self._pumps:
            pump.cancel()

    async def _read_report(self, stream: asyncio.StreamReader) -> None:
        try:
            async for line in lines(stream):
                address = reported_address(line)
                if address is None:
                    self._keep(line)
                elif not self._address.done():
                    self._address.set_result(address)
        finally:
            if not self._address.done():
                self._address.set_result(None)

    async def _read_log(self, stream: asyncio.StreamReader) -> None:
        async for line in lines(stream):
            self._keep(line)

    def _keep(self, line: str) -> None:
        self._kept.append(line)
        logger.debug(f"{self._name}: {line}")
