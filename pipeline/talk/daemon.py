"""Finds the daemon to talk to, or runs one for the length of the talk."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Literal

import httpx

from pipeline.access import KEY_VARIABLE
from pipeline.config_server import Server
from pipeline.talk.endpoint import Endpoint
from services.access.hosts import host_port, is_wildcard
from services.access.public import CHALLENGE
from tts_engine.errors import BadRequest, EngineFailed, TimedOut

RUN = Path(__file__).resolve().parents[2] / "run.py"
#: longest wait for a daemon to be warm: it may have models to fetch, seconds
START_TIMEOUT_S = 600.0
#: longest wait for it to end, seconds; then it is killed
STOP_TIMEOUT_S = 10.0
_ASK_EVERY_S = 0.2
#: everything a daemon says before it gives up fits into these lines
_LAST_LINES = 12

State = Literal["ready", "warming", "locked", "alien", "none"]


def address_of(host: str, port: int) -> str:
    """host:port at which a daemon that listens on `host` is reached from this machine."""
    if is_wildcard(host):
        host = "::1" if ":" in host else "127.0.0.1"
    return host_port(host, port)


def command_for(address: str, *, secure: bool, locked: bool) -> str:
    """The command that talks to a daemon of this machine.

    Args:
        address: host:port.
        secure: it is reached over TLS.
        locked: it wants an API key.
    """
    command = "run.py talk"
    server = Server()
    # There `talk` finds it by itself, and its certificate.
    if address != address_of(server.host, server.port):
        command += f" --url {'https://' if secure else ''}{address}"
        command += " --cacert FILE" if secure else ""
    return f"{command}{' --key KEY' if locked else ''} --say TEXT"


def state_of(daemon: Endpoint) -> State:
    """Whether a daemon answers there, and is warm.

    Returns:
        "locked": it wants another key. "alien": something listens there that speaks no HTTP, as a
        daemon with TLS does not where `daemon` is without.

    Raises:
        BadRequest: its certificate file cannot be read.
    """
    tls = daemon.tls()
    try:
        # Never through a proxy: what is asked for is the way that the talk will take.
        with httpx.Client(
            trust_env=False, timeout=2.0, headers=daemon.headers, verify=tls or True
        ) as client:
            answer = client.get(f"{daemon.base}/readyz")
        if answer.headers.get("WWW-Authenticate") == CHALLENGE:
            return "locked"
        status = answer.json().get("status")
    except (httpx.RemoteProtocolError, httpx.ReadError):
        return "alien"
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, AttributeError):
        return "none"  # nobody, or somebody else
    if status == "ready":
        return "ready"
    return "warming" if status == "warming" else "none"


def await_ready(daemon: Endpoint, *, timeout_s: float = START_TIMEOUT_S) -> None:
    """Waits for a daemon that somebody else has started, while it warms up.

    Raises:
        EngineFailed: it is gone.
        TimedOut: it was not ready in time.
    """
    deadline = time.monotonic() + timeout_s
    while (state := state_of(daemon)) == "warming":
        _check(deadline, timeout_s)
        time.sleep(_ASK_EVERY_S)
    if state in ("none", "alien"):
        raise EngineFailed(f"The daemon at {daemon.base} did not start", mend="Look into its log")


@contextmanager
def own_daemon(
    arguments: Sequence[str],
    *,
    key: str = "",
    log: Path | None = None,
    timeout_s: float = START_TIMEOUT_S,
    program: Sequence[str] = (),
) -> Iterator[str]:
    """Runs `run.py serve` on a free port of loopback; it ends with the block, also by SIGTERM.

    It is without TLS, whatever the configuration says.

    Args:
        arguments: options of `serve`.
        key: lets in where the configuration wants one; handed over where no other user can see it.
        log: where its log goes; None discards it.
        timeout_s: longest wait for it to be ready.
        program: another server for Python to run, which takes `--set server.port=...` and answers
            at /readyz as the daemon does.

    Yields:
        host:port, once it is ready.

    Raises:
        EngineFailed: it ended; the message has its last words.
        TimedOut: it was not ready in time.
    """
    address = address_of("127.0.0.1", port := _free_port())
    command = [sys.executable, *(program or (str(RUN), "serve")), *arguments]
    for each in (f"server.port={port}", "server.host=127.0.0.1", 'server.tls="off"'):
        command += ["--set", each]
    with (
        _signals_unwind() as unwinding,
        _opened(log) as file,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, KEY_VARIABLE: key} if key else None,
        ) as process,
    ):
        words = _LastWords(process, file)
        try:
            unwinding.begin()
            _await_own(process, Endpoint.of(address, key=key), words, timeout_s)
            yield address
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
            words.join()


class _LastWords:
    """Drains a process's standard error, and keeps its last lines for a message."""

    def __init__(self, process: subprocess.Popen[bytes], file: IO[bytes] | None) -> None:
        self._lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._file = file
        self._thread = threading.Thread(target=self._run, args=(process.stderr,), daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Waits for the last of them."""
        self._thread.join(5)

    def failure(self) -> EngineFailed:
        """What the daemon said about its end: the lines that `run.py` ends with, if it did."""
        said = {
            name: line.partition(":")[2].strip()
            for line in self._lines
            for name in ("error", "fix")
            if line.startswith(f"{name}:")
        }
        why = said.get("error") or " / ".join(self._lines) or "it said nothing"
        return EngineFailed(f"The daemon did not start: {why}", mend=said.get("fix", ""))

    def _run(self, stream: Iterator[bytes]) -> None:
        for line in stream:
            if self._file:
                self._file.write(line)
                self._file.flush()
            if text := line.decode(errors="replace").strip():
                self._lines.append(text)


def _await_own(
    process: subprocess.Popen[bytes], daemon: Endpoint, words: _LastWords, timeout_s: float
) -> None:
    deadline = time.monotonic() + timeout_s
    while state_of(daemon) != "ready":
        _check(deadline, timeout_s)
        try:
            process.wait(_ASK_EVERY_S)
        except subprocess.TimeoutExpired:
            continue
        words.join()
        raise words.failure()


def _check(deadline: float, timeout_s: float) -> None:
    if time.monotonic() > deadline:
        raise TimedOut(f"The daemon was not ready after {timeout_s:g} s", mend="Look into its log")


class _Unwinding:
    """Lets SIGTERM end this process by way of its `finally` clauses, as Ctrl-C does.

    Until a child is in their care both wait: the child would be nobody's.
    """

    def __init__(self) -> None:
        self._waits = True
        self._ends: BaseException | None = None

    def __call__(self, number: int, _: FrameType | None) -> None:
        self._ends = KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
        self._unwind()

    def begin(self) -> None:
        """Waits no longer."""
        self._waits = False
        self._unwind()

    def _unwind(self) -> None:
        if self._ends is not None and not self._waits:
            raise self._ends


@contextmanager
def _signals_unwind() -> Iterator[_Unwinding]:
    unwinding = _Unwinding()
    if threading.current_thread() is not threading.main_thread():
        yield unwinding  # signals are the main thread's
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # a shell's background job stays deaf
            signal.signal(number, unwinding)
    try:
        yield unwinding
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _opened(log: Path | None) -> Iterator[IO[bytes] | None]:
    if log is None:
        yield None
        return
    try:
        file = log.open("wb")
    except OSError as error:
        raise BadRequest(f"Cannot write {log}: {error.strerror}") from error
    with file:
        yield file


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
