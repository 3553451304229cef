"""LLM text in, clauses out: where an answer is cut for the voice."""

from __future__ import annotations

import asyncio
import time

from pipecat.frames.frames import (
    AggregatedTextFrame,
    Frame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    StartFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.utils.text.base_text_aggregator import TextType

from services.answer import (
    CLAUSE,
    FALLBACK,
    REVISION,
    TAIL,
    AnswerEvents,
    AnswerPlans,
    Fallback,
    apology,
)
from tts_engine.text.clause import Clause
from tts_engine.text.stream import ClauseStream

#: clauses that may wait for the voice, minutes of speech; then the LLM is read no further
MAX_WAITING = 40


class ClauseProcessor(FrameProcessor):
    """Replaces an answer's text frames by one `AggregatedTextFrame` a clause.

    pipecat's own aggregators look ahead a character at full-width marks, never end a sentence at a
    comma or a newline, and cannot tell which raw text a spoken text stands for. Direct mode:
    frames need no queue of their own here, and while the voice is far behind, whoever pushes text
    waits with us. An interruption cancels the pusher, and so the wait.

    An answer that ends without a clause has failed: its `Fallback` is said, unless it is only to
    be read and there is something to read.
    """

    def __init__(self, *, events: AnswerEvents, plans: AnswerPlans) -> None:
        super().__init__(enable_direct_mode=True)
        self._events = events
        self._plans = plans
        self._stream = ClauseStream()
        self._revision = 0
        self._said = False
        self._waiting: set[int] = set()  # ids of frames that the voice has not taken yet
        self._taken = asyncio.Event()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Cuts text; passes everything else in order."""
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMTextFrame):
            await self._push_clauses(self._stream.push(frame.text))
            return
        if isinstance(frame, LLMFullResponseStartFrame):
            self._stream = ClauseStream()
            self._revision = frame.metadata.get(REVISION, 0)
            self._said = False
        elif isinstance(frame, AggregatedTextFrame):
            # A text that comes ready-made (an apology) is spoken after what is there.
            await self._push_clauses(self._stream.flush())
            self._said = True
        elif isinstance(frame, LLMFullResponseEndFrame):
            await self._push_clauses(self._stream.flush())
            frame.metadata[TAIL] = self._stream.tail
            await self._fall_back(frame.metadata.get(FALLBACK))
        elif isinstance(frame, InterruptionFrame):
            self._stream = ClauseStream()
            self._waiting.clear()  # the voice drops them
            self._taken.set()
        elif isinstance(frame, StartFrame) and self.next is not None:
            self.next.add_event_handler("on_before_process_frame", self._on_taken)
        await self.push_frame(frame, direction)

    async def _push_clauses(self, clauses: list[Clause]) -> None:
        for clause in clauses:
            while len(self._waiting) >= MAX_WAITING:
                self._taken.clear()
                await self._taken.wait()
            if clause.first:
                self._events.on_stamp(self._revision, "clause", time.monotonic())
            frame = AggregatedTextFrame(clause.text, TextType.SENTENCE, raw_text=clause.raw)
            frame.metadata[REVISION] = self._revision
            frame.metadata[CLAUSE] = clause
            self._said = True
            self._waiting.add(frame.id)
            await self.push_frame(frame)

    async def _fall_back(self, fallback: Fallback | None) -> None:
        plan = self._plans.of(self._revision)
        to_read = plan is not None and not plan.speak
        if fallback is None or self._said or (to_read and self._stream.tail.strip()):
            return
        self._events.on_failure(self._revision, fallback.error)
        if fallback.text:
            frame = apology(fallback.text)
            frame.metadata[REVISION] = self._revision
            await self.push_frame(frame)

    def _on_taken(self, _: FrameProcessor, frame: Frame) -> None:
        self._waiting.discard(frame.id)
        self._taken.set()
