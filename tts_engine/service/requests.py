# pyright: strict
"""What a client may ask of the TTS service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from tts_engine.audio.encoders import RATE, Format, rates_of
from tts_engine.engine import MAX_SPEED, MIN_SPEED
from tts_engine.errors import BadRequest
from tts_engine.service.api_errors import ApiError
from tts_engine.service.cloner import CONSENT_LENGTH, TEXT_LENGTH
from tts_engine.text.words import Language as Reading

Language = Literal["zh", "en", "ja", "yue", "ko"]
LANGUAGES: tuple[Language, ...] = ("zh", "en", "ja", "yue", "ko")
#: characters of a name, an instruction
_MAX_NAME, _MAX_INSTRUCT = 512, 1000
#: a name that is fit for a file and an address
VOICE_ID = r"^[\w][\w-]{0,63}$"


def _number(value: object) -> object:
    """Forms have text only."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _whole(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _flag(value: object) -> object:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


Multiple = Annotated[
    float, BeforeValidator(_number), Field(ge=MIN_SPEED, le=MAX_SPEED, allow_inf_nan=False)
]
Loudness = Annotated[float, BeforeValidator(_number), Field(ge=0.1, le=4, allow_inf_nan=False)]


class Fields(BaseModel):
    """What clients send: nothing but these fields, each of its own type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Manners(Fields):
    """How something is said; every field may be left out.

    Parameters:
        voice: one of the list; None: the default.
        language: of the text, where it does not tell itself.
        speed, pitch: multiples of the voice's own; None: the service's speed.
        energy: multiple of its amplitude.
        instruct: how to say it, for engines that have styles.
        sample_rate: of the audio.
    """

    voice: Annotated[str, Field(min_length=1, max_length=_MAX_NAME)] | None = None
    language: Language | None = None
    speed: Multiple | None = None
    pitch: Multiple = 1.0
    energy: Loudness = 1.0
    instruct: Annotated[str, Field(max_length=_MAX_INSTRUCT)] = ""
    sample_rate: Annotated[int, BeforeValidator(_whole)] = RATE

    @property
    def reading(self) -> Reading:
        """How numbers are read where the text itself does not tell."""
        return "en" if self.language == "en" else "zh"

    @model_validator(mode="after")
    def _has_rate(self) -> Self:
        form = self.output
        if self.sample_rate not in rates_of(form):
            known = ", ".join(map(str, rates_of(form)))
            raise PydanticCustomError(
                "sample_rate", "'sample_rate': {form} has {known}", {"form": form, "known": known}
            )
        return self

    @property
    def output(self) -> Format:
        """The format of the audio."""
        return "pcm"


class TtsRequest(Manners):
    """The body of `POST /tts`, as JSON or as a form.

    Parameters:
        text: what to say; its length is judged by the service.
        reference_url: a recording of the voice, in place of `voice`.
        reference_text: what is said in the recording.
        format: of the audio.
        streaming: it is sent as it is made; otherwise when it is whole.
    """

    text: str
    reference_url: Annotated[str, Field(min_length=1, max_length=2000)] | None = None
    reference_text: Annotated[str, Field(max_length=TEXT_LENGTH)] = ""
    format: Format = "wav"
    streaming: Annotated[bool, BeforeValidator(_flag)] = True

    @property
    def output(self) -> Format:
        """See Manners."""
        return self.format


class RegisterRequest(Fields):
    """The body of `POST /register-voice`, as JSON or as a form.

    Parameters:
        name: of the voice from now on.
        text: what is said in the recording.
        file: a file of the service's folder of references; None: the form has the recording.
        consent: who agreed to it.
        language: of the text; None: by the text itself.
    """

    name: Annotated[str, Field(pattern=VOICE_ID)]
    text: Annotated[str, Field(min_length=1, max_length=TEXT_LENGTH)]
    file: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    consent: Annotated[str, Field(max_length=CONSENT_LENGTH)] = ""
    language: Language | None = None


def check_language(wanted: Language | None, known: Sequence[Language]) -> None:
    """Raises ApiError if the engine does not speak it."""
    if wanted is not None and wanted not in known:
        failure = BadRequest(f"This engine speaks {', '.join(known)} and not {wanted}")
        raise ApiError(failure, 400, param="language", code="unsupported_language")
