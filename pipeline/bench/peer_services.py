"""Our engines as stock pipecat services: as thin as they can be, so that pipecat is measured.

The recogniser's is in `services.asr.stt_service`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from openai import AsyncOpenAI
from pipecat.frames.frames import ErrorFrame, Frame, TTSAudioRawFrame
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.settings import TTSSettings
from pipecat.services.tts_service import TTSService

from tts_engine.engine import SpeechEngine
from tts_engine.errors import DuplexdError


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
