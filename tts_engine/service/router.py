"""Mounts the TTS service on a FastAPI application.

POST   /tts              a text, spoken; in a registered voice, or in that of a recording
WS     /ws/tts           texts as they are written, spoken as they come
GET    /list-voice       the voices
POST   /register-voice   a voice of a recording
DELETE /voices/{id}      forgets it
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fastapi import APIRouter, Request, Response, WebSocket
from fastapi.responses import JSONResponse
from pydantic import BaseModel, JsonValue
from starlette.requests import ClientDisconnect

from tts_engine.errors import BadRequest, DuplexdError
from tts_engine.service.api_errors import ApiError, no_upgrade
from tts_engine.service.bodies import (
    content_type,
    json_object,
    parse_fields,
    read_body,
    read_json,
    wrong_type,
)
from tts_engine.service.desk import SpeechDesk
from tts_engine.service.forms import BadForm, Form, parse_form
from tts_engine.service.places import Places
from tts_engine.service.references import SEND_LESS, References
from tts_engine.service.requests import Language, RegisterRequest, TtsRequest, check_language
from tts_engine.service.response import Job, SpeechResponse
from tts_engine.service.shaping import Shaping
from tts_engine.service.socket import SpeechSocket
from tts_engine.service.voices import VoiceDesk, described

Model = TypeVar("Model", bound=BaseModel)

_FORM = "multipart/form-data"
#: bytes of a form beside its recording
_FORM_BYTES = 64 * 1024
#: bytes of a character in JSON, escaped as two surrogates, and what is beside the text
_CHAR_BYTES, _JSON_BYTES = 12, 64 * 1024
#: recordings that are being received or measured at a time, each of them in memory
_UPLOADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceContext:
    """Everything that the service needs.

    Parameters:
        desk: speaks.
        about: what the engine is called.
        languages: that the engine speaks.
        max_chars: characters of a text.
        max_upload: bytes of a recording.
        idle_s: how long a text that is sent in pieces may wait for its next one, seconds.
        folder: of recordings that voices may be registered from; None: none.
        hosts: that recordings may be fetched from, as example.com or example.com:8443.
    """

    desk: SpeechDesk
    about: str
    languages: Sequence[Language]
    max_chars: int
    max_upload: int
    idle_s: float
    folder: Path | None
    hosts: Sequence[str]


def make_router(context: ServiceContext) -> APIRouter:
    """The routes of the service."""
    router = APIRouter()
    service = _Service(context)

    @router.post("/tts")
    async def tts(request: Request) -> Response:
        """Speaks a text."""
        return await service.answer(service.speak(request))

    @router.get("/list-voice")
    async def list_voice() -> JSONResponse:
        """Lists the voices."""
        voices = service.voices
        return JSONResponse({"voices": voices.listed(), "cloning": voices.can_clone})

    @router.post("/register-voice")
    async def register_voice(request: Request) -> Response:
        """Makes a voice."""
        return await service.answer(service.register(request))

    @router.delete("/voices/{name}")
    async def delete_voice(name: str) -> Response:
        """Forgets a voice."""
        return await service.answer(service.remove(name))

    @router.websocket("/ws/tts")
    async def ws_tts(socket: WebSocket) -> None:
        speech = SpeechSocket(
            socket=socket,
            desk=context.desk,
            languages=context.languages,
            max_chars=context.max_chars,
            idle_s=context.idle_s,
        )
        await speech.serve()

    @router.get("/ws/tts")
    async def plain() -> Response:
        """A handshake that has lost what makes it one."""
        return no_upgrade()

    return router


class _Service:
    """What the routes do."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._desk = context.desk
        self.voices = VoiceDesk(desk=context.desk, about=context.about)
        self._references = References(
            limit=context.max_upload, folder=context.folder, hosts=context.hosts
        )
        self._uploads = Places(
            _UPLOADS, what="recordings are being taken in", mend="Try again later"
        )

    async def answer(self, response: Awaitable[Response]) -> Response:
        """The response, or the error in its place."""
        try:
            return await response
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except (ApiError, DuplexdError) as failure:
            error = ApiError.of(failure)
        self._desk.note(error, "refused")
        return error.response()

    # --- speaking ---------------------------------------------------------------------------
    async def speak(self, request: Request) -> Response:
        """`POST /tts`."""
        try:
            return await self._speak(request)
        except ClientDisconnect:
            self._desk.accounts.speech("gone")
            raise
        except (ApiError, DuplexdError):
            self._desk.accounts.speech("refused")
            raise

    async def _speak(self, request: Request) -> Response:
        # what a text of that length may take, however it is escaped
        longest = _CHAR_BYTES * self._context.max_chars + _JSON_BYTES
        wanted, recording = await self._read(request, TtsRequest, "reference", longest)
        self._accept(wanted)
        shaping = Shaping(pitch=wanted.pitch, energy=wanted.energy)
        speed = self._desk.speed if wanted.speed is None else wanted.speed
        shaping.engine_speed(speed)
        job = Job(
            text=wanted.text,
            param="text",
            speed=speed,
            style=wanted.instruct,
            language=wanted.reading,
            form=wanted.format,
            rate=wanted.sample_rate,
            shaping=shaping,
            whole=not wanted.streaming,
        )
        return SpeechResponse(desk=self._desk, job=job, voice=self._voice(wanted, recording))

    def _accept(self, wanted: TtsRequest) -> None:
        """Raises ApiError or DuplexdError if the text is not one for this service."""
        self._desk.accept(wanted.text, most=self._context.max_chars)
        check_language(wanted.language, self._context.languages)
        self._desk.check_ready()

    def _voice(
        self, wanted: TtsRequest, recording: bytes | None
    ) -> AbstractAsyncContextManager[str]:
        given = [wanted.voice, wanted.reference_url, recording]
        if sum(each is not None for each in given) > 1:
            failure = BadRequest("A voice, a recording and its address exclude each other")
            raise ApiError(failure, 400, param="voice", code="invalid_value")
        if recording is None and wanted.reference_url is None:
            return nullcontext(self._desk.voice(wanted.voice))
        self.voices.cloner()  # raises, where there is none
        if not wanted.reference_text.strip():
            failure = BadRequest("Say in 'reference_text' what is said in the recording")
            raise ApiError(failure, 400, param="reference_text", code="missing_required_parameter")
        return self._once(recording, wanted.reference_url or "", wanted.reference_text)

    @asynccontextmanager
    async def _once(self, recording: bytes | None, url: str, text: str) -> AsyncIterator[str]:
        async def given() -> bytes:
            if recording is not None:
                return recording
            with self._uploads:
                return await self._references.from_url(url)

        async with self.voices.once(given, text) as name:
            yield name

    # --- voices -----------------------------------------------------------------------------
    async def register(self, request: Request) -> Response:
        """`POST /register-voice`."""
        # before a recording is received for nothing
        self._desk.check_ready()
        self.voices.cloner()
        wanted, recording = await self._read(request, RegisterRequest, "audio", _FORM_BYTES)
        if (recording is None) == (wanted.file is None):
            failure = BadRequest("Give either a recording, as 'audio' of a form, or a 'file'")
            raise ApiError(failure, 400, param="audio", code="missing_required_parameter")
        with self._uploads:
            if recording is None:
                recording = await self._references.from_folder(wanted.file or "")
            info = await self.voices.register(wanted, recording)
        return JSONResponse({"id": info.name, **described(info)}, 201)

    async def remove(self, name: str) -> Response:
        """`DELETE /voices/{id}`."""
        await self.voices.remove(name)
        return JSONResponse({"id": name, "deleted": True})

    async def _read(
        self, request: Request, model: type[Model], file: str, limit: int
    ) -> tuple[Model, bytes | None]:
        """The fields of a body, JSON or a form, and the recording that the form may have.

        Args:
            request: its body was not read.
            model: the fields.
            file: what the form calls the recording.
            limit: bytes of a body beside the recording.

        Raises:
            ApiError, BadForm, AtCapacity
            ClientDisconnect
        """
        kind = content_type(request)
        recording: bytes | None = None
        if kind == "application/json":
            fields = json_object(await read_json(request, limit=limit), "body")
        elif kind == _FORM:
            form = await self._form(request, limit)
            fields: dict[str, JsonValue] = {**form.fields}
            recording = form.files.pop(file, None)
            if form.files:
                raise BadForm(f"There is no file {next(iter(form.files))[:100]!r} in this form")
        else:
            raise wrong_type("application/json", _FORM)
        if file in fields:
            failure = BadRequest(
                f"'{file}' is a text here, not a file",
                mend=f"Send a form with the file itself, as in `curl -F {file}=@recording.wav`",
            )
            raise ApiError(failure, 400, param=file, code="invalid_type")
        if recording is not None:
            self._references.check(len(recording), param=file)
        return parse_fields(fields, model), recording

    async def _form(self, request: Request, limit: int) -> Form:
        with self._uploads:
            body = await read_body(
                request,
                limit=limit + self._references.limit,
                what="form with its recording",
                mend=SEND_LESS,
            )
            return parse_form(body, request.headers["content-type"])
