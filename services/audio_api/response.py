"""The answer to `POST /v1/audio/speech`: audio as it is made, until it ends or nobody wants it."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, closing
from typing import Any

from loguru import logger
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from services.api_errors import ApiError
from services.audio_api.context import SpeechContext, SpeechOutcome
from services.audio_api.encoders import CONTENT_TYPES, Encoder, make_encoder
from services.audio_api.request import SpeechRequest
from services.audio_api.speaker import Manner, NothingToSay, Speaker
from tts_engine.errors import AtCapacity, BadRequest, DuplexdError, TimedOut

#: Audio that is encoded before the event loop has its turn. 40 ms of the dearest format, MP3, take
#: 0.6 ms of a slow core: less than a thread and its way back, and nothing to tear down when the
#: client leaves in the middle.
_SLICE_S = 0.04
#: one token of usage is so much audio, which is about what OpenAI's models count
_TOKEN_S = 0.05


class Stalled(TimedOut):
    """A client does not take its audio."""


class Places:
    """Counts the requests that are being spoken.

    Parameters:
        limit: of them.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0

    def __enter__(self) -> None:
        """Raises AtCapacity when all are taken."""
        if self._taken >= self._limit:
            raise AtCapacity(
                f"{self._limit} texts are being spoken already",
                mend="Try again later, or raise speech.parallel",
            )
        self._taken += 1

    def __exit__(self, *_: object) -> None:
        self._taken -= 1


class SpeechResponse(Response):
    """Speaks one request.

    Nothing is sent before the first audio is there, so that a failure until then is a proper error.
    After it there is only one honest way to fail: the connection is broken off.
    """

    def __init__(
        self,
        *,
        context: SpeechContext,
        speaker: Speaker,
        places: Places,
        request: SpeechRequest,
        voice: str,
    ) -> None:
        super().__init__()
        self._context = context
        self._speaker = speaker
        self._places = places
        self._request = request
        self._manner = Manner(
            voice=voice, speed=request.speed or context.speed, style=request.instructions
        )
        self._asked = time.monotonic()
        self._began = False
        self._samples = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        outcome: SpeechOutcome = "failed"
        try:
            with self._places:
                outcome = await self._while_there(receive, send)
        except DuplexdError as failure:
            outcome = self._judge(failure)
            if not self._began:
                await self._error(failure).response()(scope, receive, send)
            elif self._request.stream_format == "sse" and outcome == "failed":
                await self._put(send, _event({"type": "error", **self._error(failure).body}))
        finally:
            # Whoever returns without a last piece of body has the connection closed by the server.
            self._context.accounts.speech(outcome)

    def _error(self, failure: DuplexdError) -> ApiError:
        if isinstance(failure, NothingToSay):
            return ApiError(failure, 400, param="input", code="nothing_to_say")
        return ApiError.of(failure)

    def _judge(self, failure: DuplexdError) -> SpeechOutcome:
        """Logs and counts a failure."""
        self._context.face.on_error(failure)
        logger.warning("one-shot: {}: {}", failure.code, failure)
        if isinstance(failure, Stalled):
            return "stalled"
        if isinstance(failure, BadRequest | AtCapacity) and not self._began:
            return "refused"
        return "failed"

    async def _while_there(self, receive: Receive, send: Send) -> SpeechOutcome:
        """Speaks until it is done, or the client is gone.

        Raises:
            DuplexdError: of the engine, or `Stalled`.
        """
        stream = asyncio.create_task(self._stream(send), name="one-shot stream")
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
        sse = self._request.stream_format == "sse"
        async with aclosing(self._encoded()) as pieces:
            async for data in pieces:
                await self._begin(send)
                if sse:
                    audio = base64.b64encode(data).decode("ascii")
                    data = _event({"type": "speech.audio.delta", "audio": audio})
                await self._put(send, data)
        if sse:
            await self._put(send, _event({"type": "speech.audio.done", "usage": self._usage()}))
        await self._put(send, b"", more=False)
        logger.info(
            "one-shot: {} characters, {:.1f} s of audio in {:.1f} s",
            len(self._request.input),
            self._samples / self._context.engine.sample_rate,
            time.monotonic() - self._asked,
        )

    async def _encoded(self) -> AsyncGenerator[bytes, None]:
        encoder = make_encoder(self._request.response_format, rate=self._context.engine.sample_rate)
        speech = self._speaker.speak(self._request.input, self._manner)
        with closing(encoder):
            async with aclosing(speech) as pieces:
                async for pcm in pieces:
                    self._samples += len(pcm) // 2
                    if data := await self._encode(encoder, pcm):
                        yield data
            if data := encoder.finish():
                yield data

    async def _encode(self, encoder: Encoder, pcm: bytes) -> bytes:
        size = round(_SLICE_S * self._context.engine.sample_rate) * 2
        done: list[bytes] = []
        for start in range(0, len(pcm), size):
            done.append(encoder.push(pcm[start : start + size]))
            await asyncio.sleep(0)
        return b"".join(done)

    async def _begin(self, send: Send) -> None:
        """Sends the head of the response, before its first piece."""
        if self._began:
            return
        self._began = True
        sse = self._request.stream_format == "sse"
        kind = "text/event-stream" if sse else CONTENT_TYPES[self._request.response_format]
        headers = [(b"content-type", kind.encode()), (b"cache-control", b"no-store")]
        await self._bounded(
            send, {"type": "http.response.start", "status": 200, "headers": headers}
        )
        self._context.accounts.speech_began(time.monotonic() - self._asked)

    async def _put(self, send: Send, data: bytes, *, more: bool = True) -> None:
        await self._bounded(send, {"type": "http.response.body", "body": data, "more_body": more})

    async def _bounded(self, send: Send, message: Message) -> None:
        try:
            async with asyncio.timeout(self._context.stall_s):
                await send(message)
        except TimeoutError:
            raise Stalled(f"A client took no audio for {self._context.stall_s:g} s") from None

    def _usage(self) -> dict[str, int]:
        read = len(self._request.input)
        said = round(self._samples / self._context.engine.sample_rate / _TOKEN_S)
        return {"input_tokens": read, "output_tokens": said, "total_tokens": read + said}


def _event(data: dict[str, Any]) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(data).encode() + b"\n\n"
