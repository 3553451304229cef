"""One life of a child process: spawned, its log kept, ended and reaped.

Its standard input stays open: its end tells the child that we are gone. What comes on its standard
output is its owner's matter.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Self

from loguru import logger

from tts_engine.errors import EngineFailed

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


class ChildProcess:
    """A running child. It must be ended with `stop`, also after it died by itself."""

    def __init__(self, process: asyncio.subprocess.Process, *, name: str, grace_s: float) -> None:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self._process = process
        self._name = name
        self._grace_s = grace_s
        self._stdin = process.stdin
        self.stdout = process.stdout
        self._kept: deque[str] = deque(maxlen=KEPT_LINES)
        self._log = asyncio.create_task(self._read_log(process.stderr), name=f"log of the {name}")

    @classmethod
    async def spawn(cls, command: Sequence[str], *, name: str, grace_s: float = 3.0) -> Self:
        """Starts a command.

        Args:
            command: program and arguments.
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
        return cls(process, name=name, grace_s=grace_s)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def write(self, data: bytes) -> None:
        """Sends something to its standard input; what a dead child is sent is lost."""
        if not self._stdin.is_closing():
            self._stdin.write(data)

    async def ended(self) -> str:
        """Waits until the process is gone.

        Returns:
            What happened, with its last log lines.
        """
        await self._process.wait()
        await self._drain()
        return self.obituary() + self.last_words()

    async def stop(self) -> None:
        """Terminates, kills after the grace time, and reaps. Idempotent."""
        try:
            self._signal(signal.SIGTERM)
            async with asyncio.timeout(self._grace_s):
                await self._process.wait()
        except TimeoutError:
            logger.warning(f"{self._name}: SIGTERM ignored for {self._grace_s:g} s, killing it")
        finally:
            self.kill()
        await self._process.wait()
        await self._drain()
        self._stdin.close()

    def kill(self) -> None:
        """Ends it at once, whatever it does."""
        self._signal(signal.SIGKILL)

    def obituary(self) -> str:
        """How the process ended."""
        code = self._process.returncode or 0
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit status {code}"
        return f"The {self._name} {how}"

    def last_words(self) -> str:
        """The last lines of its log, to be put behind a message; empty when there are none."""
        kept = [line for line in self._kept if line][-QUOTED_LINES:]
        return f": {' | '.join(kept)}" if kept else ""

    def forget_log(self) -> None:
        """From here on its last words are what it says from here on."""
        self._kept.clear()

    def _signal(self, number: signal.Signals) -> None:
        # Not by the process object: it looks for the exit status first, and takes it away from
        # asyncio, which then reports 255.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def _drain(self) -> None:
        """Lets the reader reach the end of what the dead process wrote."""
        await asyncio.wait({self._log}, timeout=1.0)
        self._log.cancel()

    async def _read_log(self, stream: asyncio.StreamReader) -> None:
        async for line in lines(stream):
            self._kept.append(line)
            logger.debug(f"{self._name}: {line}")
