"""The process in which `bench asr` has pipecat's own FunASR service work: pipecat's code as it is.

Each conversation is a pipeline of that service alone. It gets what pipecat's transport and detector
would give it: the beginning of a segment, audio, the end. So the service does with a segment what
it always does: half a second of silence is added, and the header of a WAV file goes before it,
which the service then reads as 22 samples of audio. The model is loaded where the service loads it:
in its constructor, on the event loop.

Three things are ours: the package `funasr` is the contained one, of which the service needs a class
and a function; the model gets as many threads as ours; and the language is left open, as ours does,
where the service would take everything for English.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.bench.asr_wire import ORDERS, Feed, Ready, Settings, Stop, Text
from services.asr.base import SAMPLE_RATE
from tts_engine.errors import DuplexdError, EngineFailed
from tts_engine.frames import failed
from tts_engine.worker_side import Inbox, Send, start_failure, work

_WHAT = "pipecat's FunASR service"


def main() -> None:
    """Recognises until stdin ends."""
    work(_WHAT, kinds=ORDERS, load=_load)


def _load(settings: Settings, inbox: Inbox, send: Send) -> Callable[[], None]:
    _prepare(settings)

    def run() -> None:
        send(Ready())
        asyncio.run(_serve(settings, inbox, send))

    return run


def _prepare(settings: Settings) -> None:
    """Puts the package in place from which the service takes `AutoModel`.

    Raises:
        ModelError, EngineFailed: there is no such model, or FunASR is not installed.
    """
    import torch

    from pipeline.commands.logs import log_warnings_only
    from services.asr.funasr.loader import classes_of, read_config
    from services.asr.funasr.modules import import_modules

    log_warnings_only()
    torch.set_num_threads(settings.threads)
    import_modules(classes_of(read_config(Path(settings.model_dir))))
    package: Any = sys.modules["funasr"]
    package.AutoModel = partial(package.AutoModel, ncpu=settings.threads, disable_pbar=True)


async def _serve(settings: Settings, inbox: Inbox, send: Send) -> None:
    sessions: dict[int, _Session | DuplexdError] = {}
    while (order := await asyncio.to_thread(inbox.get)) is not None:
        session = sessions.get(order.session)
        if session is None:
            session = sessions[order.session] = await _begin(settings, send)
        if isinstance(session, DuplexdError):
            if isinstance(order, Stop):
                send(failed(order.id, session))
        elif isinstance(order, Feed):
            await session.feed(order.payload)
        else:
            await session.stop(order.id)


async def _begin(settings: Settings, send: Send) -> _Session | DuplexdError:
    """A conversation, or why there is none."""
    try:
        session = _Session(settings, send)
        await session.start()
    except Exception as error:
        return start_failure(_WHAT, error)
    return session


class _Session:
    """A conversation."""

    def __init__(self, settings: Settings, send: Send) -> None:
        from pipecat.pipeline.pipeline import Pipeline
        from pipecat.pipeline.worker import PipelineParams, PipelineWorker

        self._send = send
        self._asked: deque[int] = deque()
        self._speaking = False
        self._running: asyncio.Task[None] | None = None
        self._worker = PipelineWorker(
            Pipeline([_service(settings, self._told)]),
            params=PipelineParams(audio_in_sample_rate=SAMPLE_RATE),
            enable_rtvi=False,
            enable_turn_tracking=False,
            idle_timeout_secs=None,
        )

    async def start(self) -> None:
        """Runs the pipeline from now on."""
        from pipecat.workers.runner import WorkerRunner

        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(self._worker)
        self._running = asyncio.create_task(runner.run())

    async def feed(self, pcm: bytes) -> None:
        """Audio; the first of a segment begins it."""
        from pipecat.frames.frames import InputAudioRawFrame, VADUserStartedSpeakingFrame

        if not self._speaking:
            self._speaking = True
            await self._worker.queue_frame(VADUserStartedSpeakingFrame())
        await self._worker.queue_frame(InputAudioRawFrame(pcm, SAMPLE_RATE, 1))

    async def stop(self, id: int) -> None:
        """The segment is over."""
        from pipecat.frames.frames import VADUserStoppedSpeakingFrame

        self._asked.append(id)
        self._speaking = False
        await self._worker.queue_frame(VADUserStoppedSpeakingFrame())

    def _told(self, text: str, error: str) -> None:
        """What came of the oldest segment."""
        id = self._asked.popleft()
        self._send(failed(id, EngineFailed(error)) if error else Text(id=id, text=text))


def _service(settings: Settings, told: Callable[[str, str], None]) -> Any:
    """The service itself, which besides tells of every segment: of one without text, it would not.

    Args:
        settings: name the model.
        told: called with a segment's text, and what went wrong if anything did.
    """
    import torch
    from pipecat.frames.frames import ErrorFrame, Frame, TranscriptionFrame
    from pipecat.services.funasr.stt import FunASRSTTService

    class Service(FunASRSTTService):
        async def run_stt(self, audio: bytes) -> AsyncGenerator[Frame, None]:
            text = error = ""
            async for frame in super().run_stt(audio):
                if isinstance(frame, TranscriptionFrame):
                    text += frame.text
                elif isinstance(frame, ErrorFrame):
                    error = frame.error
                yield frame
            told(text, error)

    device = settings.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return Service(
        device=device,
        settings=FunASRSTTService.Settings(model=settings.model_dir, language=None),
    )
