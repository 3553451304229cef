"""Clauses in, their speech out, on an engine that others use at the same time.

The engine makes the parts of its jobs in turns. So a text is a job a clause, and all texts together
have only so many jobs at a time. Beside conversations that is one: however many and long the texts
are, they take at most every other turn, and a conversation waits for one clause of them at most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from loguru import logger

from tts_engine.engine import Reading, SpeechChunk, SpeechEngine
from tts_engine.errors import BadRequest, DuplexdError, EngineFailed, TimedOut
from tts_engine.service.streamer import TextStreamer
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
        self, clauses: AsyncGenerator[Clause, None], manner: Manner, *, coming: bool = False
    ) -> AsyncGenerator[Piece, None]:
        """Makes pieces of audio. Close it to stop the engine.

        Args:
            clauses: what to say, as it comes; closed in any case.
            manner: how to say it.
            coming: the text is not whole yet: an engine that can speaks it as one.

        Raises:
            NothingToSay: in the end there was no audio.
            AtCapacity, TimedOut, EngineFailed
            DuplexdError: of `clauses`, after what came before it was given.
        """
        made = _Made(self._ahead_bytes)
        if coming and isinstance(self._engine, TextStreamer) and self._engine.streams_text:
            make = self._make_whole(self._engine, clauses, manner, made)
        else:
            make = self._make(clauses, manner, made)
        maker = asyncio.create_task(self._told(make, made), name="speech")
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
        reading = self._engine.reading()
        async with aclosing(clauses):
            async for clause in clauses:
                await made.room()
                async with self._turns:
                    await self._say(reading, clause, manner, made)

    async def _make_whole(
        self,
        engine: TextStreamer,
        clauses: AsyncGenerator[Clause, None],
        manner: Manner,
        made: _Made,
    ) -> None:
        """Has the clauses spoken as one text, for as long as they are said in one style."""
        async with aclosing(clauses):
            coming = _Coming(clauses, made)
            while (first := await coming.next_style()) is not None:
                job = engine.synthesize_pieces(
                    coming.texts(),
                    voice=manner.voice,
                    speed=manner.speed,
                    style=first.style or manner.style,
                )
                try:
                    async with self._turns, aclosing(job) as chunks:
                        async for chunk in chunks:
                            coming.put(chunk)
                except DuplexdError as error:
                    raise _discreet(error, coming.text) from error.__cause__
                coming.check()

    async def _told(self, making: Coroutine[Any, Any, None], made: _Made) -> None:
        """Makes it, and tells the other side how that ended."""
        try:
            await making
            made.end()
        except DuplexdError as error:
            made.end(error)
        except Exception as error:
            logger.opt(exception=error).error("the voice failed")
            made.end(EngineFailed(f"The voice failed: {error!r}"))

    async def _say(self, reading: Reading, clause: Clause, manner: Manner, made: _Made) -> None:
        spoken = 0
        job = reading.synthesize(
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


class _Coming:
    """The clauses of a text that is spoken as one while it comes.

    Parameters:
        clauses: as they come.
        made: where their audio goes.
    """

    def __init__(self, clauses: AsyncGenerator[Clause, None], made: _Made) -> None:
        self._clauses = clauses
        self._made = made
        self._next: Clause | None = None
        self._given: deque[tuple[int, Clause]] = deque()  # not said to their end, with that
        self._saying: Clause | None = None
        self.text = ""  # of those in this style

    async def next_style(self) -> Clause | None:
        """The first clause of those that are said in the next style; None: there is no more."""
        if self._next is None:
            self._next = await anext(self._clauses, None)
        self.text = ""
        return self._next

    async def texts(self) -> AsyncGenerator[str, None]:
        """The texts of those in this style, asked for no earlier than there is room for audio."""
        first = clause = self._next
        while clause is not None and first is not None and clause.style == first.style:
            await self._made.room()
            self.text += clause.text
            self._given.append((len(self.text), clause))
            yield clause.text
            self._next = clause = await anext(self._clauses, None)

    def put(self, chunk: SpeechChunk) -> None:
        """Hands on audio: of the clause that is being said."""
        if self._given and self._given[0][1] is not self._saying:
            self._saying = self._given[0][1]
            self._made.next_clause()
        assert self._saying is not None  # text is given before its audio comes
        self._made.put(chunk.pcm, self._saying)
        while chunk.marks and self._given and chunk.marks[-1].chars >= self._given[0][0]:
            self._given.popleft()

    def check(self) -> None:
        """Raises EngineFailed if not all was said."""
        if self._given:
            raise EngineFailed("The voice stopped in the middle of a text")


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
