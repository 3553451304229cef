"""The worker process: torch, the model, and the synthesis loop.

Started by `tts_engine.cosyvoice.process`; not meant to be run by hand. What passes between the two:

        stdin   parent -> worker  frames of `wire`: Settings first, then orders; end of file: exit
        stdout  worker -> parent  frames of `wire`: Ready or Failed first, then what comes of orders
        stderr  worker -> parent  the log

The main thread loads, then makes everything. Another one reads stdin, and so notices the parent's
end however it comes; a third measures recordings, which is not torch's work.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from loguru import logger

from tts_engine.cosyvoice.wire import (
    NOBODY,
    Frames,
    Ready,
    Register,
    Report,
    Settings,
    encode,
    failed,
)
from tts_engine.errors import DuplexdError, EngineFailed

#: bytes read at a time
_READ = 1 << 18
#: how long what is being done may take once the parent is gone, seconds
_GRACE_S = 10.0


def main() -> None:
    """Makes utterances until stdin ends. Exit status 1: it could not start, and has said why."""
    send = _sender(_claim_stdout())
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(inbox,), name="orders", daemon=True).start()
    settings = inbox.get()
    if settings is not None:
        _serve(settings, inbox, send)


def _serve(
    settings: Settings, inbox: queue.SimpleQueue[Any], send: Callable[[Report], None]
) -> None:
    try:
        from tts_engine.cosyvoice.assembly import assemble
        from tts_engine.cosyvoice.stream import Measured, Synthesiser

        model = assemble(settings)
    except Exception as error:
        send(failed(NOBODY, _start_failure(error)))
        sys.exit(1)

    def measure(order: Register) -> None:
        try:
            model.parts.voices.take(order)
        except Exception as error:
            inbox.put(Measured(order, error))
        else:
            inbox.put(Measured(order))

    with ThreadPoolExecutor(1, thread_name_prefix="recordings") as pool:
        synthesiser = Synthesiser(
            parts=model.parts,
            limits=model.limits,
            longest_s=settings.longest_s,
            emit=send,
            measure=lambda order: pool.submit(measure, order),
            inbox=inbox,
        )
        send(Ready(kind=model.kind))
        synthesiser.run()


def _start_failure(error: Exception) -> DuplexdError:
    if isinstance(error, DuplexdError):
        return error
    if isinstance(error, ImportError):
        return EngineFailed(
            f"CosyVoice needs {error.name or error}, which is not installed",
            mend="Run `make cosyvoice`",
        )
    logger.opt(exception=error).error("CosyVoice cannot start")
    return EngineFailed(f"CosyVoice does not run here: {type(error).__name__}: {error}")


def _claim_stdout() -> int:
    """Keeps stdout for reports: whatever a library prints goes to the log instead.

    Returns:
        A file descriptor of what stdout was.
    """
    reports = os.dup(1)
    os.dup2(2, 1)
    return reports


def _sender(descriptor: int) -> Callable[[Report], None]:
    """Writes reports whole, waiting where the parent is slow."""

    def send(report: Report) -> None:
        rest = memoryview(encode(report))
        while rest:
            rest = rest[os.write(descriptor, rest) :]

    return send


def _read(inbox: queue.SimpleQueue[Any]) -> None:
    """Passes on what the parent says; ends the process when it is gone, whatever it is doing."""
    frames = Frames()
    while data := os.read(0, _READ):
        for order in frames.feed(data):
            inbox.put(order)
    inbox.put(None)
    threading.Event().wait(_GRACE_S)  # a daemon: it ends with the process
    os._exit(1)
