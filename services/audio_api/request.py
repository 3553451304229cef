# pyright: strict
"""The body of `POST /v1/audio/speech`: what it may say, and how a wrong one is refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from services.voices import voice_name
from tts_engine.audio.encoders import Format
from tts_engine.service.bodies import parse_json
from tts_engine.service.requests import Fields
from tts_engine.service.shaping import MAX_SPEED, MIN_SPEED

#: characters of a text, as at OpenAI
MAX_INPUT = 4096
#: bytes of a body: both texts at their longest, each character escaped, and room for the rest
MAX_BODY = 2 * 12 * MAX_INPUT + 4096
_MAX_NAME = 512


def _speed(value: float) -> float:
    if not MIN_SPEED <= value <= MAX_SPEED:  # NaN is not between them either
        raise PydanticCustomError(
            "speed", "not between {least} and {most}", {"least": MIN_SPEED, "most": MAX_SPEED}
        )
    return value


class SpeechRequest(Fields):
    """What to say, and how. Unknown fields are refused, as at OpenAI.

    Parameters:
        input: the text; markdown, numbers and signs are read as a person would.
        voice: a voice of the daemon, or one of OpenAI's, which stands for the default.
        model: any name; the daemon has one voice engine.
        response_format: of the audio.
        speed: multiple of the voice's own pace, what the engines can do; OpenAI's own go from 0.25
            to 4. None: the daemon's.
        instructions: how to say it, for engines that have styles.
        stream_format: the audio itself, or server-sent events with pieces of it in base64.
    """

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
    return parse_json(body, SpeechRequest)
