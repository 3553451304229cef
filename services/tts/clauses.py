"""LLM text in, clauses out: where an answer is cut for the voice."""

from __future__ import annotations

import time

from pipecat.frames.frames import (
    AggregatedTextFrame,
    Frame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.utils.text.base_text_aggregator import TextType

from services.answer import CLAUSE, REVISION, TAIL, AnswerEvents
from tts_engine.text.clause import Clause
from tts_engine.text.stream import ClauseStream


class ClauseProcessor(FrameProcessor):
    """Replaces an answer's text frames by one `AggregatedTextFrame` a clause.

    pipecat's own aggregators look ahead a character at full-width marks, never end a sentence at a
    comma or a newline, and cannot tell which raw text a spoken text stands for. Direct mode:
    nothing here waits, so frames need no queue of their own.
    """

    def __init__(self, *, events: AnswerEvents) -> None:
        super().__init__(enable_direct_mode=True)
        self._events = events
        self._stream = ClauseStream()
        self._revision = 0

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Cuts text; passes everything else in order."""
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMTextFrame):
            await self._push_clauses(self._stream.push(frame.text))
            return
        if isinstance(frame, LLMFullResponseStartFrame):
            self._stream = ClauseStream()
            self._revision = frame.metadata.get(REVISION, 0)
        elif isinstance(frame, AggregatedTextFrame):
            # A text that comes ready-made (an apology) is spoken after what is there.
            await self._push_clauses(self._stream.flush())
        elif isinstance(frame, LLMFullResponseEndFrame):
            await self._push_clauses(self._stream.flush())
            frame.metadata[TAIL] = self._stream.tail
        elif isinstance(frame, InterruptionFrame):
            self._stream = ClauseStream()
        await self.push_frame(frame, direction)

    async def _push_clauses(self, clauses: list[Clause]) -> None:
        for clause in clauses:
            if clause.first:
                self._events.on_stamp(self._revision, "clause", time.monotonic())
            frame = AggregatedTextFrame(clause.text, TextType.SENTENCE, raw_text=clause.raw)
            frame.metadata[REVISION] = self._revision
            frame.metadata[CLAUSE] = clause
            await self.push_frame(frame)
