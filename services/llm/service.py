"""The answer's text: pipecat's OpenAI service on the shared client, one revision at a time.

What differs from the stock service: the HTTP client is shared and warm, every frame of an answer
carries its revision, a dead revision is never asked for, the system prompt is chosen per request,
and a failing server ends in a spoken message instead of an unusable service.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionChunk
from pipecat.frames.frames import (
    Frame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
)
from pipecat.processors.frame_processor import FrameDirection
from pipecat.services.openai.llm import OpenAILLMService

from services.answer import (
    INSTRUCTIONS,
    LANGUAGE,
    REVISION,
    AnswerEvents,
    apology,
    by_language,
)
from services.language import language_of
from services.llm.failures import describe_failure
from services.revision import RevisionBoard
from tts_engine.errors import DuplexdError, EngineFailed, TimedOut


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSettings:
    """How answers are asked for.

    Parameters:
        model: name of the model at the server.
        prompts: system prompt by language; the first is for turns of unknown language.
        switches: what is added to a user message in another language than the prompt's.
        apologies: what is said when the server fails, by language, in the same order.
        temperature: of sampling.
        max_tokens: bound of an answer.
        instructions: the client's own prompt, in place of ours.
        first_token_timeout_s: longest wait for the first token.
        idle_timeout_s: longest wait between tokens.
    """

    model: str
    prompts: Mapping[str, str]
    switches: Mapping[str, str]
    apologies: Mapping[str, str]
    temperature: float = 0.6
    max_tokens: int = 300
    instructions: str = ""
    first_token_timeout_s: float = 15.0
    idle_timeout_s: float = 15.0


class AnswerService(OpenAILLMService):
    """Streams an answer for each context frame whose revision is live."""

    def __init__(
        self,
        *,
        client: AsyncOpenAI,
        settings: AnswerSettings,
        board: RevisionBoard,
        events: AnswerEvents,
    ) -> None:
        self._shared_client = client
        super().__init__(
            settings=OpenAILLMService.Settings(
                model=settings.model,
                temperature=settings.temperature,
                max_tokens=settings.max_tokens,
            ),
        )
        self.answers = settings
        self._board = board
        self._events = events
        self._revision = 0
        self._language = ""
        self._prompt_language = ""
        self._instructions = ""

    def create_client(self, *args: Any, **kwargs: Any) -> AsyncOpenAI:
        """Returns the shared client: one of its own costs 51 ms of the event loop a session."""
        return self._shared_client

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Drops what is dead, remembers what is asked for, and lets pipecat do the rest."""
        if isinstance(frame, LLMContextFrame):
            if not self._board.alive(frame.metadata.get(REVISION, 0)):
                return
            self._revision = frame.metadata[REVISION]
            self._language = frame.metadata.get(LANGUAGE, "")
            self._instructions = frame.metadata.get(INSTRUCTIONS) or ""
        await super().process_frame(frame, direction)

    async def push_frame(
        self, frame: Frame, direction: FrameDirection = FrameDirection.DOWNSTREAM
    ) -> None:
        """Stamps the revision on every frame of an answer."""
        if isinstance(frame, LLMFullResponseStartFrame | LLMTextFrame | LLMFullResponseEndFrame):
            frame.metadata.setdefault(REVISION, self._revision)
        await super().push_frame(frame, direction)

    def build_chat_completion_params(self, params_from_context: Any) -> dict[str, Any]:
        """Puts the system prompt first, and merges messages in a row of the same role.

        The prompt is that of the conversation's first turn, and stays: a prompt that changes with
        the language makes the server read the whole conversation anew. A turn in another language
        says so itself, in the same words each time, so that the prefix stays what it was.
        """
        params = super().build_chat_completion_params(params_from_context)
        self._prompt_language = self._prompt_language or self._language
        given = self._instructions or self.answers.instructions
        messages: list[Any] = params["messages"]
        if not given:
            messages = with_switches(messages, self._prompt_language, self.answers.switches)
        prompt = given or by_language(self.answers.prompts, self._prompt_language)
        params["messages"] = with_prompt(prompt, messages)
        params["temperature"] = self.answers.temperature
        params["max_tokens"] = self.answers.max_tokens
        return params

    async def get_chat_completions(self, context: Any) -> Any:
        """Asks the server; what comes back ends early instead of raising.

        Returns:
            An async iterator of chunks with `close`, as pipecat expects of a stream.
        """
        return _BoundedStream(self, context)

    async def ask(self, context: Any) -> Any:
        """The request itself."""
        return await super().get_chat_completions(context)

    def note_first_token(self) -> None:
        """The first token of the answer is there."""
        self._events.on_stamp(self._revision, "first_token", time.monotonic())

    async def apologise(self, error: DuplexdError) -> None:
        """Says that the answer fails, after what there is of it."""
        self._events.on_failure(self._revision, error)
        text = by_language(self.answers.apologies, self._language)
        if text and self._board.alive(self._revision):
            frame = apology(text)
            frame.metadata[REVISION] = self._revision
            await self.push_frame(frame)


