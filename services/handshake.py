"""A handshake that is not accepted: an HTTP answer in place of the WebSocket."""

from __future__ import annotations

from fastapi import WebSocket

from tts_engine.errors import AtCapacity, BadRequest, DuplexdError, UnknownVoice
from tts_engine.service.api_errors import ApiError

#: when to come again, seconds
_FULL_S, _WARMING_S = 5, 2


class WarmingUp(AtCapacity):
    """The engines are not ready."""


class NotAdmitted(DuplexdError):
    """Somebody shows the wrong token, or none."""

    code = "not_admitted"


async def refuse(socket: WebSocket, error: DuplexdError) -> None:
    """Answers the handshake with an error in OpenAI's shape."""
    await socket.send_denial_response(_answer(error).response())


def _answer(error: DuplexdError) -> ApiError:
    if isinstance(error, AtCapacity):
        wait_s = _WARMING_S if isinstance(error, WarmingUp) else _FULL_S
        return ApiError(error, 503, headers={"Retry-After": str(wait_s)})
    if isinstance(error, NotAdmitted):
        return ApiError(error, 401)
    return ApiError(error, 400 if isinstance(error, BadRequest | UnknownVoice) else 500)
