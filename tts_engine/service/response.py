"""The answer to a request to speak: audio as it is made, until it ends or nobody wants it."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, closing
from dataclasses import dataclass, field
from typing import Any

from loguru import logger
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from tts_engine.audio.encoders import CONTENT_TYPES, RATE, Format, make_encoder, whole_wav
from tts_engine.errors import DuplexdError, TimedOut
from tts_engine.service.api_errors import ApiError
from tts_engine.service.desk import SpeechDesk, SpeechOutcome
from tts_engine.service.feed import TextFeed
from tts_engine.service.shaping import Shaping, encoded
from tts_engine.service.speaker import Manner, NothingToSay
from tts_engine.text.words import Language

#: one token of usage is so much audio, which is about what OpenAI's models count
_TOKEN_S = 0.05
#: how long the first audio took, for whoever measures a service from outside
FIRST_AUDIO = "X-First-Audio-Ms"


class Stalled(TimedOut):
    """A client does not take its audio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to speak, and what of it the client gets.

    Parameters:
        text: it has passed the check.
        param: what the client calls the text.
        speed: multiple of the voice's own pace.
        style: how to say it.
        language: of numbers where the text itself does not tell.
        form: of the audio.
        rate: samples per second of it.
        shaping: of the sound.
        whole: it is sent when all is made, with its length.
        events: it is sent as server-sent events.
    """

    text: str
    param: str
    speed: float
    style: str = ""
    language: Language = "zh"
    form: Format = "mp3"
    rate: int = RATE
    shaping: Shaping = field(default_factory=Shaping)
    whole: bool = False
    events: bool = False


class SpeechResponse(Response):
    """Speaks one text.

    Nothing is sent before the first audio is there, so that a failure until then is a proper error.
    After it there is only one honest way to fail: the connection is broken off.

    Parameters:
        desk: speaks.
        job: what.
        voice: gives the name of the voice, and is left when it is no longer needed. What it raises
            is the answer.
    """

    def __init__(
        self, *, desk: SpeechDesk, job: Job, voice: AbstractAsyncContextManager[str]
    ) -> None:
        super().__init__()
        self._desk = desk
        self._job = job
        self._voice = voice
        self._feed = TextFeed.whole(job.text, language=job.language)
        self._asked = time.monotonic()
        self._first_s = 0.0
        self._began = False
        self._samples = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        outcome: SpeechOutcome = "failed"
        try:
            with self._desk.places:
                outcome = await self._while_there(receive, send)
        except (DuplexdError, ApiError) as failure:
            error = self._error(failure)
            outcome = self._judge(error)
            if not self._began:
                await error.response()(scope, receive, send)
            elif self._job.events and outcome == "failed":
                await self._put(send, _event({"type": "error", **error.body}))
        finally:
            # Whoever returns without a last piece of body has the connection closed by the server.
            self._desk.accounts.speech(outcome)

    def _error(self, failure: DuplexdError | ApiError) -> ApiError:
        if isinstance(failure, NothingToSay):
            return ApiError(failure, 400, param=self._job.param)
        return ApiError.of(failure)

    def _judge(self, error: ApiError) -> SpeechOutcome:
        self._desk.note(error, self._desk.trace(self._feed))
        if isinstance(error.failure, Stalled):
            return "stalled"
        return "refused" if error.status < 500 and not self._began else "failed"

    async def _while_there(self, receive: Receive, send: Send) -> SpeechOutcome:
        """Speaks until it is done, or the client is gone.

        Raises:
            DuplexdError: of the engine, or `Stalled`.
            ApiError: of the voice.
        """
        stream = asyncio.create_task(self._stream(send), name="speech stream")
        # The body has been read: what is received next is that the client is gone.
        watch = asyncio.ensure_future(receive())
        try:
            await asyncio.wait({stream, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not stream.done():
                return "gone"
            stream.result()
            return "done"
        finally:
            stream.cancel()
            watch.cancel()
            await asyncio.gather(stream, watch, return_exceptions=True)

    async def _stream(self, send: Send) -> None:
        async with self._voice as name, aclosing(self._encoded(name)) as pieces:
            if self._job.whole:
                await self._send_whole(send, b"".join([data async for data in pieces]))
            else:
                await self._send_pieces(send, pieces)
        audio_s, took_s = self._audio_s, time.monotonic() - self._asked
        self._desk.accounts.speech_ended(chars=self._feed.chars, audio_s=audio_s, took_s=took_s)
        trace = self._desk.trace(self._feed)
        logger.info("{}: {:.1f} s of audio in {:.1f} s", trace, audio_s, took_s)

    async def _send_pieces(self, send: Send, pieces: AsyncGenerator[bytes, None]) -> None:
        events = self._job.events
        async for data in pieces:
            await self._begin(send)
            if events:
                audio = base64.b64encode(data).decode("ascii")
                data = _event({"type": "speech.audio.delta", "audio": audio})
            await self._put(send, data)
        if events:
            await self._put(send, _event({"type": "speech.audio.done", "usage": self._usage()}))
        await self._put(send, b"", more=False)

    async def _send_whole(self, send: Send, data: bytes) -> None:
        if self._job.form == "wav":
            data = whole_wav(data)
        await self._begin(send, length=len(data))
        await self._put(send, data, more=False)

    async def _encoded(self, voice: str) -> AsyncGenerator[bytes, None]:
        job, rate = self._job, self._desk.engine.sample_rate
        manner = Manner(voice=voice, speed=job.shaping.engine_speed(job.speed), style=job.style)
        encoder = make_encoder(job.form, rate=job.shaping.rate(rate), out_rate=job.rate)
        speech = self._desk.speaker.speak(self._feed.clauses(), manner)
        with closing(encoder):
            async with aclosing(speech) as pieces:
                async for piece in pieces:
                    self._samples += len(piece.pcm) // 2
                    if data := await encoded(encoder, piece.pcm, job.shaping, rate):
                        self._heard()
                        yield data
            if data := encoder.finish():
                self._heard()
                yield data

    def _heard(self) -> None:
        """There is audio to send."""
        if not self._first_s:
            self._first_s = time.monotonic() - self._asked

    async def _begin(self, send: Send, *, length: int | None = None) -> None:
        """Sends the head of the response, before its first piece."""
        if self._began:
            return
        self._began = True
        job = self._job
        kind = "text/event-stream" if job.events else CONTENT_TYPES[job.form]
        headers = {
            "Content-Type": kind,
            "Cache-Control": "no-store",
            FIRST_AUDIO: str(round(self._first_s * 1000)),
            "X-Sample-Rate": str(job.rate),
        }
        if length is not None:
            headers["Content-Length"] = str(length)
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self._bounded(send, {"type": "http.response.start", "status": 200, "headers": raw})
        self._desk.accounts.speech_began(self._first_s)

    async def _put(self, send: Send, data: bytes, *, more: bool = True) -> None:
        await self._bounded(send, {"type": "http.response.body", "body": data, "more_body": more})

    async def _bounded(self, send: Send, message: Message) -> None:
        try:
            async with asyncio.timeout(self._desk.stall_s):
                await send(message)
        except TimeoutError:
            raise Stalled(f"A client took no audio for {self._desk.stall_s:g} s") from None

    @property
    def _audio_s(self) -> float:
        return self._samples / self._job.shaping.rate(self._desk.engine.sample_rate)

    def _usage(self) -> dict[str, int]:
        said = round(self._audio_s / _TOKEN_S)
        read = self._feed.chars
        return {"input_tokens": read, "output_tokens": said, "total_tokens": read + said}


def _event(data: dict[str, Any]) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(data).encode() + b"\n\n"
