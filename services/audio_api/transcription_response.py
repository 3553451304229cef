"""The answer to a request to transcribe: the text of a recording, whole or as it is recognised."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from tempfile import TemporaryFile
from typing import Any, BinaryIO, cast

from loguru import logger
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from services.asr.one_shot import Listening
from services.asr.recording import Recording, Segment, continued
from services.asr.renderings import CONTENT_TYPES, render
from services.audio_api.transcription_desk import TranscriptionDesk, TranscriptionOutcome
from services.audio_api.transcription_request import TranscriptionRequest, parse
from services.audio_api.upload import Upload, not_kept
from tts_engine.errors import BadAudio, DuplexdError
from tts_engine.service.api_errors import ApiError

#: tokens of audio in a second, which is what OpenAI's models count
_TOKENS_PER_S = 10


class TranscriptionResponse(Response):
    """Receives and transcribes one recording.

    Nothing is sent before there is text, so that a failure until then is a proper error. With
    events, what fails after that is told in one, and the connection is broken off.

    Parameters:
        desk: transcribes.
        request: nothing of its body has been read.
    """

    def __init__(self, desk: TranscriptionDesk, request: Request) -> None:
        super().__init__()
        self._desk = desk
        self._upload = Upload(request, limit=desk.max_upload)
        self._asked = time.monotonic()
        self._began = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        outcome: TranscriptionOutcome = "failed"
        try:
            outcome = await self._answer(scope, receive, send)
        except ClientDisconnect:
            outcome = "gone"
        except (DuplexdError, ApiError) as failure:
            error = _error(failure)
            self._desk.note(error, "recording")
            outcome = "refused" if error.status < 500 and not self._began else "failed"
            if self._began:
                await self._event(send, {"type": "error", **error.body})
            elif not await self._refuse(error, scope, receive, send):
                outcome = "gone"
        finally:
            # Whoever returns without a last piece of body has the connection closed by the server.
            self._desk.accounts.transcription(outcome)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> TranscriptionOutcome:
        self._desk.check_ready()
        with self._desk.places, _on_disk() as file:
            wanted = parse(await self._upload.receive(file))
            work = asyncio.create_task(
                self._transcribe(file, wanted, scope, receive, send), name="transcription"
            )
            # The body has been read: what is received next is that the client is gone.
            watch = asyncio.ensure_future(receive())
            try:
                await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    return "gone"
                work.result()
                return "done"
            finally:
                work.cancel()
                watch.cancel()
                await asyncio.gather(work, watch, return_exceptions=True)

    async def _refuse(self, error: ApiError, scope: Scope, receive: Receive, send: Send) -> bool:
        """Tells why; False: the client is gone."""
        try:
            await self._upload.waste()
        except ClientDisconnect:
            return False
        await error.response()(scope, receive, send)
        return True

    async def _transcribe(
        self,
        file: BinaryIO,
        wanted: TranscriptionRequest,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        desk = self._desk
        wish = wanted.wish(desk.languages)
        async with desk.turns, desk.transcriber.open(file, wish, name="recording") as listening:
            segments = [segment async for segment in self._segments(listening, send, wanted.stream)]
        recording = Recording(segments=tuple(segments), audio_s=listening.heard_s)
        # With the last byte a client may leave, and has got what it wanted: nothing is waited for
        # any more.
        if wanted.stream:
            await self._end_events(recording, send)
        else:
            form = wanted.response_format
            text = render(recording, form, granularities=wanted.timestamp_granularities)
            answer = Response(text, headers={"Content-Type": CONTENT_TYPES[form]})
            await answer(scope, receive, send)
        took_s, chars = time.monotonic() - self._asked, len(recording.text)
        self._desk.accounts.transcribed(audio_s=recording.audio_s, took_s=took_s)
        logger.info(
            "a recording of {:.1f} s: {} characters in {:.1f} s", recording.audio_s, chars, took_s
        )

    async def _segments(
        self, listening: Listening, send: Send, stream: bool
    ) -> AsyncGenerator[Segment, None]:
        said = ""
        async with aclosing(listening.segments()) as found:
            async for segment in found:
                if stream:
                    delta = continued(said, segment.text)
                    await self._event(send, {"type": "transcript.text.delta", "delta": delta})
                said = segment.text
                yield segment

    async def _end_events(self, recording: Recording, send: Send) -> None:
        text, usage = recording.text, _usage(recording)
        await self._event(send, {"type": "transcript.text.done", "text": text, "usage": usage})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _event(self, send: Send, data: dict[str, Any]) -> None:
        if not self._began:
            self._began = True
            headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        body = b"data: " + json.dumps(data).encode() + b"\n\n"
        await send({"type": "http.response.body", "body": body, "more_body": True})


def _on_disk() -> BinaryIO:
    """A file that is gone when it is closed.

    Raises:
        ApiError: the disk has no place for it.
    """
    try:
        return cast("BinaryIO", TemporaryFile())
    except OSError as error:
        raise not_kept(error) from error


def _error(failure: DuplexdError | ApiError) -> ApiError:
    if isinstance(failure, BadAudio):
        return ApiError(failure, 400, param="file")
    return ApiError.of(failure)


def _usage(recording: Recording) -> dict[str, Any]:
    """Nothing is billed: a measure."""
    heard, written = round(recording.audio_s * _TOKENS_PER_S), len(recording.text)
    return {
        "type": "tokens",
        "input_tokens": heard,
        "output_tokens": written,
        "total_tokens": heard + written,
    }
