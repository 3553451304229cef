"""The context's two writers: what the user said, and what was heard of the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    Frame,
    InterruptionFrame,
    LLMContextFrame,
    StartFrame,
    TextFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMAssistantAggregator,
    LLMUserAggregator,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.turns.types import ProcessFrameResult
from pipecat.turns.user_start.base_user_turn_start_strategy import BaseUserTurnStartStrategy
from pipecat.turns.user_stop.base_user_turn_stop_strategy import BaseUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.utils.string import TextPartForConcatenation

from pipeline.frames import AnswerFrame, HeardTextFrame, TurnCommitFrame, TurnOpenFrame
from services.answer import INSTRUCTIONS, LANGUAGE, REVISION

#: the turn core owns the end of a turn; pipecat's watchdog must never close one
_NO_WATCHDOG_S = 7 * 24 * 3600.0


class _DriverStart(BaseUserTurnStartStrategy):
    """Starts a pipecat turn when the driver says so; interrupting is the driver's own business."""

    async def process_frame(self, frame: Frame) -> ProcessFrameResult | None:
        if isinstance(frame, TurnOpenFrame):
            await self.trigger_user_turn_started(enable_interruptions=False)
        return ProcessFrameResult.CONTINUE


class _DriverStop(BaseUserTurnStopStrategy):
    """Ends a pipecat turn when the driver says so."""

    def __init__(self, on_commit: Callable[[TurnCommitFrame], None]) -> None:
        super().__init__()
        self._on_commit = on_commit

    async def process_frame(self, frame: Frame) -> ProcessFrameResult | None:
        if isinstance(frame, TurnCommitFrame):
            self._on_commit(frame)
            if frame.revision:
                await self.trigger_user_turn_stopped()
            else:
                # "Confirms a speculation" means here: write the turn, ask nobody.
                await self.trigger_user_turn_finalized(confirms_speculation=True)
        return ProcessFrameResult.CONTINUE


class TurnAggregator(LLMUserAggregator):
    """Writes committed turns to the context, and tags each request with its revision."""

    def __init__(self, context: LLMContext) -> None:
        strategies = UserTurnStrategies(start=[_DriverStart()], stop=[_DriverStop(self._commit)])
        super().__init__(
            context,
            params=LLMUserAggregatorParams(
                user_turn_strategies=strategies,
                user_turn_stop_timeout=_NO_WATCHDOG_S,
                empty_user_turn=None,
            ),
        )
        self._tag: dict[str, Any] = {}

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Runs an answer from the context; everything else is pipecat's."""
        if isinstance(frame, AnswerFrame):
            await FrameProcessor.process_frame(self, frame, direction)
            self._commit(frame)
            await self.push_context_frame()
            return
        await super().process_frame(frame, direction)

    async def push_frame(
        self, frame: Frame, direction: FrameDirection = FrameDirection.DOWNSTREAM
    ) -> None:
        """Tags requests on their way to the LLM."""
        if isinstance(frame, LLMContextFrame) and direction is FrameDirection.DOWNSTREAM:
            frame.metadata.update(self._tag)
        await super().push_frame(frame, direction)

    def _commit(self, frame: TurnCommitFrame | AnswerFrame) -> None:
        self._tag = {
            REVISION: frame.revision,
            LANGUAGE: frame.language,
            INSTRUCTIONS: frame.instructions,
        }


class HeardAggregator(LLMAssistantAggregator):
    """Writes what was heard: only the mouth's `HeardTextFrame` decides what an answer was."""

    def __init__(
        self,
        context: LLMContext,
        *,
        on_started: Callable[[], None],
        on_settled: Callable[[], None],
    ) -> None:
        super().__init__(context)
        self._on_started = on_started
        self._on_settled = on_settled
        self._heard_revision = 0
        self._written: tuple[int, dict[str, Any]] | None = None

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Takes the heard text over; an interruption has settled once it was handled here."""
        if isinstance(frame, HeardTextFrame):
            await FrameProcessor.process_frame(self, frame, direction)
            self._heard_revision = frame.revision
            self._aggregation = (
                [TextPartForConcatenation(frame.text, includes_inter_part_spaces=True)]
                if frame.text
                else []
            )
            return
        await super().process_frame(frame, direction)
        if isinstance(frame, StartFrame):
            self._on_started()
        elif isinstance(frame, InterruptionFrame | EndFrame | CancelFrame):
            self._on_settled()

    async def push_aggregation(self) -> str:
        """Writes the message, and remembers it for a client's late truncation."""
        text = await super().push_aggregation()
        if text:
            message = cast(dict[str, Any], self._context.messages[-1])
            self._written = (self._heard_revision, message)
        return text

    def amend(self, revision: int, text: str) -> None:
        """Corrects a written answer in place: the client knows better what was heard."""
        if self._written is None or self._written[0] != revision:
            return
        message = self._written[1]
        if text:
            message["content"] = text
        elif message in self._context.messages:
            self._context.set_messages([m for m in self._context.messages if m is not message])

    async def _handle_text(self, frame: TextFrame) -> None:
        """Ignores text in flight: that it was made does not mean that it was heard."""
