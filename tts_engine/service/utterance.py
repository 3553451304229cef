"""An utterance on a socket, from its first piece of text to its last audio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, closing

from loguru import logger

from tts_engine.audio.encoders import make_encoder
from tts_engine.errors import DuplexdError
from tts_engine.service.api_errors import ApiError
from tts_engine.service.desk import SpeechDesk, SpeechOutcome
from tts_engine.service.feed import TextFeed
from tts_engine.service.requests import Manners
from tts_engine.service.shaping import Shaping, encoded
from tts_engine.service.socket_messages import error_event, event
from tts_engine.service.speaker import Manner, NothingToSay, Piece
from tts_engine.text.clause import Clause

#: sends an event or audio; raises ConnectionError when the client is gone, or takes nothing
SendOut = Callable[[str | bytes], Awaitable[None]]


class ClientStalled(ConnectionError):
    """The client takes nothing."""


class Utterance:
    """Speaks one text.

    Parameters:
        name: what the client knows it by.
        desk: speaks.
        feed: the text, as it comes.
        voice: of the engine.
        manners: how it is said.
        send: see SendOut.

    Raises:
        BadRequest: the voice has no such pace.
    """

    def __init__(
        self,
        *,
        name: str,
        desk: SpeechDesk,
        feed: TextFeed,
        voice: str,
        manners: Manners,
        send: SendOut,
    ) -> None:
        self.name = name
        self.feed = feed
        self.over = False
        self._desk = desk
        self._send = send
        self._rate = manners.sample_rate
        self._shaping = Shaping(pitch=manners.pitch, energy=manners.energy)
        speed = desk.speed if manners.speed is None else manners.speed
        self._manner = Manner(
            voice=voice, speed=self._shaping.engine_speed(speed), style=manners.instruct
        )
        self._stopped = asyncio.Event()
        self._failure: ApiError | None = None
        self._samples = 0
        self._first_s = 0.0

    @property
    def ended(self) -> bool:
        """No more of its text is wanted: it is over, or about to be."""
        return self.over or self._stopped.is_set()

    def stop(self, failure: ApiError | None = None) -> None:
        """Ends it before its time: as cancelled, or as failed. Idempotent."""
        if not self._stopped.is_set():
            self._failure = failure
            self._stopped.set()

    async def run(self) -> None:
        """Speaks it and tells how it ended.

        Raises:
            ConnectionError: the client is gone.
        """
        outcome: SpeechOutcome = "gone"
        try:
            outcome = await self._outcome()
        except ClientStalled:
            outcome = "stalled"
            raise
        finally:
            self.over = True
            self._desk.accounts.speech(outcome)

    async def _outcome(self) -> SpeechOutcome:
        try:
            if await self._spoken():
                return "done"
        except (DuplexdError, ApiError) as failure:
            return await self._tell_failed(failure)
        return await self._tell_stopped()

    async def _spoken(self) -> bool:
        """Speaks until all is said, or it is stopped: False. Nothing is sent after that."""
        if self._stopped.is_set():
            return False
        speech = asyncio.create_task(self._speak(), name="utterance")
        stopped = asyncio.create_task(self._stopped.wait(), name="utterance stopped")
        try:
            await asyncio.wait({speech, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not speech.done():
                return False
            speech.result()
            return True
        finally:
            speech.cancel()
            stopped.cancel()
            await asyncio.gather(speech, stopped, return_exceptions=True)

    async def _tell_stopped(self) -> SpeechOutcome:
        if self._failure is not None:
            return await self._tell_failed(self._failure)
        logger.info("{}: cancelled", self._desk.trace(self.feed))
        await self._send(event("cancelled", id=self.name, audio_ms=self._audio_ms))
        return "cancelled"

    async def _tell_failed(self, failure: DuplexdError | ApiError) -> SpeechOutcome:
        self.over = True  # before the client knows, so that it cannot be too late
        if isinstance(failure, NothingToSay):
            failure = ApiError(failure, 400, param="text")
        error = ApiError.of(failure)
        self._desk.note(error, self._desk.trace(self.feed))
        await self._send(error_event(error, self.name))
        return "refused" if error.status < 500 and not self._samples else "failed"

    async def _speak(self) -> None:
        await self.feed.begun()
        began = time.monotonic()
        with self._desk.places:
            await self._send(
                event("started", id=self.name, voice=self._manner.voice, sample_rate=self._rate)
            )
            await self._pieces(began)
        took_s = time.monotonic() - began
        audio_s, chars = self._audio_ms / 1000, self.feed.chars
        self._desk.accounts.speech_ended(chars=chars, audio_s=audio_s, took_s=took_s)
        trace = self._desk.trace(self.feed)
        logger.info("{}: {:.1f} s of audio in {:.1f} s", trace, audio_s, took_s)
        first_ms = round(self._first_s * 1000)
        self.over = True
        await self._send(
            event(
                "end", id=self.name, chars=chars, audio_ms=self._audio_ms, first_audio_ms=first_ms
            )
        )

    async def _pieces(self, began: float) -> None:
        rate = self._desk.engine.sample_rate
        encoder = make_encoder("pcm", rate=self._shaping.rate(rate), out_rate=self._rate)
        last = -1
        speech = self._desk.speaker.speak(
            self._checked(), self._manner, coming=not self.feed.finished
        )
        with closing(encoder):
            async with aclosing(speech) as pieces:
                async for piece in pieces:
                    if piece.number != last:
                        last = piece.number
                        await self._send(self._clause(piece))
                    audio = await encoded(encoder, piece.pcm, self._shaping, rate)
                    self._samples += len(piece.pcm) // 2
                    await self._put(audio, began)
            await self._put(encoder.finish(), began)

    async def _put(self, audio: bytes, began: float) -> None:
        if not audio:
            return
        first, self._first_s = not self._first_s, self._first_s or time.monotonic() - began
        await self._send(audio)
        if first:
            self._desk.accounts.speech_began(self._first_s)

    async def _checked(self) -> AsyncGenerator[Clause, None]:
        """The clauses; their words are checked as they come."""
        async with aclosing(self.feed.clauses()) as clauses:
            async for clause in clauses:
                self._desk.check(clause.raw)
                yield clause

    def _clause(self, piece: Piece) -> str:
        return event(
            "clause",
            id=self.name,
            number=piece.number,
            text=piece.clause.raw,
            spoken=piece.clause.text,
            at_ms=self._audio_ms,
        )

    @property
    def _audio_ms(self) -> int:
        rate = self._shaping.rate(self._desk.engine.sample_rate)
        return round(self._samples / rate * 1000)
