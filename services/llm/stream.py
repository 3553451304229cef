"""An answer as it comes from the server: bounded in time and length, and never trusted.

Whatever the server sends, what comes out is text, piece by piece, and the stream ends without
raising: failures are told, and so are function calls, usage, and why an answer is not whole.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from loguru import logger

from services.face import Cut, Usage
from services.llm.calls import CallDeltas, CallDone, CallEvent, field_of
from services.llm.failures import CHECK_URL, LATER, describe_failure
from services.llm.load import ServerLoad
from services.llm.text_calls import TextCalls
from services.well_formed import SurrogateJoiner
from tts_engine.errors import DuplexdError, EngineFailed, TimedOut
from tts_engine.text.hidden import HiddenFilter

#: characters that are handed on in one go, some milliseconds of work; then the loop goes round
PIECE = 500
#: a model may think aloud for so many times the limit of its first token
THINKING_TIMES = 4
#: longest wait for the end of a stream whose answer is complete, seconds
_LINGER_S = 1.0
#: bytes of one event; the client would collect without end
_MAX_EVENT = 1 << 20
#: tokens that an answer can have; a larger count is none
_MAX_TOKENS = 1 << 31
#: finish reasons of answers that are not whole
_CUTS: dict[str, Cut] = {"length": "max_tokens", "content_filter": "content_filter"}

_END = object()
_DONE = re.compile(rb"[\r\n]data: ?\[DONE\]")
_BLANK = re.compile(rb"\n\r?\n|\r\r")


@dataclass(frozen=True, slots=True)
class _Delta:
    content: str
    tool_calls: None = None


@dataclass(frozen=True, slots=True)
class _Choice:
    delta: _Delta


class TextChunk:
    """A piece of text in the shape of a completion chunk, and nothing else of it."""

    __slots__ = ("choices",)
    usage = None
    model = None

    def __init__(self, text: str) -> None:
        self.choices = (_Choice(_Delta(text)),)

    @property
    def text(self) -> str:
        """The piece."""
        return self.choices[0].delta.content


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """Bounds of an answer.

    Parameters:
        first_token_s: from the request to the first token; to the first token that can be spoken
            it may take `THINKING_TIMES` as long.
        idle_s: between tokens.
        chars: of the whole answer, function calls included; what is longer is cut off.
    """

    first_token_s: float
    idle_s: float
    chars: int


class AnswerStream:
    """A completion's text; an async iterator of `TextChunk` with `close`.

    Args:
        ask: makes the request.
        limits: its bounds.
        load: counts the request while it is answered.
        offered: names of the functions that the request offers; calls of others are dropped. While
            there are any, calls are looked for in the text as well.
        new_call_id: makes ids of function calls.
        on_first_token: called when the first text is there, or the first of a function call.
        on_call: told of function calls as they are written; one that is being written when the
            answer breaks off is never done.
        on_usage: told the server's count of tokens, again when it changes.
        on_cut: told at the answer's end why it is not whole.
        on_failure: told how the stream failed, before it ends.

    Attributes:
        called: a whole function call was told.
    """

    def __init__(
        self,
        *,
        ask: Callable[[], Awaitable[Any]],
        limits: StreamLimits,
        load: ServerLoad,
        offered: Collection[str],
        new_call_id: Callable[[], str],
        on_first_token: Callable[[], None],
        on_call: Callable[[CallEvent], None],
        on_usage: Callable[[Usage], None],
        on_cut: Callable[[Cut], None],
        on_failure: Callable[[DuplexdError], Awaitable[None]],
    ) -> None:
        self._ask = ask
        self._limits = limits
        self._load = load
        self._calls = CallDeltas(new_call_id, offered) if offered else None
        self._text_calls = TextCalls() if offered else None
        self._on_first_token = on_first_token
        self._on_call = on_call
        self._on_usage = on_usage
        self._on_cut = on_cut
        self._on_failure = on_failure
        self._joiner = SurrogateJoiner()
        self._hidden = HiddenFilter()
        self._chars = 0  # of text and function calls
        self._began = False  # the first token was told
        self._speaks = False  # something came that can be spoken, or a function call
        self._finish = ""
        self._tools = False
        self._usage: Usage | None = None
        self._thinking_until = 0.0
        self._chunks = self._counted()
        self.called = False

    def __aiter__(self) -> AsyncIterator[TextChunk]:
        return self._chunks

    async def close(self) -> None:
        """Ends the request."""
        await self._chunks.aclose()

    def silence(self) -> DuplexdError:
        """Why nothing of the answer could be spoken, where the stream itself did not fail."""
        if self._cut_by() == "max_tokens":
            return EngineFailed(
                "The language model used up its tokens before it said anything",
                mend="Raise llm.max_tokens, or choose a model that thinks less",
            )
        if self._cut_by() == "content_filter":
            return EngineFailed("The language model's server held its answer back by a filter")
        if self._tools and self._calls is None:
            return EngineFailed("The language model called tools, and none are offered")
        if self._tools:
            return EngineFailed("The language model called no function that it was offered")
        return EngineFailed("The language model answered nothing that can be spoken")

    async def _counted(self) -> AsyncGenerator[TextChunk, None]:
        with self._load.request():
            async with aclosing(self._run()) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def _run(self) -> AsyncGenerator[TextChunk, None]:
        stream = None
        try:
            loop, limits = asyncio.get_running_loop(), self._limits
            deadline = loop.time() + limits.first_token_s
            self._thinking_until = loop.time() + limits.first_token_s * THINKING_TIMES
            # A timeout around each step, never around a `yield`: it would cancel the consumer.
            async with asyncio.timeout_at(deadline):
                stream = await self._ask()
            wire = _Wire(stream.response)
            chunks = aiter(stream)
            while self._chars < limits.chars:
                async with asyncio.timeout_at(deadline):
                    chunk = await anext(chunks, _END)
                if chunk is _END:
                    break
                delta = self._open(chunk)
                text, tool_calls, lives = self._read(delta)
                for piece in self._cut(text):
                    yield TextChunk(piece)
                    # The loop goes round: it may have been enough to speak, and more is there.
                    await asyncio.sleep(0)
                if self._read_calls(tool_calls):
                    lives = True
                    await asyncio.sleep(0)
                if self._is_over():
                    break
                # Only now: the voice may have made us wait.
                if self._finish:
                    deadline = loop.time() + _LINGER_S
                elif lives:
                    deadline = loop.time() + limits.idle_s
                    if not self._speaks:
                        deadline = min(deadline, self._thinking_until)
            else:
                logger.info("An answer was cut off after {} characters", limits.chars)
            for rest in self._cut(self._rest()):
                yield TextChunk(rest)
            if not (self._finish or wire.done or self._cut_by() or self._is_over()):
                raise self._broken_off()
            self._end()
        except TimeoutError:
            if self._finish:
                self._end()
            else:
                await self._on_failure(self._timed_out())
        except Exception as error:
            await self._on_failure(describe_failure(error))
        finally:
            if stream is not None:
                await stream.close()

    def _open(self, chunk: object) -> object:
        """Takes what is no part of the message out of whatever came.

        Returns:
            Its delta, or what is in its place.
        """
        usage = _usage_of(field_of(chunk, "usage"))
        if usage is not None and usage != self._usage:
            self._usage = usage
            self._on_usage(usage)
        choices = field_of(chunk, "choices")
        choice: object = choices[0] if isinstance(choices, list) and choices else None
        finish = field_of(choice, "finish_reason")
        if isinstance(finish, str):
            self._finish = finish
        return field_of(choice, "delta")

    def _read(self, delta: object) -> tuple[str, object, bool]:
        """Takes out what is text, and what is of function calls.

        Returns:
            The text, what is in place of `tool_calls`, and whether the delta is a sign of life.
        """
        content = field_of(delta, "content")
        text = self._joiner.push(content) if isinstance(content, str) and content else ""
        lives = bool(text or field_of(delta, "reasoning_content"))
        tool_calls = field_of(delta, "tool_calls")
        if text:
            self._begin()
        if text and self._text_calls is not None:
            text, written = self._text_calls.push(text)
            tool_calls = tool_calls or written
        return text, tool_calls, lives

    def _read_calls(self, tool_calls: object) -> bool:
        """Takes function calls, and tells them.

        Returns:
            There are any.
        """
        self._tools = self._tools or bool(tool_calls)
        if not tool_calls or self._calls is None:
            return False
        self._begin()
        before = self._calls.chars
        events = self._calls.push(tool_calls)
        self._tell(events)
        self._speaks = self._speaks or bool(events)
        self._chars += self._calls.chars - before
        return True

    def _begin(self) -> None:
        if not self._began:
            self._began = True
            self._on_first_token()

    def _is_over(self) -> bool:
        """What still comes is no part of the answer."""
        return self._text_calls is not None and self._text_calls.over

    def _rest(self) -> str:
        """The text that was held back."""
        rest = self._joiner.finish()
        if self._text_calls is None:
            return rest
        return self._text_calls.push(rest)[0] + self._text_calls.finish()

    def _tell(self, events: list[CallEvent]) -> None:
        for event in events:
            self.called = self.called or isinstance(event, CallDone)
            self._on_call(event)

    def _end(self) -> None:
        """The answer has ended as answers do."""
        cut = self._cut_by()
        if self._calls is not None:
            self._tell(self._calls.finish(cut=cut is not None))
        if cut is not None:
            self._on_cut(cut)

    def _cut_by(self) -> Cut | None:
        if self._chars >= self._limits.chars:
            return "max_tokens"
        return _CUTS.get(self._finish)

    def _cut(self, text: str) -> list[str]:
        """Pieces of a text, as far as the answer may go."""
        if not text:
            return []
        text = text[: max(self._limits.chars - self._chars, 0)]
        self._chars += len(text)
        if not self._speaks:
            self._speaks = any(c.isalnum() for char in text for c in self._hidden.feed(char))
        return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]

    def _broken_off(self) -> DuplexdError:
        if self._chars:
            return EngineFailed("The language model's server broke off its answer", mend=LATER)
        return EngineFailed("The language model's server sent no answer", mend=CHECK_URL)

    def _timed_out(self) -> DuplexdError:
        limits = self._limits
        if not self._speaks and asyncio.get_running_loop().time() >= self._thinking_until:
            return TimedOut(
                "The language model thought for too long before it said anything",
                mend="Choose one that thinks less, or raise llm.first_token_timeout_s",
            )
        waited = limits.idle_s if self._chars else limits.first_token_s
        return TimedOut(
            f"The language model sent nothing for {waited:g} s",
            mend="Is its server overloaded? See llm.first_token_timeout_s",
        )


def _usage_of(value: object) -> Usage | None:
    """A server's count of tokens; None for none, or nonsense."""
    given = _count(value, "prompt_tokens")
    made = _count(value, "completion_tokens")
    if given is None or made is None:
        return None
    cached = _count(field_of(value, "prompt_tokens_details"), "cached_tokens") or 0
    return Usage(input_tokens=given, output_tokens=made, cached_tokens=min(cached, given))


def _count(value: object, name: str) -> int | None:
    count = field_of(value, name)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < _MAX_TOKENS:
        return None
    return count


class _Wire:
    """Looks at an event stream's bytes: the client tells neither its end mark nor bounds an event.

    Parameters:
        done: the end mark came.
    """

    def __init__(self, response: Any) -> None:
        self._read: Callable[..., AsyncIterator[bytes]] = response.aiter_bytes
        response.aiter_bytes = self._bytes
        self.done = False
        self._last = b"\n"
        self._pending = 0

    async def _bytes(self, *args: Any) -> AsyncGenerator[bytes, None]:
        async for data in self._read(*args):
            seen = self._last + data
            self._last = seen[-16:]
            self.done = self.done or bool(_DONE.search(seen))
            *_, blank = -1, *(match.end() for match in _BLANK.finditer(seen))
            self._pending = len(seen) - blank if blank >= 0 else self._pending + len(data)
            if self._pending > _MAX_EVENT:
                raise EngineFailed(
                    f"The language model's server sent an event of more than {_MAX_EVENT} bytes",
                    mend=CHECK_URL,
                )
            yield data
