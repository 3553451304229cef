"""The worker process: torch, the models, and the recognition loop."""

from __future__ import annotations

import os
from collections.abc import Callable

from services.asr.funasr.wire import ORDERS, Ready, Settings
from tts_engine.worker_side import Inbox, Send, work


def main() -> None:
    """Recognises until stdin ends."""
    work("FunASR", kinds=ORDERS, load=_load)


def _load(settings: Settings, inbox: Inbox, send: Send) -> Callable[[], None]:
    # torch's threads spin while they wait for each other. Where others use the cores as well that
    # has cost several times the computation itself.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from services.asr.funasr.assembly import assemble, make_loop, warm_up

    parts, limits = assemble(settings)
    warm_up(parts, limits, settings)
    loop = make_loop(parts, limits, settings, emit=send, inbox=inbox)

    def run() -> None:
        send(Ready())
        loop.run()

    return run
