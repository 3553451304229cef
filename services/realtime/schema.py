# pyright: strict
"""What all models of client events share: strictness, limits, and how a field is refused.

Unknown keys are refused, as the original does. An option whose absence changes what the
conversation does (a prompt template, tools of an MCP server) is refused as well; one that only
tunes a part that works differently here (a VAD threshold, noise reduction, the transcription model,
tracing) is accepted, has no effect, and is not shown in the effective session.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from services.voices import voice_name
from tts_engine.errors import BadRequest

#: longest id that a client may choose, and longest name of anything
MAX_ID = 512
#: longest text that a client may write, characters
MAX_TEXT = 64 * 1024
#: most elements of a list
MAX_LIST = 256
#: most tokens of an answer that a client may ask for
MAX_TOKENS = 4096

Modality = Literal["audio", "text"]
Role = Literal["user", "assistant", "system"]
Name = Annotated[str, Field(max_length=MAX_ID)]
Id = Annotated[str, Field(min_length=1, max_length=MAX_ID)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
#: as OpenAI's chat API takes it: servers refuse a whole conversation for another one
FunctionName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
Modalities = Annotated[list[Modality], Field(min_length=1, max_length=1, fail_fast=True)]


class Refused(BadRequest):
    """A client event that is not accepted.

    Parameters:
        reason: the protocol's error code.
        param: the field at fault, as a path from the event.
    """

    def __init__(
        self, message: str, *, reason: str, param: str | None = None, mend: str = ""
    ) -> None:
        super().__init__(message, mend=mend)
        self.reason = reason
        self.param = param


def as_object(value: Any) -> dict[str, Any] | None:
    """A JSON object; None: it is another value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


class WireModel(BaseModel):
    """Base of all of them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _one_stranger(cls, value: Any) -> Any:
        """Keeps one unknown key: pydantic describes every fault, and only the first is told."""
        known = cls.model_fields
        fields = as_object(value)
        if fields is None or len(fields) <= len(known):
            return value
        stranger = next(key for key in fields if key not in known)
        return {key: fields[key] for key in (*known, stranger) if key in fields}


def not_supported(what: str, *, param: str, mend: str = "") -> Refused:
    """The refusal of a part of the protocol that is known and not there."""
    return Refused(f"{what} is not supported", reason="not_supported", param=param, mend=mend)


def unsupported_types(*refused: str, prefix: str | None = None) -> BeforeValidator:
    """Refuses objects by their `type`, in words, before a union would call it unknown."""

    def check(value: Any) -> Any:
        fields = as_object(value)
        kind = fields.get("type") if fields is not None else None
        if isinstance(kind, str) and (kind in refused or (prefix and kind.startswith(prefix))):
            context = {"kind": kind[:100], "mend": _OTHER_WAYS.get(kind, "")}
            raise PydanticCustomError(_NOT_SUPPORTED, "type '{kind}'", context)
        return value

    return BeforeValidator(check)


def _token_limit(value: Any) -> Any:
    # a union would name its branches in the path of the field at fault
    if value == "inf" or (type(value) is int and 1 <= value <= MAX_TOKENS):
        return value
    raise PydanticCustomError(
        "token_limit", "an integer from 1 to {most}, or 'inf'", {"most": MAX_TOKENS}
    )


MaxTokens = Annotated[Any, AfterValidator(_token_limit)]


def token_limit(given: Any) -> int | None:
    """A valid `MaxTokens` as a number; None: no limit was given, or "inf"."""
    return None if given == "inf" else given


Voice = Annotated[Name, BeforeValidator(voice_name)]

_NOT_SUPPORTED = "part_not_supported"
#: what to do instead of sending a kind of object that is not supported
_SPEAK = "Send audio by input_audio_buffer.append, and commit it if there is no turn detection"
_OTHER_WAYS = {"input_audio": _SPEAK, "audio": _SPEAK}
#: fields of the protocol's beta, and where they are now
_MOVED = {
    "session.input_audio_format": "session.audio.input.format",
    "session.input_audio_noise_reduction": "session.audio.input.noise_reduction",
    "session.input_audio_transcription": "session.audio.input.transcription",
    "session.max_response_output_tokens": "session.max_output_tokens",
    "session.modalities": "session.output_modalities",
    "session.output_audio_format": "session.audio.output.format",
    "session.speed": "session.audio.output.speed",
    "session.turn_detection": "session.audio.input.turn_detection",
    "session.voice": "session.audio.output.voice",
    "response.max_response_output_tokens": "response.max_output_tokens",
    "response.modalities": "response.output_modalities",
    "response.output_audio_format": "response.audio.output.format",
    "response.voice": "response.audio.output.voice",
}
#: values of `type` that pydantic puts into the path of a field at fault; no field is called so, but
#: for those of a session, which come second
_TAGS = frozenset(
    {
        "audio/pcm",
        "audio/pcma",
        "audio/pcmu",
        "function",
        "function_call",
        "function_call_output",
        "item_reference",
        "message",
        "semantic_vad",
        "server_vad",
    }
)
_SESSION_TAGS = ("realtime", "transcription")


def refusal(error: ValidationError) -> Refused:
    """The first fault that pydantic found, in the protocol's words."""
    fault = error.errors(include_url=False, include_input=False)[0]
    kind, message = fault["type"], fault["msg"]
    path = _untagged(fault["loc"])
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        path.append("type")
    param = _dotted(path)
    if kind in ("missing", "union_tag_not_found"):
        return Refused(
            f"Missing required parameter: '{param}'",
            reason="missing_required_parameter",
            param=param,
        )
    if kind == "extra_forbidden":
        moved = _MOVED.get(param)
        return Refused(
            f"Unknown parameter: '{param[:200]}'",
            reason="unknown_parameter",
            param=param[:200],
            mend=f"It is '{moved}' now" if moved else "",
        )
    if kind == "none_required":
        return not_supported(f"'{param}'", param=param)
    if kind == _NOT_SUPPORTED:
        mend = fault.get("ctx", {}).get("mend", "")
        return not_supported(f"'{param}' of {message}", param=f"{param}.type", mend=mend)
    reason = "invalid_type" if kind.endswith("_type") else "invalid_value"
    return Refused(
        f"Invalid value for '{param}': {message[:300]}", reason=reason, param=param[:200]
    )


def _untagged(path: tuple[int | str, ...]) -> list[int | str]:
    """Without the tags of unions; the last part is never one."""
    return [
        part
        for place, part in enumerate(path)
        if place == len(path) - 1 or not (part in _TAGS or (place == 1 and part in _SESSION_TAGS))
    ]


def _dotted(path: list[int | str]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).lstrip(".")
