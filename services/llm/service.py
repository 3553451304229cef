"""The answer's text: pipecat's OpenAI service on the shared client, one revision at a time.

What differs from the stock service: the HTTP client is shared and warm, every frame of an answer
carries its revision, a dead revision is never asked for, the system prompt is chosen per request,
and a failing server ends in a spoken message instead of an unusable service.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from loguru import logger
from openai import AsyncOpenAI
from pipecat.frames.frames import (
    Frame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext, LLMContextMessage
from pipecat.processors.frame_processor import FrameDirection
from pipecat.services.openai.llm import OpenAILLMService

from services.answer import (
    FALLBACK,
    LANGUAGE,
    REVISION,
    AnswerEvents,
    AnswerPlan,
    AnswerPlans,
    Fallback,
    apology,
    by_language,
)
from services.llm.calls import CallArguments, CallBegun, CallDone, CallEvent
from services.llm.client import stream_chat
from services.llm.context import fit, halve, is_too_long, tokens_of
from services.llm.failures import describe_failure
from services.llm.load import ServerLoad
from services.llm.messages import (
    with_notes,
    with_objects,
    with_outputs,
    with_prompt,
)
from services.llm.stream import AnswerStream, StreamLimits
from services.revision import RevisionBoard
from services.tools import NamedTool, Tool
from services.well_formed import all_well_formed
from tts_engine.errors import DuplexdError, EngineFailed

#: an answer may have so many characters for each token of its bound; servers may ignore the bound
CHARS_PER_TOKEN = 8
NO_TOOLS = "the embedded language model is not offered the client's tools"
OFFER_TOOLS = (
    "Set llm.local.tools to try it all the same, or OPENAI_BASE_URL to use a model that knows how "
    "to call functions"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSettings:
    """How answers are asked for.

    Parameters:
        model: name of the model at the server.
        prompts: system prompt by language; the first is for turns of unknown language.
        switches: what is added to a user message in another language than the prompt's.
        moods: what is added to a user message of which the emotion is known, by language, with
            `services.llm.moods.PLACEHOLDER` for it; empty: nothing.
        apologies: what is said when the server fails, by language, in the same order.
        temperature: of sampling.
        max_tokens: bound of an answer.
        context_tokens: bound of a request and its answer; older exchanges are dropped.
        first_token_timeout_s: longest wait for the first token.
        idle_timeout_s: longest wait between tokens.
        tools: False: it is offered no functions, as it would misuse them.
    """

    model: str
    prompts: Mapping[str, str]
    switches: Mapping[str, str]
    moods: Mapping[str, str] = field(default_factory=dict[str, str])
    apologies: Mapping[str, str]
    temperature: float = 0.6
    max_tokens: int = 300
    context_tokens: int = 16_000
    first_token_timeout_s: float = 15.0
    idle_timeout_s: float = 15.0
    tools: bool = True


class AnswerService(OpenAILLMService):
    """Streams an answer for each context frame whose revision is live."""

    def __init__(
        self,
        *,
        client: AsyncOpenAI,
        settings: AnswerSettings,
        board: RevisionBoard,
        plans: AnswerPlans,
        events: AnswerEvents,
        load: ServerLoad,
    ) -> None:
        self._shared_client = client
        super().__init__(
            # What else pipecat would set is the plan's, answer by answer.
            settings=OpenAILLMService.Settings(model=settings.model),
        )
        self._answers = settings
        self._board = board
        self._plans = plans
        self._events = events
        self._load = load
        self._revision = 0
        self._language = ""
        self._plan: AnswerPlan
        self._stream: AnswerStream | None = None
        self._told = False  # that it is offered no functions

    def create_client(self, *args: Any, **kwargs: Any) -> AsyncOpenAI:
        """Returns the shared client: one of its own costs 51 ms of the event loop a session."""
        return self._shared_client

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Drops what is dead, remembers what is asked for, and lets pipecat do the rest."""
        if isinstance(frame, LLMContextFrame):
            revision: int = frame.metadata.get(REVISION, 0)
            plan = self._plans.of(revision)
            if plan is None:
                return
            self._revision, self._plan = revision, plan
            if plan.tools and not self._answers.tools:
                self._tell_of_no_tools()
            self._language = frame.metadata.get(LANGUAGE, "")
            if plan.messages is not None:
                # Copies: its shortening is not to touch the plan.
                messages = [dict(message) for message in plan.messages]
                frame.context = LLMContext(cast("list[LLMContextMessage]", messages))
        await super().process_frame(frame, direction)

    async def push_frame(
        self, frame: Frame, direction: FrameDirection = FrameDirection.DOWNSTREAM
    ) -> None:
        """Stamps the revision on every frame of an answer, and on its end what to say for it."""
        if isinstance(frame, LLMFullResponseStartFrame | LLMTextFrame | LLMFullResponseEndFrame):
            if isinstance(frame, LLMFullResponseEndFrame) and self._stream is not None:
                stream, self._stream = self._stream, None
                if not stream.called:
                    fallback = Fallback(text=self._apology(), error=stream.silence())
                    frame.metadata[FALLBACK] = fallback
            frame.metadata.setdefault(REVISION, self._revision)
        await super().push_frame(frame, direction)

    async def push_error(
        self, error_msg: str, exception: Exception | None = None, *args: Any, **kwargs: Any
    ) -> None:
        """An answer that fails inside pipecat is spoken of as well, and the service lives on."""
        logger.opt(exception=exception).error("{}: {}", self, error_msg)
        await self.apologise(describe_failure(exception or EngineFailed(error_msg)))

    async def get_chat_completions(self, context: LLMContext) -> Any:
        """Asks the server; what comes back ends early instead of raising.

        Returns:
            An async iterator of chunks with `close`, as pipecat expects of a stream.
        """
        answers, events, revision = self._answers, self._events, self._revision
        self._stream = AnswerStream(
            ask=partial(self._ask, context),
            limits=StreamLimits(
                first_token_s=answers.first_token_timeout_s,
                idle_s=answers.idle_timeout_s,
                chars=self._plan.max_tokens * CHARS_PER_TOKEN,
            ),
            load=self._load,
            offered=[tool.name for tool in self._offered()],
            new_call_id=_new_call_id,
            on_first_token=self._note_first_token,
            on_call=partial(_tell_call, events, revision),
            on_usage=partial(events.on_usage, revision),
            on_cut=partial(events.on_cut, revision),
            on_failure=self.apologise,
        )
        return self._stream

    async def apologise(self, error: DuplexdError) -> None:
        """Says that the answer fails, after what there is of it."""
        self._events.on_failure(self._revision, error)
        text = self._apology()
        if text and self._board.alive(self._revision):
            frame = apology(text)
            frame.metadata[REVISION] = self._revision
            await self.push_frame(frame)

    async def _ask(self, context: LLMContext) -> Any:
        """The request itself, of as much of the conversation as the server can take."""
        most, plan = self._answers.context_tokens, self._plan
        tools = _tool_params(plan, self._offered())
        if plan.tools and not tools and plan.tool_choice not in ("auto", "none"):
            raise EngineFailed("A function was to be called, and " + NO_TOOLS, mend=OFFER_TOOLS)
        # A bound of the answer that leaves nothing for the question is not to be taken at its word.
        room = max(most - plan.max_tokens, most // 2)
        room -= tokens_of(self._prompt())
        if tools:
            room -= tokens_of(json.dumps(tools, ensure_ascii=False))
        self._shorten(context, fit(context.messages, room))
        try:
            return await stream_chat(self._shared_client, self._request(context.messages, tools))
        except Exception as error:
            if not is_too_long(error) or not self._shorten(context, halve(context.messages)):
                raise
        return await stream_chat(self._shared_client, self._request(context.messages, tools))

    def _request(self, conversation: list[Any], tools: dict[str, Any]) -> dict[str, Any]:
        """Puts the system prompt first, and merges messages in a row of the same role.

        The prompt is that of the conversation's first turn, and stays: a prompt that changes with
        the language makes the server read the whole conversation anew. A turn in another language
        says so itself, and so does one of a certain mood, in the same words each time, so that the
        prefix stays what it was.
        """
        plan = self._plan
        messages = with_notes(
            with_objects(with_outputs(conversation)),
            self._prompt_language(),
            switches={} if plan.instructions else self._answers.switches,
            moods=self._answers.moods,
        )
        return {
            "model": self._answers.model,
            "stream_options": {"include_usage": True},
            "temperature": plan.temperature,
            "max_tokens": plan.max_tokens,
            "messages": all_well_formed(with_prompt(self._prompt(), messages)),
            **all_well_formed(tools),
        }

    def _shorten(self, context: LLMContext, kept: list[Any] | None) -> bool:
        """Drops what is not kept: from the context itself, which would grow without end."""
        if kept is None or len(kept) == len(context.messages):
            return False
        here = {id(message) for message in kept}
        dropped = [message for message in context.messages if id(message) not in here]
        logger.info("{}: the oldest {} messages were dropped from the context", self, len(dropped))
        context.set_messages(kept)
        self._events.on_shortened(self._revision, dropped)
        return True

    def _prompt(self) -> str:
        """The client's own prompt, if it gave one, or ours in the conversation's language."""
        ours = by_language(self._answers.prompts, self._prompt_language())
        return self._plan.instructions or ours

    def _prompt_language(self) -> str:
        return self._plan.prompt_language or self._language

    def _offered(self) -> tuple[Tool, ...]:
        """The functions that the answer may ask for."""
        return self._plan.tools if self._answers.tools and self._plan.tool_choice != "none" else ()

    def _tell_of_no_tools(self) -> None:
        if not self._told:
            self._told = True
            logger.info("{}: {}. {}", self, NO_TOOLS, OFFER_TOOLS)

    def _apology(self) -> str:
        return by_language(self._answers.apologies, self._language)

    def _note_first_token(self) -> None:
        self._events.on_stamp(self._revision, "first_token", time.monotonic())


def _new_call_id() -> str:
    """An id for a function call; it must not be one that the client has in store, so no number."""
    return f"call_{secrets.token_hex(8)}"


def _tell_call(events: AnswerEvents, revision: int, event: CallEvent) -> None:
    match event:
        case CallBegun(call_id, name):
            events.on_call_begun(revision, call_id, name)
        case CallArguments(call_id, delta):
            events.on_call_arguments(revision, call_id, delta)
        case CallDone(call):
            events.on_call_done(revision, call)


def _tool_params(plan: AnswerPlan, tools: tuple[Tool, ...]) -> dict[str, Any]:
    """What a request says about functions, in OpenAI's chat format: nothing, where there are none;
    some servers refuse an empty list.
    """
    choice = plan.tool_choice
    if not tools:
        return {}
    named = isinstance(choice, NamedTool)
    return {
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters) or {"type": "object", "properties": {}},
                },
            }
            for tool in tools
        ],
        "tool_choice": {"type": "function", "function": {"name": choice.name}} if named else choice,
    }
