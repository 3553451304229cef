"""Mounts OpenAI's one-shots on a FastAPI application.

POST /v1/audio/speech   a text, spoken
GET  /v1/models         what the daemon consists of
GET  /v1/models/{id}
GET  /v1/audio/voices   our own: the names that `voice` may have
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from services.audio_api.request import MAX_BODY, parse
from services.voices import resolve_voice
from tts_engine.errors import BadRequest, DuplexdError
from tts_engine.service.api_errors import ApiError
from tts_engine.service.bodies import read_json
from tts_engine.service.desk import SpeechDesk
from tts_engine.service.response import Job, SpeechResponse


def make_router(desk: SpeechDesk, *, models: Callable[[], Sequence[str]]) -> APIRouter:
    """The routes of the one-shots.

    Args:
        desk: speaks.
        models: ids of `GET /v1/models`; asked each time, as some are known late.
    """
    router = APIRouter()
    since = int(time.time())

    @router.post("/v1/audio/speech")
    async def speech(request: Request) -> Response:
        """Speaks a text."""
        try:
            return await _speech(desk, request)
        except ClientDisconnect:
            desk.accounts.speech("gone")
            return Response(status_code=400)  # nobody reads it
        except (ApiError, DuplexdError) as failure:
            error = ApiError.of(failure)
            desk.note(error, "refused")
            desk.accounts.speech("refused")
            return error.response()

    def card(name: str) -> dict[str, str | int]:
        return {"id": name, "object": "model", "created": since, "owned_by": "duplexd"}

    @router.get("/v1/models")
    async def listed() -> JSONResponse:
        """Lists the models."""
        return JSONResponse({"object": "list", "data": [card(name) for name in models()]})

    @router.get("/v1/models/{name:path}")
    async def model(name: str) -> JSONResponse:
        """Shows a model."""
        if name in models():
            return JSONResponse(card(name))
        missing = BadRequest(f"The model {name!r} does not exist", mend="See /v1/models")
        return ApiError(missing, 404, param="model", code="model_not_found").response()

    @router.get("/v1/audio/voices")
    async def voices() -> JSONResponse:
        """Lists the voices."""
        known = desk.voices
        listed = [{"id": name, "default": name == known[0]} for name in known]
        return JSONResponse({"voices": listed})

    return router


async def _speech(desk: SpeechDesk, request: Request) -> Response:
    wanted = parse(await read_json(request, limit=MAX_BODY))
    desk.check_ready()
    voice = resolve_voice(wanted.voice, desk.voices) if desk.voices else desk.voice(None)
    desk.check(wanted.input)
    job = Job(
        text=wanted.input,
        param="input",
        speed=desk.speed if wanted.speed is None else wanted.speed,
        style=wanted.instructions,
        form=wanted.response_format,
        events=wanted.stream_format == "sse",
    )
    return SpeechResponse(desk=desk, job=job, voice=nullcontext(voice))
