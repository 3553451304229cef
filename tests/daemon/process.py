"""`run.py serve` as a child process, watched through its log, its socket and /proc."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[2]
#: from the start of the process to its first line, on a machine that others use as well, seconds
START_S = 60.0
#: from SIGTERM to the end of the process, seconds
END_S = 8.0

_LISTENING = r"listening on https?://\S+:(\d+),"
#: a turn's line in the log
TURN = r" INFO +(s\d+) turn (\d+) (answered|interrupted|failed): "


def settings(sets: Mapping[str, object] | None) -> list[str]:
    """`--set key=value` for each."""
    return [part for key, value in (sets or {}).items() for part in ("--set", f"{key}={value}")]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, without what would choose another language model."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    return {**kept, **(extra or {})}


class DaemonProcess:
    """A daemon on a port of its own.

    Args:
        verb: the command that serves.
        engines: for `--engines`; None: none.
        sets: for `--set`.
        args: further arguments.
        env: further variables.
        output: where its standard output goes; None discards it.
    """

    def __init__(
        self,
        *,
        verb: str = "serve",
        engines: str | None = "scripted:instant",
        sets: Mapping[str, object] | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        output: Path | None = None,
    ) -> None:
        command = [sys.executable, "run.py", verb, *args]
        command += ["--engines", engines] if engines else []
        command += settings({"server.port": 0, **(sets or {})})
        self.lines: list[str] = []
        self._news = threading.Condition()
        with (output or Path(os.devnull)).open("w") as stdout:
            self.popen = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment(env),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl-C of whoever runs the tests is not the daemon's
            )
        self.process = psutil.Process(self.popen.pid)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stderr is not None
        for line in self.popen.stderr:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    @property
    def log(self) -> str:
        """What it has written so far."""
        return "\n".join(self.lines)

    def line(self, pattern: str, *, timeout_s: float = START_S) -> re.Match[str]:
        """Waits for a line of the log."""

        def found() -> re.Match[str] | None:
            return next((hit for each in self.lines if (hit := re.search(pattern, each))), None)

        with self._news:
            self._news.wait_for(
                lambda: found() is not None or not self._reader.is_alive(), timeout=timeout_s
            )
        match = found()
        assert match is not None, f"no {pattern!r} in the log:\n{self.log}"
        return match

    def turn_lines(self, count: int, *, timeout_s: float = 20.0) -> list[re.Match[str]]:
        """Waits for so many lines of finished turns; returns all there are."""
        with self._news:
            self._news.wait_for(lambda: len(self._turn_lines()) >= count, timeout=timeout_s)
        return self._turn_lines()

    def _turn_lines(self) -> list[re.Match[str]]:
        return [hit for line in self.lines if (hit := re.search(TURN, line))]

    @property
    def port(self) -> int:
        """Its port, as soon as it has taken one."""
        return int(self.line(_LISTENING)[1])

    @property
    def http(self) -> str:
        """Base address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """Address of the Realtime face."""
        return f"ws://127.0.0.1:{self.port}/v1/realtime"

    def ready(self) -> Self:
        """Waits until /readyz says so."""
        self.line(r" ready: ")
        response = httpx.get(f"{self.http}/readyz")
        assert response.status_code == 200, response.text
        return self

    def metrics(self) -> dict[str, float]:
        """Samples of /metrics by name, with the values of their labels: `turns_total{answered}`."""
        page = httpx.get(f"{self.http}/metrics").text
        return {
            sample.name.removeprefix("duplexd_")
            + (f"{{{','.join(sample.labels.values())}}}" if sample.labels else ""): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        }

    def metric(self, name: str, value: float, *, timeout_s: float = 10.0) -> None:
        """Waits until a sample has a value; what has none yet counts as 0."""
        until = time.monotonic() + timeout_s
        while (seen := self.metrics().get(name, 0.0)) != value:
            assert time.monotonic() < until, f"{name} is {seen}, not {value}"
            time.sleep(0.05)

    def wait(self, timeout_s: float = START_S) -> int:
        """Waits for the end; returns the exit code, negative for a signal."""
        code = self.popen.wait(timeout_s)
        self._reader.join(timeout_s)
        return code

    def end(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
        """Sends a signal and waits for the end; returns the exit code and the seconds it took."""
        started = time.monotonic()
        self.popen.send_signal(how)
        code = self.wait(END_S + 10)
        return code, time.monotonic() - started

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it, however it stands."""
        try:
            if self.popen.poll() is None:
                self.end()
        finally:
            if self.popen.poll() is None:
                self.popen.kill()
                self.wait()
            if self.popen.stderr is not None:
                self.popen.stderr.close()


@asynccontextmanager
async def serving(
    *,
    engines: str | None = "scripted:instant",
    sets: Mapping[str, object] | None = None,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    output: Path | None = None,
    ready: bool = True,
) -> AsyncIterator[DaemonProcess]:
    """A running daemon, ready unless told otherwise; ended on leaving.

    Waits are in threads: the daemon may need a server that the test's loop runs.
    """
    daemon = DaemonProcess(engines=engines, sets=sets, args=args, env=env, output=output)
    try:
        if ready:
            await asyncio.to_thread(daemon.ready)
        yield daemon
    finally:
        await asyncio.to_thread(daemon.close)
