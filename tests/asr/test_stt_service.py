"""A recogniser as pipecat's STT service, which hears segments at once or as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    InterimTranscriptionFrame,
    TranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.workers.runner import WorkerRunner

from services.asr.base import SAMPLE_RATE, AsrEngine
from services.asr.stt_service import RecogniserSttService
from services.scripted.asr import ScriptedAsr
from services.scripted.spec import ScriptedTexts
from services.scripted.speech import synthetic_speech

SAID = synthetic_speech(seconds=1.0).astype(np.int16).tobytes()
SILENCE = bytes(2 * SAMPLE_RATE // 2)
TEXTS = ScriptedTexts(transcripts=["今天天气怎么样？", "你好吗？", "好的。"])


def engine(**options: object) -> ScriptedAsr:
    return ScriptedAsr(texts=TEXTS, **options)  # pyright: ignore[reportArgumentType]


async def test_a_segment() -> None:
    stt = RecogniserSttService(engine(fail_turns={2: "engine_failed"}), session="s")
    assert not stt.wants_wav_segments
    [frame] = [frame async for frame in stt.run_stt(SAID)]
    assert isinstance(frame, TranscriptionFrame)
    assert frame.text == "今天天气怎么样？"
    assert frame.includes_inter_frame_spaces
    [frame] = [frame async for frame in stt.run_stt(SAID)]
    assert isinstance(frame, ErrorFrame)
    assert [frame async for frame in stt.run_stt(bytes(640))] == []


class Ears(FrameProcessor):
    """Keeps what comes out of the service."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.interim: list[str] = []
        self.changed = asyncio.Condition()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TranscriptionFrame):
            assert frame.finalized
            self.texts.append(frame.text)
        elif isinstance(frame, InterimTranscriptionFrame):
            self.interim.append(frame.text)
        async with self.changed:
            self.changed.notify_all()
        await self.push_frame(frame, direction)

    async def until(self, *, texts: int = 0, interim: int = 0) -> None:
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(
                lambda: len(self.texts) >= texts and len(self.interim) >= interim
            )


class Talk:
    """A pipeline with the service in it."""

    def __init__(self, worker: PipelineWorker, ears: Ears) -> None:
        self._worker = worker
        self.ears = ears
        self.errors: asyncio.Queue[str] = asyncio.Queue()

    async def hear(self, pcm: bytes) -> None:
        for at in range(0, len(pcm), 640):
            frame = InputAudioRawFrame(pcm[at : at + 640], SAMPLE_RATE, 1)
            await self._worker.queue_frame(frame)

    async def say(self, pcm: bytes, *, interim: int = 0) -> None:
        """Speech, of which the detector notices the beginning late; the end after partials."""
        await self.hear(SILENCE + pcm[:6400])
        await self._worker.queue_frame(VADUserStartedSpeakingFrame())
        await self.hear(pcm[6400:])
        await self.ears.until(interim=interim)
        await self._worker.queue_frame(VADUserStoppedSpeakingFrame())


@asynccontextmanager
async def talk(
    asr: AsrEngine, *, interim: bool = False, rate: int = SAMPLE_RATE
) -> AsyncIterator[Talk]:
    stt, ears = RecogniserSttService(asr, session="s", interim=interim), Ears()
    worker = PipelineWorker(
        Pipeline([stt, ears]),
        params=PipelineParams(audio_in_sample_rate=rate),
        enable_rtvi=False,
        enable_turn_tracking=False,
    )
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())
    try:
        conversation = Talk(worker, ears)

        @worker.event_handler("on_pipeline_error")
        async def failed(_: PipelineWorker, frame: ErrorFrame) -> None:
            conversation.errors.put_nowait(frame.error)

        yield conversation
        await worker.queue_frame(EndFrame())
        async with asyncio.timeout(60):
            await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("interim", [False, True])
async def test_a_pipeline(interim: bool) -> None:
    asr = engine(whole_text=False, partial_every_s=0.2)
    async with talk(asr, interim=interim) as conversation:
        for number in (1, 2):
            await conversation.say(SAID, interim=number if interim else 0)
            await conversation.ears.until(texts=number)
        assert len(conversation.ears.texts) == 2
        # As much as was spoken in the second, the part that the detector noticed late included.
        assert conversation.ears.texts[0] == "今天天气怎"
        assert bool(conversation.ears.interim) == interim
        for text in conversation.ears.interim:
            assert text.startswith(("今", "你"))


@pytest.mark.parametrize("interim", [False, True])
async def test_segments_that_follow_each_other_closely(interim: bool) -> None:
    # The second begins, and ends, while the first is being recognised.
    async with talk(engine(delay_s=0.3), interim=interim) as conversation:
        for _ in range(3):
            await conversation.say(SAID)
        await conversation.ears.until(texts=3)
        assert conversation.ears.texts == ["今天天气怎么样？", "你好吗？", "好的。"]


async def test_another_rate() -> None:
    async with talk(engine(), rate=8000) as conversation, asyncio.timeout(60):
        assert "audio_in_sample_rate=16000" in await conversation.errors.get()
