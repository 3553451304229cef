"""Our engines as stock pipecat services: as thin as they can be, so that pipecat is measured."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import numpy as np
from openai import AsyncOpenAI
from pipecat.frames.frames import ErrorFrame, Frame, TranscriptionFrame, TTSAudioRawFrame
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.settings import STTSettings, TTSSettings
from pipecat.services.stt_latency import DEFAULT_TTFS_P99
from pipecat.services.stt_service import SegmentedSTTService
from pipecat.services.tts_service import TTSService
from pipecat.utils.time import time_now_iso8601

from services.asr.base import AsrEngine
from tts_engine.engine import SpeechEngine
from tts_engine.errors import DuplexdError


class PeerAsr(SegmentedSTTService):
    """Recognises a segment when pipecat's detector ends it; its transcripts are final."""

    def __init__(self, engine: AsrEngine, *, session: str) -> None:
        # Our engines want no silence at the end; it would cost them time. How long pipecat waits
        # for a transcript is its own default: a final one, as these are, ends the wait.
        super().__init__(
            trailing_silence_secs=0.0,
            ttfs_p99_latency=DEFAULT_TTFS_P99,
            settings=STTSettings(model="", language=None),
        )
        self._recogniser = engine.open(session=session)

    @property
    def wants_wav_segments(self) -> bool:
        """Samples, without a header."""
        return False

    async def run_stt(self, audio: bytes) -> AsyncGenerator[Frame | None, None]:
        """Recognises a segment."""
        self._recogniser.reset()
        samples = np.frombuffer(audio, np.int16).astype(np.float32)
        self._recogniser.feed(samples * np.float32(1 / 32768))
        try:
            transcript = await self._recogniser.finalise()
        except DuplexdError as error:
            yield ErrorFrame(str(error))
            return
        if transcript.text:
            frame = TranscriptionFrame(transcript.text, "", time_now_iso8601())
            frame.includes_inter_frame_spaces = transcript.language == "zh"
            yield frame

    async def cleanup(self) -> None:
        """Gives the engine's handle back."""
        await super().cleanup()
        self._recogniser.close()


class PeerLlm(OpenAILLMService):
    """The stock service over a client that all conversations share, and that is warm."""

    def __init__(self, client: AsyncOpenAI, **options: Any) -> None:
        self._shared = client
        super().__init__(**options)

    def create_client(self, *_: Any, **__: Any) -> AsyncOpenAI:
        """The shared one."""
        return self._shared


class PeerVoice(TTSService):
    """Speaks what pipecat's aggregator cuts off."""

    def __init__(self, engine: SpeechEngine, *, voice: str | None, speed: float) -> None:
        super().__init__(
            push_start_frame=True,
            push_stop_frames=True,
            settings=TTSSettings(model="", voice=voice, language=None),
        )
        self._engine = engine
        self._voice = voice
        self._speed = speed

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        """Speaks a sentence."""
        chunks = self._engine.synthesize(text, voice=self._voice, speed=self._speed)
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    if chunk.pcm:
                        yield TTSAudioRawFrame(
                            chunk.pcm, self._engine.sample_rate, 1, context_id=context_id
                        )
        except DuplexdError as error:
            yield ErrorFrame(str(error))
