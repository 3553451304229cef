"""An answer as it comes from the server: bounded in time and length, and never trusted.

Whatever the server sends, what comes out is text, piece by piece, and the stream ends without
raising: failures are told.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from loguru import logger

from services.llm.failures import CHECK_URL, LATER, describe_failure
from services.llm.messages import SurrogateJoiner
from tts_engine.errors import DuplexdError, EngineFailed, TimedOut
from tts_engine.text.hidden import HiddenFilter

#: characters that are handed on in one go, some milliseconds of work; then the loop goes round
PIECE = 500
#: what a chunk costs besides its text, in characters
_CHUNK_COST = 25
#: a model may think aloud for so many times the limit of its first token
THINKING_TIMES = 4
#: longest wait for the end of a stream whose answer is complete, seconds
_LINGER_S = 1.0
#: bytes of one event; the client would collect without end
_MAX_EVENT = 1 << 20

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
        chars: of the whole answer; what is longer is cut off.
    """

    first_token_s: float
    idle_s: float
    chars: int


class AnswerStream:
    """A completion's text; an async iterator of `TextChunk` with `close`.

    Args:
        ask: makes the request.
        limits: its bounds.
        on_first_token: called when the first text is there.
        on_failure: told how the stream failed, before it ends.
    """

    def __init__(
        self,
        *,
        ask: Callable[[], Awaitable[Any]],
        limits: StreamLimits,
        on_first_token: Callable[[], None],
        on_failure: Callable[[DuplexdError], Awaitable[None]],
    ) -> None:
        self._ask = ask
        self._limits = limits
        self._on_first_token = on_first_token
        self._on_failure = on_failure
        self._joiner = SurrogateJoiner()
        self._hidden = HiddenFilter()
        self._chars = 0
        self._speaks = False  # something came that can be spoken
        self._finish = ""
        self._tools = False
        self._work = 0
        self._thinking_until = 0.0
        self._chunks = self._run()

    def __aiter__(self) -> AsyncIterator[TextChunk]:
        return self._chunks

    async def close(self) -> None:
        """Ends the request."""
        await self._chunks.aclose()

    def silence(self) -> DuplexdError:
        """Why nothing of the answer could be spoken, where the stream itself did not fail."""
        if self._finish == "length" or self._chars >= self._limits.chars:
            return EngineFailed(
                "The language model used up its tokens before it said anything",
                mend="Raise llm.max_tokens, or choose a model that thinks less",
            )
        if self._tools:
            return EngineFailed("The language model called tools, and none are offered")
        return EngineFailed("The language model answered nothing that can be spoken")

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
                text, lives = self._read(chunk)
                for piece in self._cut(text):
                    if self._is_work(piece):
                        await asyncio.sleep(0)
                    yield TextChunk(piece)
                # Only now: the voice may have made us wait.
                if self._finish:
                    deadline = loop.time() + _LINGER_S
                elif lives:
                    deadline = loop.time() + limits.idle_s
                    if not self._speaks:
                        deadline = min(deadline, self._thinking_until)
            else:
                logger.info("An answer was cut off after {} characters", limits.chars)
                return
            if rest := self._joiner.finish():
                yield TextChunk(rest)
            if not self._finish and not wire.done:
                raise self._broken_off()
        except TimeoutError:
            if not self._finish:
                await self._on_failure(self._timed_out())
        except Exception as error:
            await self._on_failure(describe_failure(error))
        finally:
            if stream is not None:
                await stream.close()

    def _read(self, chunk: object) -> tuple[str, bool]:
        """Takes what is text out of whatever came.

        Returns:
            The text, and whether the chunk is a sign of life.
        """
        choices = getattr(chunk, "choices", None)
        choice: object = choices[0] if isinstance(choices, list) and choices else None
        delta = getattr(choice, "delta", None)
        content = getattr(delta, "content", None)
        text = self._joiner.push(content) if isinstance(content, str) and content else ""
        if text and not self._chars:
            self._on_first_token()
        finish = getattr(choice, "finish_reason", None)
        if isinstance(finish, str):
            self._finish = finish
        self._tools = self._tools or bool(getattr(delta, "tool_calls", None))
        return text, bool(text or getattr(delta, "reasoning_content", None))

    def _cut(self, text: str) -> list[str]:
        """Pieces of a text, as far as the answer may go."""
        if not text:
            return []
        text = text[: self._limits.chars - self._chars]
        self._chars += len(text)
        if not self._speaks:
            self._speaks = any(c.isalnum() for char in text for c in self._hidden.feed(char))
        return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]

    def _is_work(self, piece: str) -> bool:
        """Whether a piece's worth of work was done since the loop last went round."""
        self._work += len(piece) + _CHUNK_COST
        if self._work <= PIECE:
            return False
        self._work = 0
        return True

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
