# pyright: strict
"""OpenAI's shape of an HTTP error, for every route that its clients call, and at the door.

{"error": {"message": ..., "type": ..., "param": ..., "code": ...}}
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tts_engine.errors import AtCapacity, BadRequest, DuplexdError, UnknownVoice

#: when a client may try again, seconds: clauses end, engines warm up
RETRY_AFTER_S = 1
#: characters of a request's address that are shown
_SHOWN = 100
_SERVED = (
    "Of OpenAI's API this daemon has the WebSocket /v1/realtime, POST /v1/audio/speech and "
    "GET /v1/models"
)


class ApiError(Exception):
    """A request that is answered with an error.

    Parameters:
        failure: what happened; its message, and what mends it, are shown.
        status: of the response.
        param: the field at fault, as a path from the body.
        code: for programs; None for the failure's own.
        headers: further ones.
    """

    def __init__(
        self,
        failure: DuplexdError,
        status: int,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.status = status
        self.param = param
        self.code = code or failure.code
        self.headers = dict(headers or {})
        if status in (429, 503):
            self.headers.setdefault("Retry-After", str(RETRY_AFTER_S))

    @classmethod
    def of(cls, failure: DuplexdError) -> ApiError:
        """The error of a failure that came from below."""
        if isinstance(failure, UnknownVoice):
            return cls(failure, 400, param="voice")
        if isinstance(failure, BadRequest):
            return cls(failure, 400)
        return cls(failure, 429 if isinstance(failure, AtCapacity) else 500)

    @property
    def body(self) -> dict[str, dict[str, str | None]]:
        """What the client reads."""
        client = "rate_limit_error" if self.status == 429 else "invalid_request_error"
        kind = client if self.status < 500 else "server_error"
        text = str(self)
        return {"error": {"message": text, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        """The whole answer."""
        return JSONResponse(self.body, self.status, headers=self.headers)


def install_errors(app: Starlette) -> None:
    """Lets an application answer in this shape where it has no such route or method."""
    app.add_exception_handler(HTTPException, _not_served)


async def _not_served(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path}"[:_SHOWN]
    code = {404: "unknown_url", 405: "method_not_allowed"}.get(error.status_code)
    failure = BadRequest(f"There is no {what} here" if code else error.detail, mend=_SERVED)
    headers = dict(error.headers or {})
    return ApiError(failure, error.status_code, code=code, headers=headers).response()
