"""A form with a recording: the file goes to the disk as it comes, a piece of it in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from tempfile import gettempdir
from typing import BinaryIO

from starlette.requests import Request

from services.audio_api.form_stream import FormReader
from tts_engine.errors import BadRequest, EngineFailed, TimedOut
from tts_engine.service.api_errors import ApiError
from tts_engine.service.bodies import content_type, too_large, wrong_type

#: the next piece of a body is waited for so long, and the whole of it, seconds
PIECE_S, BODY_S = 30.0, 900.0
#: and so much has to come in the time of a piece, bytes: 1 KB a second
_LEAST = 30 * 1024
_FORM = "multipart/form-data"
#: bytes of a form beside its file
_FORM_BYTES = 128 * 1024
#: written at once
_WRITTEN = 1 << 20
#: Of a body that is not wanted so much is received, for nothing: a client that is still sending
#: when the connection is closed may never see why.
_WASTED = 64 << 20


class Upload:
    """Receives one form.

    Parameters:
        request: nothing of its body has been read.
        limit: bytes that its file may have.
        file: name of the field that is the file.
    """

    def __init__(self, request: Request, *, limit: int, file: str = "file") -> None:
        self._request = request
        self._limit = limit
        self._file = file
        self._body: AsyncIterator[bytes] = request.stream()
        self._over = False

    async def receive(self, into: BinaryIO) -> list[tuple[str, str]]:
        """Receives all of it.

        Args:
            into: gets the file; is written to in a thread.

        Returns:
            The other fields.

        Raises:
            ApiError: it is no form, has no file, is too large, or too slow.
            BadForm
            ClientDisconnect
        """
        if content_type(self._request) != _FORM:
            raise wrong_type(_FORM)
        self._check(int(self._request.headers.get("content-length", "0")) - _FORM_BYTES)
        reader = FormReader(self._request.headers["content-type"], file=self._file)
        try:
            await self._spool(reader, into)
        except OSError as error:
            raise not_kept(error) from error
        reader.finish()
        if not reader.has_file:
            raise self._no_file(reader.fields)
        return reader.fields

    async def waste(self) -> None:
        """Receives what is left of a body whose request is refused, as far as that is worth it."""
        if "expect" in self._request.headers:
            return  # it sends its body when it is told to
        received = 0
        try:
            async with asyncio.timeout(PIECE_S):
                while received <= _WASTED and (piece := await self._next()):
                    received += len(piece)
        except (ApiError, TimeoutError):
            pass

    async def _spool(self, reader: FormReader, into: BinaryIO) -> None:
        size, waiting = 0, bytearray()
        looked, had = time.monotonic(), 0
        try:
            async with asyncio.timeout(BODY_S):
                while data := await self._next():
                    content = reader.push(data)
                    size += len(content)
                    if time.monotonic() - looked > PIECE_S:
                        if size - had < _LEAST:
                            raise _too_slow(PIECE_S)
                        looked, had = time.monotonic(), size
                    self._check(size)
                    waiting += content
                    if len(waiting) >= _WRITTEN:
                        await asyncio.to_thread(into.write, bytes(waiting))
                        waiting.clear()
        except TimeoutError:
            raise _too_slow(BODY_S) from None
        await asyncio.to_thread(into.write, bytes(waiting))
        await asyncio.to_thread(into.flush)

    async def _next(self) -> bytes:
        """The next piece of the body; empty: there are no more."""
        while not self._over:
            try:
                async with asyncio.timeout(PIECE_S):
                    piece = await anext(self._body, None)
            except TimeoutError:
                raise _too_slow(PIECE_S) from None
            if piece is None:
                self._over = True
            elif piece:
                return piece
        return b""

    def _check(self, size: int) -> None:
        if size > self._limit:
            mend = "Send it in parts, or compressed, or raise transcription.max_upload_mb"
            raise too_large("recording", self._limit, param=self._file, mend=mend)

    def _no_file(self, fields: list[tuple[str, str]]) -> ApiError:
        name = self._file
        if any(each == name for each, _ in fields):
            failure = BadRequest(
                f"'{name}' is a text here, not a file",
                mend=f"Send the file itself, as in `curl -F {name}=@recording.wav`",
            )
            return ApiError(failure, 400, param=name, code="invalid_type")
        failure = BadRequest(f"Missing required parameter: '{name}'")
        return ApiError(failure, 400, param=name, code="missing_required_parameter")


def not_kept(error: OSError) -> ApiError:
    """The failure of a disk that does not take a recording."""
    failure = EngineFailed(
        f"The recording cannot be kept: {error.strerror}",
        mend=f"Make room in {gettempdir()}, or name another folder by TMPDIR",
    )
    return ApiError(failure, 507)


def _too_slow(seconds: float) -> ApiError:
    return ApiError(TimedOut(f"The body did not come fast enough, in {seconds:g} s"), 408)
