# pyright: strict
"""Bodies of requests: read with bounds, and refused with the field at fault."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TypeVar

from pydantic import BaseModel, JsonValue, ValidationError
from starlette.requests import Request

from tts_engine.errors import BadRequest, TimedOut
from tts_engine.service.api_errors import ApiError

Model = TypeVar("Model", bound=BaseModel)

#: a body that takes longer to arrive is not waited for, seconds
BODY_TIMEOUT_S = 30.0
_MB = 1024 * 1024
#: Of a body that is too large so much is received, for nothing: a client that is still sending when
#: the connection is closed may never see why.
_WASTED = 64 * _MB
#: half a character, which JSON can write and no text has
_HALF = re.compile("[\ud800-\udfff]")


def content_type(request: Request) -> str:
    """What the body is by its own account, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_json(request: Request, *, limit: int) -> bytes:
    """Reads a body that is JSON by its own account.

    Args:
        request: nothing of its body has been read.
        limit: bytes that it may have.

    Raises:
        ApiError: it is not, too large, or too slow.
        ClientDisconnect
    """
    if content_type(request) != "application/json":
        # also keeps out what web pages may send anywhere unasked
        raise wrong_type("application/json")
    return await read_body(request, limit=limit)


async def read_body(request: Request, *, limit: int, what: str = "body", mend: str = "") -> bytes:
    """Reads a body, and no more of it than it may have.

    Args:
        request: nothing of its body has been read.
        limit: bytes that it may have.
        what: the client thinks it sends.
        mend: what can be done if it is too large.

    Raises:
        ApiError: it is too large, or too slow.
        ClientDisconnect
    """
    body = bytearray()
    waiting = "expect" in request.headers  # it sends its body when it is told to
    size = int(request.headers.get("content-length", "0"))  # the server has read it as a number
    if waiting and size > limit:
        raise too_large(what, limit, mend=mend)
    received = 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for piece in request.stream():
                received += len(piece)
                if received <= limit:
                    body += piece
                elif received > limit + _WASTED:
                    break
    except TimeoutError:
        failure = TimedOut(f"The body did not come within {BODY_TIMEOUT_S:g} s")
        raise ApiError(failure, 408) from None
    if received > limit:
        raise too_large(what, limit, mend=mend)
    return bytes(body)


def too_large(what: str, limit: int, *, param: str | None = None, mend: str = "") -> ApiError:
    """A body, or what is in it, that has more bytes than it may."""
    size, unit = (limit / _MB, "MB") if limit >= _MB else (limit / 1024, "KB")
    failure = BadRequest(
        f"The {what} has more than {round(size, 2):g} {unit} ({limit} bytes)", mend=mend
    )
    return ApiError(failure, 413, param=param, code="body_too_large")


def wrong_type(*wanted: str) -> ApiError:
    """A body that by its own account is something else."""
    failure = BadRequest(f"The Content-Type is not {' or '.join(wanted)}")
    return ApiError(failure, 415, code="unsupported_media_type")


def parse_json(body: bytes | str, model: type[Model]) -> Model:
    """Makes an object of a JSON object.

    Args:
        body: its text.
        model: what its fields are; strangers are refused.

    Raises:
        ApiError: it is not what it should be; the first fault is told.
    """
    return parse_fields(json_object(body, "body"), model)


def json_object(data: bytes | str, what: str) -> dict[str, JsonValue]:
    """Reads a JSON object.

    Args:
        data: its text.
        what: it is, for the message.

    Raises:
        ApiError: it is none.
    """
    try:
        raw: JsonValue = json.loads(data)
    except (ValueError, RecursionError) as error:
        why = "too deep" if isinstance(error, RecursionError) else str(error)
        failure = BadRequest(f"The {what} is not JSON: {why}")
        raise ApiError(failure, 400, code="invalid_json") from None
    if not isinstance(raw, dict):
        raise ApiError(BadRequest(f"The {what} is not a JSON object"), 400, code="invalid_json")
    return raw


def parse_fields(fields: dict[str, JsonValue], model: type[Model]) -> Model:
    """Makes an object of fields.

    Raises:
        ApiError: they are not what they should be; the first fault is told.
    """
    # pydantic describes every fault, and only the first is told: one stranger is enough
    stranger = next((key for key in fields if key not in model.model_fields), None)
    if stranger is not None:
        name = _shown(stranger)
        raise ApiError(
            BadRequest(f"Unknown parameter: '{name}'"), 400, param=name, code="unknown_parameter"
        )
    for name, value in fields.items():
        if isinstance(value, str) and _HALF.search(value):
            failure = BadRequest(f"Invalid value for '{name}': it has half a surrogate pair")
            raise ApiError(failure, 400, param=name, code="invalid_value")
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise _refusal(error) from None


def _refusal(error: ValidationError) -> ApiError:
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    param = str(fault["loc"][0]) if fault["loc"] else None
    if fault["type"] == "missing":
        failure = BadRequest(f"Missing required parameter: '{param}'")
        return ApiError(failure, 400, param=param, code="missing_required_parameter")
    code = "invalid_type" if fault["type"].endswith("_type") else "invalid_value"
    where = f"Invalid value for '{param}': " if param else ""
    return ApiError(BadRequest(f"{where}{fault['msg']}"), 400, param=param, code=code)


def _shown(key: str) -> str:
    """A name of the client's own, short, and fit to be written again."""
    return key[:200].encode("utf-8", "replace").decode("utf-8")
