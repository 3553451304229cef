# pyright: strict
"""Errors of the routes that there are not, in OpenAI's shape as all others: see `ApiError`."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tts_engine.errors import BadRequest
from tts_engine.service.api_errors import ApiError

#: characters of a request's address that are shown
_SHOWN = 100
#: what the daemon has
DAEMON_ROUTES = (
    "Of OpenAI's API this daemon has the WebSocket /v1/realtime, POST /v1/audio/speech, "
    "POST /v1/audio/transcriptions and GET /v1/models"
)


def install_errors(app: Starlette, *, routes: str = DAEMON_ROUTES) -> None:
    """Lets an application answer in this shape where it has no such route or method.

    Args:
        app: the application.
        routes: a sentence about those that it has.
    """

    async def not_served(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        what = f"{request.method} {request.url.path}"[:_SHOWN]
        code = {404: "unknown_url", 405: "method_not_allowed"}.get(error.status_code)
        failure = BadRequest(f"There is no {what} here" if code else error.detail, mend=routes)
        headers = dict(error.headers or {})
        return ApiError(failure, error.status_code, code=code, headers=headers).response()

    app.add_exception_handler(HTTPException, not_served)
