"""Why a request is refused.

Refusal(DuplexdError)   "refused"
|-- UnknownHost         "invalid_host"         403
|-- ForeignOrigin       "invalid_origin"       403
|-- TooMany             "rate_limit_exceeded"  429, Retry-After
|-- NoKey               "missing_api_key"      401
|-- WrongKey            "invalid_api_key"      401
|-- BadLogin            "invalid_login"        400
`-- SlowLogin           "login_timeout"        408
"""

from __future__ import annotations

import math

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from services.access.public import CHALLENGE
from tts_engine.errors import DuplexdError
from tts_engine.service.api_errors import ApiError

#: characters of what somebody sent that are shown
_SHOWN = 100
_HOW = (
    "Send one that `run.py keys add` made as `Authorization: Bearer KEY`, or open this address in "
    "a browser"
)


class Refusal(DuplexdError):
    """A request that gets no further."""

    code = "refused"
    status = 403

    @property
    def headers(self) -> dict[str, str]:
        """What the response says beside its body."""
        return {}

    def response(self) -> Response:
        """The refusal, as any client of OpenAI's understands it."""
        return ApiError(self, self.status, headers=self.headers).response()


class UnknownHost(Refusal):
    """The `Host` header names another server, or none."""

    code = "invalid_host"

    def __init__(self, host: str) -> None:
        super().__init__(
            f"The name {host[:_SHOWN]!r} is not this daemon's" if host else "There is no host name",
            mend="Call it by its IP address, or add the name to server.allowed_hosts",
        )


class ForeignOrigin(Refusal):
    """The request is a web page's of another host."""

    code = "invalid_origin"

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"A web page of {origin[:_SHOWN]!r} may not connect",
            mend="If it should, add it to server.allowed_origins",
        )


class TooMany(Refusal):
    """The address asks too often."""

    code = "rate_limit_exceeded"
    status = 429

    def __init__(self, what: str, *, wait_s: float) -> None:
        self.wait_s = max(1, math.ceil(wait_s))
        super().__init__(f"Too many {what} from this address", mend=f"Wait {self.wait_s} s")

    @property
    def headers(self) -> dict[str, str]:
        """See Refusal."""
        return {"Retry-After": str(self.wait_s)}


class NoKey(Refusal):
    """The request brings no key."""

    code = "missing_api_key"
    status = 401

    def __init__(self, message: str = "This daemon wants an API key") -> None:
        super().__init__(message, mend=_HOW)

    @property
    def headers(self) -> dict[str, str]:
        """See Refusal."""
        return {"WWW-Authenticate": CHALLENGE}


class WrongKey(NoKey):
    """The key that it brings is none of ours."""

    code = "invalid_api_key"

    def __init__(self) -> None:
        super().__init__("This is not an API key of this daemon, or it was revoked")


class BadLogin(Refusal):
    """What was posted to /login is not a key."""

    code = "invalid_login"
    status = 400

    def __init__(self) -> None:
        super().__init__("The body is not what logs in", mend='Send {"key": "dx-..."}')


class SlowLogin(Refusal):
    """What was to be posted to /login did not come."""

    code = "login_timeout"
    status = 408

    def __init__(self) -> None:
        super().__init__("The key did not come in time", mend="Send it again")

    @property
    def headers(self) -> dict[str, str]:
        """See Refusal. What comes yet is no request."""
        return {"Connection": "close"}


async def answer(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers a request, or a WebSocket's handshake, in place of the application."""
    denial = "websocket.http.response" in (scope.get("extensions") or {})
    if scope["type"] == "websocket" and not denial:
        await send({"type": "websocket.close", "code": 1008})  # a server that can say no more
        return
    await response(scope, receive, send)
