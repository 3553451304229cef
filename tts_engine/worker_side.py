"""What every worker process of ours does around its work.

It is started by `tts_engine.worker_process`; not meant to be run by hand. What passes between both:

        stdin   parent -> worker  frames: settings first, then orders; end of file: exit
        stdout  worker -> parent  frames: ready or failed first, then what comes of orders
        stderr  worker -> parent  the log

The main thread loads, then does the work. Another one reads stdin, and so notices the parent's end
however it comes.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from loguru import logger

from tts_engine.errors import DuplexdError, EngineFailed, not_installed
from tts_engine.frames import NOBODY, Frames, encode, failed

#: orders as they come; None: there will be no more
Inbox: TypeAlias = "queue.SimpleQueue[Any]"
Send: TypeAlias = Callable[[Any], None]
#: loads what the settings ask for, and tells that it is ready; what it gives does the work
Load: TypeAlias = Callable[[Any, Inbox, Send], Callable[[], None]]

#: bytes read at a time
_READ = 1 << 18
#: how long what is being done may take once the parent is gone, seconds
_GRACE_S = 10.0


def work(what: str, *, kinds: Iterable[type[Any]], load: Load) -> None:
    """Works until stdin ends. Exit status 1: it could not start, and has said why.

    Args:
        what: cannot start, if it cannot.
        kinds: the messages that it may be sent.
        load: see there.
    """
    send = _sender(_claim_stdout())
    inbox: Inbox = queue.SimpleQueue()
    threading.Thread(target=_read, args=(inbox, Frames(kinds)), name="orders", daemon=True).start()
    settings = inbox.get()
    if settings is None:
        return
    try:
        run = load(settings, inbox, send)
    except Exception as error:
        send(failed(NOBODY, start_failure(what, error)))
        sys.exit(1)
    run()


def start_failure(what: str, error: Exception) -> DuplexdError:
    """Why something cannot start, as the parent is told."""
    if isinstance(error, DuplexdError):
        return error
    if isinstance(error, ImportError):
        return not_installed(what, error)
    logger.opt(exception=error).error("{} cannot start", what)
    return EngineFailed(f"{what} does not run here: {type(error).__name__}: {error}")


def stage_failure(what: str, stage: str, error: Exception) -> DuplexdError:
    """Why a piece of work has failed, as whoever wanted it is told; the log has it all.

    Args:
        what: does the work.
        stage: of it.
        error: of ours, or whatever a library raised.
    """
    if isinstance(error, DuplexdError):
        return error
    logger.opt(exception=error).error("{} failed at its {}", what, stage)
    cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return EngineFailed(f"{what} failed at its {stage}: {cause}")


def _claim_stdout() -> int:
    """Keeps stdout for reports: whatever a library prints goes to the log instead.

    Returns:
        A file descriptor of what stdout was.
    """
    reports = os.dup(1)
    os.dup2(2, 1)
    return reports


def _sender(descriptor: int) -> Send:
    """Writes reports whole, waiting where the parent is slow."""

    def send(report: Any) -> None:
        rest = memoryview(encode(report))
        while rest:
            rest = rest[os.write(descriptor, rest) :]

    return send


def _read(inbox: Inbox, frames: Frames) -> None:
    """Passes on what the parent says; ends the process when it is gone, whatever it is doing."""
    while data := os.read(0, _READ):
        for order in frames.feed(data):
            inbox.put(order)
    inbox.put(None)
    threading.Event().wait(_GRACE_S)  # a daemon: it ends with the process
    os._exit(1)
