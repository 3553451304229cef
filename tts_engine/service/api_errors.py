# pyright: strict
"""OpenAI's shape of an HTTP error, for every route of ours, and at the door.

{"error": {"message": ..., "type": ..., "param": ..., "code": ...}}
"""

from __future__ import annotations

from starlette.responses import JSONResponse

from tts_engine.errors import (
    AtCapacity,
    BadAudio,
    BadRequest,
    DuplexdError,
    NotReady,
    UnknownVoice,
)

#: when a client may try again, seconds: clauses end, engines warm up
RETRY_AFTER_S = 1


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
    def of(cls, failure: DuplexdError | ApiError) -> ApiError:
        """The error of a failure that came from below, unless it is one already."""
        match failure:
            case ApiError():
                return failure
            case UnknownVoice():
                return cls(failure, 400, param="voice")
            case BadRequest() | BadAudio():
                return cls(failure, 400)
            case AtCapacity():
                return cls(failure, 429)
            case NotReady():
                return cls(failure, 503)
            case _:
                return cls(failure, 500)

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


def no_upgrade() -> JSONResponse:
    """Answers a plain request for what is a WebSocket."""
    error = BadRequest(
        "This is a WebSocket, and the request has no `Upgrade: websocket`",
        mend="Connect to ws:// or wss://; a proxy in between must pass Upgrade and Connection on",
    )
    headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
    return ApiError(error, 426, code="upgrade_required", headers=headers).response()
