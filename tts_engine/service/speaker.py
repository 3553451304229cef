"""Clauses in, their speech out, on an engine that others use at the same time.

The engine makes the parts of its jobs in turns. So a text is a job a clause, and all texts together
have only so many jobs at a time. Beside conversations that is one: however many and long the texts
are, they take at most every other turn, and a conversation waits for one clause of them at most.
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


class NothingToSay(BadRequest):
    """There is no sound in a text."""

    code = "nothing_to_say"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a text is said; see `SpeechEngine.synthesize`."""

    voice: str
    speed: float
    style: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Audio of a clause.

    Parameters:
        pcm: mono int16 samples at the engine's rate, at least one.
        number: of the clause, from 0; clauses without a sound have none of their own.
        clause: what is being said.
    """

    pcm: bytes
    number: int
    clause: Clause


class Speaker:
    """Speaks texts.

    Parameters:
        engine: the voice.
        ahead_s: speech made ahead of what was taken, seconds; the clause at hand is finished, so
            that nobody's slow reading holds up the others.
        chunk_timeout_s: limit for the engine's next piece.
        jobs: clauses that are in the engine at a time.
    """

    def __init__(
        self, *, engine: SpeechEngine, ahead_s: float, chunk_timeout_s: float, jobs: int
    ) -> None:
        self._engine = engine
        self._ahead_bytes = round(ahead_s * engine.sample_rate) * 2
        self._chunk_timeout_s = chunk_timeout_s
        self._turns = asyncio.Semaphore(jobs)  # first come, first served, by the clause

    async def speak(
        self, clauses: AsyncGenerator[Clause, None], manner: Manner
    ) -> AsyncGenerator[Piece, None]:
        """Makes pieces of audio. Close it to stop the engine.

        Args:
            clauses: what to say, as it comes; closed in any case.
            manner: how to say it.

        Raises:
            NothingToSay: in the end there was no audio.
            AtCapacity, TimedOut, EngineFailed
            DuplexdError: of `clauses`, after what came before it was given.
        """
        made = _Made(self._ahead_bytes)
        maker = asyncio.create_task(self._make(clauses, manner, made), name="speech")
        silent = True
        try:
            while (piece := await made.take()) is not None:
                silent = False
                yield piece
        finally:
            maker.cancel()
            await asyncio.gather(maker, return_exceptions=True)
        if silent:
            raise NothingToSay("There is nothing in the text that can be spoken")

    async def _make(
        self, clauses: AsyncGenerator[Clause, None], manner: Manner, made: _Made
    ) -> None:
        try:
            async with aclosing(clauses):
                async for clause in clauses:
                    await made.room()
                    async with self._turns:
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
        made.next_clause()
        try:
            async with aclosing(job) as chunks:
                while (chunk := await self._next(chunks)) is not None:
                    made.put(chunk.pcm, clause)
                    if chunk.marks:
                        spoken = chunk.marks[-1].chars
        except DuplexdError as error:
            raise _discreet(error, clause.text) from error.__cause__
        if spoken < len(clause.text):  # the last mark of an utterance says that it is whole
            raise EngineFailed("The voice stopped in the middle of a clause")

    async def _next(self, chunks: AsyncIterator[SpeechChunk]) -> SpeechChunk | None:
        try:
            async with asyncio.timeout(self._chunk_timeout_s):
                return await anext(chunks, None)
        except TimeoutError:
            raise TimedOut(f"The voice gave nothing for {self._chunk_timeout_s:g} s") from None


def _discreet(error: DuplexdError, text: str) -> DuplexdError:
    """The failure without the text, should it quote it: its message goes to the log."""
    for quoted in (text, repr(text)[1:-1]):
        error.message = error.message.replace(quoted, "...")
    return error


class _Made:
    """Audio between the engine and the socket.

    Parameters:
        limit: bytes from which there is no room for a further clause.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[Piece] = deque()
        self._size = 0
        self._number = -1
        self._fresh = False
        self._error: DuplexdError | None = None
        self._ended = False
        self._changed = asyncio.Event()

    def next_clause(self) -> None:
        self._fresh = True

    def put(self, pcm: bytes, clause: Clause) -> None:
        if pcm:
            self._number += self._fresh
            self._fresh = False
            self._pieces.append(Piece(pcm, self._number, clause))
            self._size += len(pcm)
            self._changed.set()

    def end(self, error: DuplexdError | None = None) -> None:
        self._ended, self._error = True, error
        self._changed.set()

    async def room(self) -> None:
        # The two sides never wait both: one waits for a full buffer, the other for an empty one.
        while self._size >= self._limit:
            await self._change()

    async def take(self) -> Piece | None:
        """The next piece, or None behind the last."""
        while not self._pieces and not self._ended:
            await self._change()
        if not self._pieces:
            if self._error is not None:
                raise self._error
            return None
        piece = self._pieces.popleft()
        self._size -= len(piece.pcm)
        self._changed.set()
        return piece

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
