# pyright: strict
"""Texts of more than one clause: clauses that carry on from each other, and texts still to come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Protocol, TypeAlias

from loguru import logger

from tts_engine.cosyvoice.context import NOTHING, Before
from tts_engine.cosyvoice.marks import Pace, audible
from tts_engine.cosyvoice.wire import More, Order, Report, Started
from tts_engine.engine import Mark, SpeechChunk
from tts_engine.errors import DuplexdError, EngineFailed
from tts_engine.frames import NOBODY


class Carry:
    """What a clause carries on from, and then what the next one may.

    Attributes:
        before: said just before; once the clause is spoken, the clause itself.
    """

    def __init__(self, before: Before = NOTHING) -> None:
        self.before = before


class Coming:
    """The pieces of a text that are to be one utterance; behind them there may be others.

    Parameters:
        texts: all pieces, none of them empty.
        most: speech tokens, about, from which no more is taken.

    Attributes:
        first: the first piece, once `begin` has said that there is one.
        text: all that was taken.
        over: nothing is taken any more: a piece that comes begins the next utterance.
    """

    def __init__(self, texts: AsyncIterator[str], *, most: float) -> None:
        self._texts = texts
        self._most = most
        self._left: str | None = None
        self.first = ""
        self.text = ""
        self.over = False

    async def begin(self) -> bool:
        """Begins the next utterance; False: there is no more text."""
        piece, self._left = self._left, None
        if piece is None:
            piece = await anext(self._texts, None)
        self.first = self.text = piece or ""
        self.over = False
        return piece is not None

    async def rest(self) -> AsyncGenerator[str, None]:
        """The pieces behind the first, as they come."""
        while Pace().expect(self.text) < self._most:
            piece = await anext(self._texts, None)
            if piece is None:
                return
            if self.over:
                self._left = piece
                return
            self.text += piece
            yield piece


#: what is told of an order; errors that are not the worker's are those of a text that comes
Reports: TypeAlias = "asyncio.Queue[Report | DuplexdError]"
#: the text is whole, and told to the worker
FED = Started(id=NOBODY, waited_s=0.0)


async def feed(coming: Coming, id: int, send: Callable[[Order], None], reports: Reports) -> None:
    """Passes on the rest of a text, and tells when that is done, or why it cannot be.

    Args:
        coming: the text.
        id: of the utterance.
        send: tells the worker.
        reports: of the utterance.
    """
    try:
        async with aclosing(coming.rest()) as texts:
            async for text in texts:
                send(More(id=id, text=text))
        send(More(id=id, text="", last=True))
        reports.put_nowait(FED)
    except DuplexdError as error:
        reports.put_nowait(error)
    except Exception as error:
        logger.opt(exception=error).error("no more of a text comes")
        reports.put_nowait(EngineFailed(f"No more of the text comes: {error!r}"))


class Speaks(Protocol):
    """Makes an utterance; `CosyVoiceEngine.speak`."""

    def __call__(
        self,
        text: str,
        *,
        voice: str | None,
        speed: float,
        style: str,
        carry: Carry | None = None,
        coming: Coming | None = None,
    ) -> AsyncGenerator[SpeechChunk, None]:
        """Args: as of `SpeechEngine.synthesize`.

        carry: see there.
        coming: has the rest of the text.
        """
        ...


class ClauseReading:
    """A text whose clauses carry on from each other, as long as voice and style stay the same.

    Parameters:
        speak: makes utterances.
    """

    def __init__(self, speak: Speaks) -> None:
        self._speak = speak
        self._before = NOTHING
        self._manner: tuple[str | None, str] = (None, "")

    async def synthesize(
        self, text: str, *, voice: str | None = None, speed: float = 1.0, style: str = ""
    ) -> AsyncGenerator[SpeechChunk, None]:
        """See Reading."""
        if not audible(text):  # what was said before still is
            carry = None
        else:
            carry = Carry(self._before if self._manner == (voice, style) else NOTHING)
            self._before, self._manner = NOTHING, (voice, style)
        job = self._speak(text, voice=voice, speed=speed, style=style, carry=carry)
        async with aclosing(job) as chunks:
            async for chunk in chunks:
                yield chunk
        if carry is not None:
            self._before = carry.before


async def speak_pieces(
    speak: Speaks,
    texts: AsyncIterator[str],
    *,
    most: float,
    voice: str | None,
    speed: float,
    style: str,
) -> AsyncGenerator[SpeechChunk, None]:
    """A text that still comes, in as few utterances as there can be.

    Args:
        speak: makes utterances.
        texts: the pieces.
        most: speech tokens, about, from which an utterance takes no more text.
        voice, speed, style: as of `SpeechEngine.synthesize`.
    """
    coming = Coming(texts, most=most)
    samples = chars = 0
    while await coming.begin():
        job = speak(
            coming.first,
            voice=voice,
            speed=speed,
            style=style,
            coming=coming if audible(coming.first) else None,
        )
        made = 0
        async with aclosing(job) as chunks:
            async for chunk in chunks:
                made += len(chunk.pcm) // 2
                marks = tuple(Mark(samples + m.sample, chars + m.chars) for m in chunk.marks)
                yield SpeechChunk(pcm=chunk.pcm, marks=marks)
        samples, chars = samples + made, chars + len(coming.text)
