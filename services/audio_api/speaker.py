"""A text in, its speech out, on an engine that live conversations use at the same time.

The engine makes the parts of its jobs in turns. So a one-shot is a job a clause, and all one-shots
together have one job at a time: however many and long they are, they take at most every other turn,
and a conversation waits for one clause of them at most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from loguru import logger

from tts_engine.engine import SpeechChunk, SpeechEngine
from tts_engine.errors import BadRequest, DuplexdError, EngineFailed, TimedOut
from tts_engine.text.clause import Clause
from tts_engine.text.stream import ClauseStream

#: The longest clause, in Hanzi, some 9 s of speech: while a conversation waits for it, the answer
#: that it plays has to last.
MAX_CLAUSE = 40
#: characters that are read before the event loop has its turn: well under 1 ms
_READ_AT_ONCE = 32


class NothingToSay(BadRequest):
    """There is no sound in a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a text is said; see `SpeechEngine.synthesize`."""

    voice: str
    speed: float
    style: str


async def clauses_of(text: str) -> AsyncGenerator[Clause, None]:
    """The clauses of a text, as they are needed; the first one is short, as in a conversation."""
    stream = ClauseStream(max_chars=MAX_CLAUSE)
    for start in range(0, len(text), _READ_AT_ONCE):
        for clause in stream.push(text[start : start + _READ_AT_ONCE]):
            yield clause
        await asyncio.sleep(0)
    for clause in stream.flush():
        yield clause


class Speaker:
    """Speaks one-shots.

    Parameters:
        engine: the voice.
        ahead_s: speech made ahead of what was taken, seconds; the clause at hand is finished, so
            that nobody's slow reading holds up the others.
        chunk_timeout_s: limit for the engine's next piece.
    """

    def __init__(self, *, engine: SpeechEngine, ahead_s: float, chunk_timeout_s: float) -> None:
        self._engine = engine
        self._ahead_bytes = round(ahead_s * engine.sample_rate) * 2
        self._chunk_timeout_s = chunk_timeout_s
        self._turn = asyncio.Lock()  # first come, first served: one-shots take turns by the clause

    async def speak(self, text: str, manner: Manner) -> AsyncGenerator[bytes, None]:
        """Makes pieces of audio, mono int16 at the engine's rate. Close it to stop the engine.

        Raises:
            NothingToSay: in the end there was no audio.
            AtCapacity, TimedOut, EngineFailed
        """
        made = _Made(self._ahead_bytes)
        maker = asyncio.create_task(self._make(text, manner, made), name="one-shot")
        silent = True
        try:
            while (pcm := await made.take()) is not None:
                silent = False
                yield pcm
        finally:
            maker.cancel()
            await asyncio.gather(maker, return_exceptions=True)
        if silent:
            raise NothingToSay("There is nothing in the text that can be spoken")

    async def _make(self, text: str, manner: Manner, made: _Made) -> None:
        try:
            async with aclosing(clauses_of(text)) as clauses:
                async for clause in clauses:
                    await made.room()
                    async with self._turn:
                        await self._say(clause, manner, made)
            made.end()
        except DuplexdError as error:
            made.end(error)
        except Exception as error:
            logger.opt(exception=error).error("the voice failed")
            made.end(EngineFailed(f"The voice failed: {error!r}"))

    async def _say(self, clause: Clause, manner: Manner, made: _Made) -> None:
        spoken = 0
        job = self._engine.synthesize(
            clause.text,
            voice=manner.voice,
            speed=manner.speed,
            style=clause.style or manner.style,
        )
        async with aclosing(job) as chunks:
            while (chunk := await self._next(chunks)) is not None:
                made.put(chunk.pcm)
                if chunk.marks:
                    spoken = chunk.marks[-1].chars
        if spoken < len(clause.text):  # the last mark of an utterance says that it is whole
            raise EngineFailed("The voice stopped in the middle of a clause")

    async def _next(self, chunks: AsyncIterator[SpeechChunk]) -> SpeechChunk | None:
        try:
            async with asyncio.timeout(self._chunk_timeout_s):
                return await anext(chunks, None)
        except TimeoutError:
            raise TimedOut(f"The voice gave nothing for {self._chunk_timeout_s:g} s") from None


class _Made:
    """Audio between the engine and the socket.

    Parameters:
        limit: bytes from which there is no room for a further clause.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._error: DuplexdError | None = None
        self._ended = False
        self._changed = asyncio.Event()

    def put(self, pcm: bytes) -> None:
        if pcm:
            self._pieces.append(pcm)
            self._size += len(pcm)
            self._changed.set()

    def end(self, error: DuplexdError | None = None) -> None:
        self._ended, self._error = True, error
        self._changed.set()

    async def room(self) -> None:
        # The two sides never wait both: one waits for a full buffer, the other for an empty one.
        while self._size >= self._limit:
            await self._change()

    async def take(self) -> bytes | None:
        """The next piece, or None behind the last."""
        while not self._pieces and not self._ended:
            await self._change()
        if not self._pieces:
            if self._error is not None:
                raise self._error
            return None
        pcm = self._pieces.popleft()
        self._size -= len(pcm)
        self._changed.set()
        return pcm

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
