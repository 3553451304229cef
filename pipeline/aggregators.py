"""Where committed turns enter the context and requests leave it, and where the pipeline ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    Frame,
    InterruptionFrame,
    LLMContextFrame,
    LLMContextUserTurnFrame,
    StartFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext, LLMContextMessage
from pipecat.processors.aggregators.llm_response_universal import (
    LLMUserAggregator,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.turns.types import ProcessFrameResult
from pipecat.turns.user_start.base_user_turn_start_strategy import BaseUserTurnStartStrategy
from pipecat.turns.user_stop.base_user_turn_stop_strategy import BaseUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies

from pipeline.context_book import ContextBook
from pipeline.frames import (
    AnswerFrame,
    ContextEditFrame,
    SpeculateFrame,
    TurnCommitFrame,
    TurnOpenFrame,
)
from services.answer import EMOTION, LANGUAGE, REVISION
from services.items import answer_ref, turn_ref

#: the turn core owns the end of a turn; pipecat's watchdog must never close one
_NO_WATCHDOG_S = 7 * 24 * 3600.0


class _DriverStart(BaseUserTurnStartStrategy):
    """Starts a pipecat turn when the driver says so; interrupting is the driver's own business.

    Neither this nor the end is told to the other processors: none of them asks, and each would be
    woken for it just before it has an answer to make.
    """

    async def process_frame(self, frame: Frame) -> ProcessFrameResult | None:
        if isinstance(frame, TurnOpenFrame):
            await self.trigger_user_turn_started(
                enable_interruptions=False, enable_user_speaking_frames=False
            )
        return ProcessFrameResult.CONTINUE


class _DriverStop(BaseUserTurnStopStrategy):
    """Ends a pipecat turn when the driver says so."""

    def __init__(self, on_commit: Callable[[TurnCommitFrame], None]) -> None:
        super().__init__()
        self._on_commit = on_commit

    async def process_frame(self, frame: Frame) -> ProcessFrameResult | None:
        if isinstance(frame, TurnCommitFrame):
            self._on_commit(frame)
            if frame.revision and not frame.ready:
                await self.trigger_user_turn_stopped(enable_user_speaking_frames=False)
            else:
                # "Confirms a speculation" means: write the turn, ask nobody.
                await self.trigger_user_turn_finalized(
                    enable_user_speaking_frames=False, confirms_speculation=True
                )
        return ProcessFrameResult.CONTINUE


class TurnAggregator(LLMUserAggregator):
    """Writes committed turns to the context, names them, and tags requests with their revision.

    Direct mode: what it does never waits, so the frames need no queue of their own here.
    """

    def __init__(self, context: LLMContext, book: ContextBook) -> None:
        strategies = UserTurnStrategies(start=[_DriverStart()], stop=[_DriverStop(self._commit)])
        super().__init__(
            context,
            params=LLMUserAggregatorParams(
                user_turn_strategies=strategies,
                user_turn_stop_timeout=_NO_WATCHDOG_S,
                empty_user_turn=None,
            ),
            enable_direct_mode=True,
        )
        self._book = book
        self._tag: dict[str, Any] = {REVISION: 0, LANGUAGE: ""}
        self._turn, self._emotion = 0, ""
        self._ready = False  # the answer to the turn that is being written was asked for before

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Runs an answer from the context, or edits it; everything else is pipecat's."""
        if isinstance(frame, AnswerFrame):
            await FrameProcessor.process_frame(self, frame, direction)
            self._tag = {REVISION: frame.revision, LANGUAGE: frame.language}
            await self.push_context_frame()
        elif isinstance(frame, SpeculateFrame):
            await FrameProcessor.process_frame(self, frame, direction)
            await self._speculate(frame)
        elif isinstance(frame, ContextEditFrame):
            await FrameProcessor.process_frame(self, frame, direction)
            frame.edit()
        else:
            await super().process_frame(frame, direction)

    async def push_frame(
        self, frame: Frame, direction: FrameDirection = FrameDirection.DOWNSTREAM
    ) -> None:
        """Names a turn that was just written, and tags requests on their way to the LLM."""
        if isinstance(frame, LLMContextUserTurnFrame):
            if direction is FrameDirection.DOWNSTREAM:
                cast(dict[str, Any], self._context.messages[-1]).update(_said(self._emotion))
                self._book.name_last(turn_ref(self._turn))
                if self._ready:
                    self._book.ask(answer_ref(self._tag[REVISION]))
            return
        if isinstance(frame, LLMContextFrame):
            frame.metadata.update(self._tag)
            self._book.ask(answer_ref(self._tag[REVISION]))
        await super().push_frame(frame, direction)

    async def _speculate(self, frame: SpeculateFrame) -> None:
        """Asks for an answer to what the context would be, without a trace in it.

        pipecat's own speculation holds the answer at the language model; ours is held by its
        revision, behind the voice, so its requests are ordinary ones.
        """
        turn = {"role": self.role, "content": frame.text, **_said(frame.emotion)}
        messages = [*self._context.messages, cast(LLMContextMessage, turn)]
        asked = LLMContextFrame(LLMContext(messages))
        asked.metadata.update({REVISION: frame.revision, LANGUAGE: frame.language})
        await super().push_frame(asked)

    def _commit(self, frame: TurnCommitFrame) -> None:
        self._tag = {REVISION: frame.revision, LANGUAGE: frame.language}
        self._turn, self._emotion, self._ready = frame.turn, frame.emotion, frame.ready


def _said(emotion: str) -> dict[str, Any]:
    """What a user's message in the context notes of how it was said."""
    return {EMOTION: emotion} if emotion else {}


class PipelineEnd(FrameProcessor):
    """The last processor: tells what has come all the way."""

    def __init__(
        self, *, on_started: Callable[[], None], on_interrupted: Callable[[], None]
    ) -> None:
        super().__init__(enable_direct_mode=True)
        self._on_started = on_started
        self._on_interrupted = on_interrupted

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Passes everything on, and tells of starts and interruptions."""
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)
        if isinstance(frame, StartFrame):
            self._on_started()
        elif isinstance(frame, InterruptionFrame | EndFrame | CancelFrame):
            self._on_interrupted()
