"""The worker process: torch, the model, and the synthesis loop.

The main thread makes everything; one beside it measures recordings, which is not torch's work.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tts_engine.cosyvoice.wire import ORDERS, Ready, Register, Settings
from tts_engine.worker_side import Inbox, Send, work


def main() -> None:
    """Makes utterances until stdin ends."""
    work("CosyVoice", kinds=ORDERS, load=_load)


def _load(settings: Settings, inbox: Inbox, send: Send) -> Callable[[], None]:
    from tts_engine.cosyvoice.assembly import assemble
    from tts_engine.cosyvoice.stream import Synthesiser, measured

    model = assemble(settings)

    def run() -> None:
        def measure(order: Register) -> None:
            inbox.put(measured(model.parts.voices, order))

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

    return run
