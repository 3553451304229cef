"""Recordings that voices are made of, from where the service is allowed to take them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tts_engine.errors import BadRequest, TimedOut
from tts_engine.service.api_errors import ApiError
from tts_engine.service.bodies import too_large

#: how long an address may take to give its recording, seconds
FETCH_TIMEOUT_S = 15.0
#: what can be done about one that is too large
SEND_LESS = "Send less, or raise speech.max_upload_mb"


class References:
    """Takes recordings in.

    Parameters:
        limit: bytes that one may have.
        folder: whose files may be named; None: none.
        hosts: that may be fetched from, as example.com or example.com:8443.
    """

    def __init__(self, *, limit: int, folder: Path | None, hosts: Sequence[str]) -> None:
        self.limit = limit
        self._folder = folder
        self._hosts = frozenset(host.lower() for host in hosts)

    async def from_folder(self, name: str) -> bytes:
        """Reads a file of the folder.

        Raises:
            ApiError: there is no folder, no such file in it, or it is too large.
        """
        if self._folder is None:
            failure = BadRequest(
                "This service has no folder of references",
                mend="Upload the recording, or set speech.reference_dir",
            )
            raise ApiError(failure, 403, param="file", code="no_reference_dir")
        return await asyncio.to_thread(self._read, self._folder, name)

    def _read(self, folder: Path, name: str) -> bytes:
        missing = ApiError(
            BadRequest(f"There is no file {name!r} in the folder of references"),
            404,
            param="file",
            code="no_such_file",
        )
        try:
            path = (folder / name).resolve()
            # neither a path nor a link leads out of the folder
            if path.parent != folder.resolve() or not path.is_file():
                raise missing
            with path.open("rb") as stream:
                data = stream.read(self.limit + 1)
        except (OSError, ValueError):
            raise missing from None
        self.check(len(data))
        return data

    async def from_url(self, url: str) -> bytes:
        """Fetches a recording, without following where it may have gone.

        Raises:
            ApiError: the host is not allowed, it does not give it, or it is too large.
        """
        self._allowed(url)
        data = bytearray()
        try:
            async with (
                asyncio.timeout(FETCH_TIMEOUT_S),
                httpx.AsyncClient(timeout=FETCH_TIMEOUT_S) as client,
                client.stream("GET", url) as reply,
            ):
                if reply.status_code != 200:
                    raise _not_given(f"it answers {reply.status_code}")
                async for piece in reply.aiter_bytes():
                    data += piece
                    self.check(len(data))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _not_given(type(error).__name__) from error
        except TimeoutError:
            failure = TimedOut(f"The recording did not come within {FETCH_TIMEOUT_S:g} s")
            raise ApiError(failure, 400, param="reference_url") from None
        return bytes(data)

    def check(self, size: int, *, param: str | None = None) -> None:
        """Raises ApiError if a recording of so many bytes is too large.

        Args:
            size: in bytes.
            param: what the client calls the recording.
        """
        if size > self.limit:
            raise too_large("recording", self.limit, param=param, mend=SEND_LESS)

    def _allowed(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower()
            place = f"{host}:{parts.port}" if parts.port else host
        except ValueError:
            host = place = ""
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not host or place not in self._hosts:
            failure = BadRequest(
                "Recordings are not fetched from that address",
                mend="Upload the recording, or add the host to speech.reference_hosts",
            )
            raise ApiError(failure, 403, param="reference_url", code="host_not_allowed")


def _not_given(why: str) -> ApiError:
    failure = BadRequest(f"The recording cannot be fetched: {why}")
    return ApiError(failure, 400, param="reference_url", code="reference_unavailable")
