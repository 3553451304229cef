"""The voice in the pipeline: a pipecat TTSService over the contract of `tts_engine.engine`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol, cast

from pipecat.frames.frames import AggregatedTextFrame, Frame, TTSAudioRawFrame
from pipecat.processors.frame_processor import FrameDirection
from pipecat.services.settings import TTSSettings
from pipecat.services.tts_service import TTSService

from services.answer import CLAUSE, MARKS, REVISION, AnswerEvents, AnswerPlan, AnswerPlans
from services.revision import RevisionBoard
from services.tts.phrases import PhraseBook
from tts_engine.engine import SpeechEngine
from tts_engine.errors import DuplexdError, EngineFailed, TimedOut
from tts_engine.text.clause import Clause


class LookAhead(Protocol):
    """Back-pressure from the play head to synthesis."""

    def made(self, revision: int, length_ms: float) -> None:
        """Audio of the revision was made."""
        ...

    async def wait(self, revision: int) -> None:
        """Returns when little enough of it lies ahead of the play head."""
        ...


class VoiceService(TTSService):
    """Speaks clauses of the live revision, at most a few seconds ahead of the play head."""

    def __init__(
        self,
        *,
        engine: SpeechEngine,
        phrases: PhraseBook,
        board: RevisionBoard,
        plans: AnswerPlans,
        ahead: LookAhead,
        events: AnswerEvents,
        clause_timeout_s: float = 20.0,
    ) -> None:
        # Waits are ours to bound: pipecat's own end a slow answer after 3 s without audio, and
        # write a service off for good after three silent ones.
        super().__init__(
            settings=TTSSettings(model="", voice="", language=None),
            sample_rate=engine.sample_rate,
            push_start_frame=True,
            push_stop_frames=True,
            # None: with a time, pipecat's wait for each piece of audio is a task of its own.
            stop_frame_timeout_s=cast(float, None),
            max_consecutive_zero_audio_contexts=0,
        )
        self._engine = engine
        self._phrases = phrases
        self._board = board
        self._plans = plans
        self._ahead = ahead
        self._events = events
        self._clause_timeout_s = clause_timeout_s
        self._clause: Clause | None = None
        self._clause_revision = 0
        self._reading = engine.reading()
        self._plan: AnswerPlan

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Drops clauses of dead revisions before any work."""
        if isinstance(frame, AggregatedTextFrame):
            revision = frame.metadata.get(REVISION, 0)
            plan = self._plans.of(revision)
            if plan is None:
                return
            if not plan.speak:
                frame.skip_tts = True  # pipecat passes it on; the mouth takes it as heard
            if revision != self._clause_revision:
                self._reading = self._engine.reading()
            # `run_tts` is told the text only; frames are handled one at a time, so this holds.
            self._clause, self._clause_revision = frame.metadata[CLAUSE], revision
            self._plan = plan
        await super().process_frame(frame, direction)

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        """Synthesises the clause at hand; ends early when its revision dies."""
        clause, revision, plan = self._clause, self._clause_revision, self._plan
        assert clause is not None
        try:
            async with aclosing(
                self._phrases.synthesize(
                    self._engine,
                    self._reading,
                    clause.text,
                    voice=plan.voice,
                    speed=plan.speed,
                    style=clause.style,
                )
            ) as chunks:
                while self._board.alive(revision):
                    await self._ahead.wait(revision)
                    async with asyncio.timeout(self._clause_timeout_s):
                        chunk = await anext(chunks, None)
                    if chunk is None:
                        return
                    self._events.on_stamp(revision, "chunk", time.monotonic())
                    self._ahead.made(revision, len(chunk.pcm) * 500 / self._engine.sample_rate)
                    frame = TTSAudioRawFrame(
                        chunk.pcm, self._engine.sample_rate, 1, context_id=context_id
                    )
                    frame.metadata[REVISION] = revision
                    frame.metadata[CLAUSE] = clause
                    frame.metadata[MARKS] = chunk.marks
                    yield frame
                    # What was made is to be heard before more is made, however fast that is.
                    await asyncio.sleep(0)
        except TimeoutError:
            waited = f"{self._clause_timeout_s:g} s"
            self._fail(revision, TimedOut(f"The voice gave nothing for {waited}"))
        except DuplexdError as error:
            self._fail(revision, error)
        except Exception as error:
            self._fail(revision, EngineFailed(f"The voice failed: {error!r}"))

    async def flush_audio(self, context_id: str | None = None) -> None:
        """Closes the answer's audio context.

        pipecat closes it by itself only if the last clause gave audio; otherwise what follows,
        the end of the answer first of all, would wait behind it for ever.
        """
        if context_id and self.audio_context_available(context_id):
            await self.remove_audio_context(context_id)

    def _fail(self, revision: int, error: DuplexdError) -> None:
        self._events.on_failure(revision, error)