class _BoundedStream:
    """A completion's stream whose waits are bounded and whose failures are told, not raised."""

    def __init__(self, service: AnswerService, context: Any) -> None:
        self._service = service
        self._context = context
        self._chunks = self._run()

    def __aiter__(self) -> AsyncIterator[ChatCompletionChunk]:
        return self._chunks

    async def close(self) -> None:
        """Ends the request."""
        await self._chunks.aclose()

    async def _run(self) -> AsyncGenerator[ChatCompletionChunk, None]:
        service, limits = self._service, self._service.answers
        stream = None
        said = False
        try:
            # A timeout around each step, never around a `yield`: it would cancel the consumer.
            async with asyncio.timeout(limits.first_token_timeout_s):
                stream = await service.ask(self._context)
            deadline = asyncio.get_running_loop().time() + limits.first_token_timeout_s
            chunks = aiter(stream)
            while True:
                async with asyncio.timeout_at(deadline):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    break
                if _carries_something(chunk):
                    if not said:
                        service.note_first_token()
                        said = True
                    deadline = asyncio.get_running_loop().time() + limits.idle_timeout_s
                yield chunk
            if not said:
                raise EngineFailed("The language model answered nothing")
        except TimeoutError:
            waited = limits.idle_timeout_s if said else limits.first_token_timeout_s
            await service.apologise(
                TimedOut(
                    f"The language model sent nothing for {waited:g} s",
                    mend="Is its server overloaded? See llm.first_token_timeout_s",
                )
            )
        except DuplexdError as error:
            await service.apologise(error)
        except Exception as error:
            await service.apologise(describe_failure(error))
        finally:
            if stream is not None:
                await stream.close()


def _carries_something(chunk: ChatCompletionChunk) -> bool:
    if not chunk.choices:
        return False
    delta = chunk.choices[0].delta
    return bool(delta and (delta.content or delta.tool_calls))


def with_prompt(prompt: str, messages: list[Any]) -> list[dict[str, Any]]:
    """Builds the request's messages: the prompt, then the context with neighbours merged.

    Only plain text messages of the same role are merged, with a newline between.
    """
    merged: list[dict[str, Any]] = [{"role": "system", "content": prompt}] if prompt else []
    for message in messages:
        last = merged[-1] if merged else None
        plain = isinstance(message.get("content"), str) and set(message) == {"role", "content"}
        if (
            last is not None
            and plain
            and last["role"] == message["role"]
            and set(last) == {"role", "content"}
            and isinstance(last["content"], str)
        ):
            last["content"] = f"{last['content']}\n{message['content']}"
        else:
            merged.append(dict(message))
    return merged


def with_switches(
    messages: list[Any], prompt_language: str, switches: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Adds to each user message in another language than the prompt's that it is.

    Depends on nothing but the message, so a message reads the same in every later request.
    """
    result: list[dict[str, Any]] = []
    for message in messages:
        text = message.get("content")
        if message.get("role") == "user" and isinstance(text, str) and prompt_language:
            language = language_of(text)
            if language != prompt_language and switches.get(language):
                message = {**message, "content": f"{text}\n{switches[language]}"}
        result.append(message)
    return result
