"""Mounts OpenAI's one-shots on a FastAPI application.

POST /v1/audio/speech   a text, spoken
GET  /v1/models         what the daemon consists of
GET  /v1/models/{id}
GET  /v1/audio/voices   our own: the names that `voice` may have
"""

from __future__ import annotations

import asyncio
import time

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from services.api_errors import ApiError
from services.audio_api.context import SpeechContext
from services.audio_api.request import MAX_BODY, parse
from services.audio_api.response import Places, SpeechResponse
from services.audio_api.speaker import Speaker
from services.voices import resolve_voice
from tts_engine.errors import BadRequest, EngineFailed, TimedOut, UnknownVoice

#: a body that takes longer to arrive is not waited for, seconds
BODY_TIMEOUT_S = 30.0


def make_router(context: SpeechContext) -> APIRouter:
    """The routes of the one-shots."""
    router = APIRouter()
    places = Places(context.parallel)
    speaker = Speaker(
        engine=context.engine, ahead_s=context.ahead_s, chunk_timeout_s=context.chunk_timeout_s
    )
    since = int(time.time())

    @router.post("/v1/audio/speech")
    async def speech(request: Request) -> Response:
        """Speaks a text."""
        try:
            wanted = parse(await _body(request))
            if not context.face.sessions.ready:
                failure = EngineFailed("The engines are not ready", mend="Wait for /readyz")
                raise ApiError(failure, 503, code="not_ready")
            voice = resolve_voice(wanted.voice, context.face.sessions.voices)
        except ClientDisconnect:
            context.accounts.speech("gone")
            return Response(status_code=400)  # nobody reads it
        except (ApiError, UnknownVoice) as error:
            refusal = ApiError.of(error) if isinstance(error, UnknownVoice) else error
            context.face.on_error(refusal.failure)
            context.accounts.speech("refused")
            return refusal.response()
        return SpeechResponse(
            context=context, speaker=speaker, places=places, request=wanted, voice=voice
        )

    def card(name: str) -> dict[str, str | int]:
        return {"id": name, "object": "model", "created": since, "owned_by": "duplexd"}

    @router.get("/v1/models")
    async def models() -> JSONResponse:
        """Lists the models."""
        return JSONResponse({"object": "list", "data": [card(name) for name in context.models()]})

    @router.get("/v1/models/{name:path}")
    async def model(name: str) -> JSONResponse:
        """Shows a model."""
        if name in context.models():
            return JSONResponse(card(name))
        missing = BadRequest(f"The model {name!r} does not exist", mend="See /v1/models")
        return ApiError(missing, 404, param="model", code="model_not_found").response()

    @router.get("/v1/audio/voices")
    async def voices() -> JSONResponse:
        """Lists the voices."""
        known = context.face.sessions.voices
        listed = [{"id": name, "default": name == known[0]} for name in known]
        return JSONResponse({"voices": listed})

    return router


async def _body(request: Request) -> bytes:
    """Reads a body, and no more of it than one may have.

    Raises:
        ApiError: it is too large, too slow, or no JSON by its own account.
        ClientDisconnect
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # also keeps out what web pages may send anywhere unasked
        failure = BadRequest("The Content-Type is not application/json")
        raise ApiError(failure, 415, code="unsupported_media_type")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for piece in request.stream():
                body += piece
                if len(body) > MAX_BODY:
                    failure = BadRequest(f"The body has more than {MAX_BODY} bytes")
                    raise ApiError(failure, 413, code="body_too_large")
    except TimeoutError:
        failure = TimedOut(f"The body did not come within {BODY_TIMEOUT_S:g} s")
        raise ApiError(failure, 408) from None
    return bytes(body)
