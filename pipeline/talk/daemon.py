"""Finds the daemon to talk to, or runs one for the length of the talk."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from tts_engine.errors import EngineFailed, TimedOut

RUN = Path(__file__).resolve().parents[2] / "run.py"
#: longest wait for a daemon of our own to be warm: it may have models to fetch
START_TIMEOUT_S = 600.0
_ASK_EVERY_S = 0.2


def is_ready(host: str, port: int) -> bool:
    """A daemon answers there, and is warm."""
    try:
        return httpx.get(f"http://{host}:{port}/readyz", timeout=2.0).status_code == 200
    except httpx.HTTPError:
        return False


@contextmanager
def own_daemon(arguments: Sequence[str], *, log: Path | None = None) -> Iterator[str]:
    """Runs `run.py serve` on a free port of loopback.

    Args:
        arguments: options of `serve`.
        log: where its log goes; None discards it.

    Yields:
        host:port, once it is ready.

    Raises:
        EngineFailed: it ended; the message has its last words.
        TimedOut: it was not ready in time.
    """
    port = _free_port()
    command = [sys.executable, str(RUN), "serve", *arguments, "--set", f"server.port={port}"]
    command += ["--set", "server.host=127.0.0.1"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        tail = _Tail(process, log)
        try:
            _await_ready(process, port, tail)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
            tail.join()


class _Tail:
    """Drains a process's standard error, and keeps its last lines for a message."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path | None) -> None:
        import threading
        from collections import deque

        self.lines: deque[str] = deque(maxlen=5)
        self._file = log.open("wb") if log else None
        self._thread = threading.Thread(target=self._run, args=(process.stderr,), daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Waits for the process's last words."""
        self._thread.join(5)
        if self._file:
            self._file.close()

    def _run(self, stream: Iterator[bytes]) -> None:
        for line in stream:
            if self._file:
                self._file.write(line)
                self._file.flush()
            if text := line.decode(errors="replace").strip():
                self.lines.append(text)


def _await_ready(process: subprocess.Popen[bytes], port: int, tail: _Tail) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not is_ready("127.0.0.1", port):
        if process.poll() is not None:
            tail.join()
            raise EngineFailed(f"The daemon did not start: {' / '.join(tail.lines)}")
        if time.monotonic() > deadline:
            raise TimedOut(f"The daemon was not ready after {START_TIMEOUT_S:g} s")
        time.sleep(_ASK_EVERY_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
