"""Any recogniser of ours as pipecat's STT service, for stock pipelines.

The daemon's own pipeline has no use for it: its ear asks the recogniser before a detector of
pipecat's has noticed that somebody stopped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator

import numpy as np
from pipecat.frames.frames import (
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    InterimTranscriptionFrame,
    TranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessorSetup
from pipecat.services.settings import STTSettings
from pipecat.services.stt_latency import DEFAULT_TTFS_P99
from pipecat.services.stt_service import SegmentedSTTService
from pipecat.utils.time import time_now_iso8601

from services.asr.base import SAMPLE_RATE, AsrEngine, Transcript
from tts_engine.errors import BadRequest, DuplexdError

#: bytes before the detector noticed that somebody speaks: 1 s, as pipecat has it
_PREROLL = 2 * SAMPLE_RATE


class RecogniserSttService(SegmentedSTTService):
    """Recognises a segment when pipecat's detector ends it; its transcripts are final.

    Parameters:
        engine: started; shared with other services.
        session: the conversation's id, for logs.
        interim: the engine gets the audio as it comes, not when the segment ends, and its partials
            are pushed, if it makes any.
    """

    def __init__(self, engine: AsrEngine, *, session: str, interim: bool = False) -> None:
        # Our engines want no silence at the end; it would cost them time. How long pipecat waits
        # for a transcript is its own default: a final one, as these are, ends the wait.
        super().__init__(
            trailing_silence_secs=0.0,
            ttfs_p99_latency=DEFAULT_TTFS_P99,
            settings=STTSettings(model="", language=None),
        )
        self._recogniser = engine.open(
            session=session, on_partial=self._on_partial if interim else None
        )
        self._interim = interim
        self._preroll = bytearray()
        #: the recogniser gets what is said now; and whether it got the segments that wait
        self._live = False
        self._waiting: deque[bool] = deque()

    @property
    def wants_wav_segments(self) -> bool:
        """Samples, without a header."""
        return False

    async def setup(self, setup: FrameProcessorSetup) -> None:
        """See FrameProcessor.

        Raises:
            BadRequest: the pipeline's audio has another rate than our engines take.
        """
        await super().setup(setup)
        if self.sample_rate != SAMPLE_RATE:
            raise BadRequest(
                f"The pipeline's microphone has {self.sample_rate} Hz, recognisers take "
                f"{SAMPLE_RATE} Hz",
                mend=f"Set audio_in_sample_rate={SAMPLE_RATE} in its PipelineParams",
            )

    async def process_audio_frame(
        self, frame: InputAudioRawFrame, direction: FrameDirection
    ) -> None:
        """Audio of the microphone."""
        if self._live:
            self._feed(frame.audio)
        elif self._interim:
            self._preroll += frame.audio
            del self._preroll[:-_PREROLL]
        await super().process_audio_frame(frame, direction)

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Notes where segments begin and end, before they are queued."""
        if isinstance(frame, VADUserStartedSpeakingFrame):
            self._begin()
        elif isinstance(frame, VADUserStoppedSpeakingFrame):
            self._waiting.append(self._live)
            self._live = False
        await super().process_frame(frame, direction)

    async def run_stt(self, audio: bytes) -> AsyncGenerator[Frame | None, None]:
        """Recognises a segment."""
        if not (self._waiting and self._waiting[0]):
            self._recogniser.reset()
            self._feed(audio)
        try:
            transcript = await self._recogniser.finalise()
        except DuplexdError as error:
            yield ErrorFrame(str(error))
            return
        finally:
            if self._waiting:
                self._waiting.popleft()
        if transcript.text:
            frame = TranscriptionFrame(transcript.text, "", time_now_iso8601())
            frame.includes_inter_frame_spaces = transcript.language == "zh"
            yield frame

    async def cleanup(self) -> None:
        """Gives the engine's handle back."""
        await super().cleanup()
        self._recogniser.close()

    def _begin(self) -> None:
        """Somebody speaks; while a segment before is recognised, this one's audio has to wait."""
        if self._interim and not self._waiting:
            self._recogniser.reset()
            self._feed(bytes(self._preroll))
            self._preroll.clear()
            self._live = True

    def _feed(self, pcm: bytes) -> None:
        samples = np.frombuffer(pcm, np.int16).astype(np.float32)
        self._recogniser.feed(samples * np.float32(1 / 32768))

    def _on_partial(self, partial: Transcript) -> None:
        if self._live:
            frame = InterimTranscriptionFrame(partial.text, "", time_now_iso8601())
            self.create_task(self.push_frame(frame))
