# pyright: strict
"""The body of `POST /v1/audio/speech`: what it may say, and how a wrong one is refused."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
)
from pydantic_core import PydanticCustomError

from services.api_errors import ApiError
from services.voices import voice_name
from tts_engine.errors import BadRequest

#: characters of a text, as at OpenAI
MAX_INPUT = 4096
#: bytes of a body: both texts at their longest, each character escaped, and room for the rest
MAX_BODY = 2 * 12 * MAX_INPUT + 4096
#: what the engines can do; OpenAI's own go from 0.25 to 4
MIN_SPEED, MAX_SPEED = 0.5, 2.0
_MAX_NAME = 512

Format = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]


def _speed(value: float) -> float:
    if not MIN_SPEED <= value <= MAX_SPEED:  # NaN is not between them either
        raise PydanticCustomError(
            "speed", "not between {least} and {most}", {"least": MIN_SPEED, "most": MAX_SPEED}
        )
    return value


class SpeechRequest(BaseModel):
    """What to say, and how. Unknown fields are refused, as at OpenAI.

    Parameters:
        input: the text; markdown, numbers and signs are read as a person would.
        voice: a voice of the daemon, or one of OpenAI's, which stands for the default.
        model: any name; the daemon has one voice engine.
        response_format: of the audio.
        speed: multiple of the voice's own pace; None: the daemon's.
        instructions: how to say it, for engines that have styles.
        stream_format: the audio itself, or server-sent events with pieces of it in base64.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    input: Annotated[str, Field(min_length=1, max_length=MAX_INPUT)]
    voice: Annotated[str, Field(max_length=_MAX_NAME), BeforeValidator(voice_name)]
    model: Annotated[str, Field(max_length=_MAX_NAME)] = ""
    response_format: Format = "mp3"
    speed: Annotated[float, AfterValidator(_speed)] | None = None
    instructions: Annotated[str, Field(max_length=MAX_INPUT)] = ""
    stream_format: Literal["audio", "sse"] = "audio"


def parse(body: bytes) -> SpeechRequest:
    """Reads a body.

    Raises:
        ApiError: it is not what it should be; the first fault is told.
    """
    try:
        raw: JsonValue = json.loads(body)
    except (ValueError, RecursionError) as error:
        why = "too deep" if isinstance(error, RecursionError) else str(error)
        raise ApiError(
            BadRequest(f"The body is not JSON: {why}"), 400, code="invalid_json"
        ) from None
    if not isinstance(raw, dict):
        raise ApiError(BadRequest("The body is not a JSON object"), 400, code="invalid_json")
    # pydantic describes every fault, and only the first is told: one stranger is enough
    stranger = next((key for key in raw if key not in SpeechRequest.model_fields), None)
    if stranger is not None:
        name = _shown(stranger)
        raise ApiError(
            BadRequest(f"Unknown parameter: '{name}'"), 400, param=name, code="unknown_parameter"
        )
    try:
        return SpeechRequest.model_validate(raw)
    except ValidationError as error:
        raise _refusal(error) from None


def _refusal(error: ValidationError) -> ApiError:
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    param = str(fault["loc"][0])
    if fault["type"] == "missing":
        failure = BadRequest(f"Missing required parameter: '{param}'")
        return ApiError(failure, 400, param=param, code="missing_required_parameter")
    code = "invalid_type" if fault["type"].endswith("_type") else "invalid_value"
    return ApiError(
        BadRequest(f"Invalid value for '{param}': {fault['msg']}"), 400, param=param, code=code
    )


def _shown(key: str) -> str:
    """A name of the client's own, short, and fit to be written again."""
    return key[:200].encode("utf-8", "replace").decode("utf-8")
