"""Client events of the OpenAI Realtime protocol (GA names): models, and how bad ones are refused.

Every event type of the protocol is known here. Those that are not implemented are refused by name,
so that a client learns what is missing instead of waiting for an answer.

Unknown keys are refused, as the original does. An option whose absence changes what the
conversation does (tools, a prompt template, another audio format) is refused as well; one that only
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

from tts_engine.errors import BadRequest

#: longest id that a client may choose, and longest name of anything
MAX_ID = 512
#: longest text that a client may write, characters
MAX_TEXT = 64 * 1024
#: most elements of a list
MAX_LIST = 256

Modality = Literal["audio", "text"]
Role = Literal["user", "assistant", "system"]
Name = Annotated[str, Field(max_length=MAX_ID)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]


class Refused(BadRequest):
    """A client event that is not accepted.

    Parameters:
        reason: the protocol's error code.
        param: the field at fault, as a path from the event.
    """

    def __init__(self, message: str, *, reason: str, param: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.param = param


class _Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _one_stranger(cls, value: Any) -> Any:
        """Keeps one unknown key: pydantic describes every fault, and only the first is told."""
        known = cls.model_fields
        if not isinstance(value, dict) or len(cast("dict[str, Any]", value)) <= len(known):
            return value
        fields = cast("dict[str, Any]", value)
        stranger = next(key for key in fields if key not in known)
        return {key: fields[key] for key in (*known, stranger) if key in fields}


class PcmFormat(_Wire):
    """Mono signed 16-bit little-endian samples at 24 kHz, the only format so far."""

    type: Literal["audio/pcm"]
    rate: Literal[24000] = 24000


class ServerVad(_Wire):
    """Turns are detected by the daemon.

    Parameters:
        silence_duration_ms: silence that ends a turn, milliseconds; None: the daemon's default.
        create_response: answer when a turn ends.
        interrupt_response: speech during an answer interrupts it.
        threshold, prefix_padding_ms: no effect, the daemon has its own detector and pre-roll.
        idle_timeout_ms: not supported yet.
    """

    type: Literal["server_vad"]
    silence_duration_ms: Annotated[int, Field(ge=0, le=10_000)] | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    prefix_padding_ms: Annotated[int, Field(ge=0)] | None = None
    idle_timeout_ms: None = None


class AudioInput(_Wire):
    """Microphone options; turn_detection null means that the client commits turns itself."""

    format: PcmFormat | None = None
    turn_detection: ServerVad | None = None
    noise_reduction: dict[str, Any] | None = None
    transcription: dict[str, Any] | None = None


def _voice_name(value: Any) -> Any:
    """A voice may be written as its name or as {"id": name}."""
    if isinstance(value, dict) and set(cast("dict[str, Any]", value)) == {"id"}:
        return cast("dict[str, Any]", value)["id"]
    return value


class AudioOutput(_Wire):
    """Speech options; speed is a multiple of the voice's own pace."""

    format: PcmFormat | None = None
    voice: Annotated[Name | None, BeforeValidator(_voice_name)] = None
    speed: Annotated[float, Field(ge=0.5, le=2.0)] | None = None


class AudioConfig(_Wire):
    """Both directions of audio."""

    input: AudioInput | None = None
    output: AudioOutput | None = None


Modalities = Annotated[list[Modality], Field(min_length=1, max_length=1, fail_fast=True)]
Anything = Annotated[list[Any], Field(max_length=MAX_LIST)]
Names = Annotated[list[Name], Field(max_length=MAX_LIST, fail_fast=True)]


def _token_limit(value: Any) -> Any:
    # a union would name its branches in the path of the field at fault
    if value == "inf" or (type(value) is int and 1 <= value <= 4096):
        return value
    raise PydanticCustomError("token_limit", "an integer from 1 to 4096, or 'inf'")


MaxTokens = Annotated[Any, AfterValidator(_token_limit)]


class SessionPatch(_Wire):
    """What a session.update changes; fields that are absent or null stay as they are."""

    type: Literal["realtime"]
    audio: AudioConfig | None = None
    instructions: Text | None = None
    output_modalities: Modalities | None = None
    max_output_tokens: MaxTokens | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    tools: Anything | None = None
    tool_choice: Any = None
    prompt: None = None
    model: Name | None = None
    include: Names | None = None
    parallel_tool_calls: bool | None = None
    reasoning: dict[str, Any] | None = None
    tracing: Any = None
    truncation: Any = None


class _Event(_Wire):
    event_id: Name | None = None


class SessionUpdate(_Event):
    """Changes the session."""

    type: Literal["session.update"]
    session: SessionPatch


class AudioAppend(_Event):
    """Microphone audio: base64 of PcmFormat."""

    type: Literal["input_audio_buffer.append"]
    audio: str


class AudioCommit(_Event):
    """The user's turn is over."""

    type: Literal["input_audio_buffer.commit"]


class AudioClear(_Event):
    """Forgets the audio of the open turn."""

    type: Literal["input_audio_buffer.clear"]


class TextPart(_Wire):
    """A piece of a message's text."""

    type: Literal["input_text", "output_text", "text"]
    text: Text


class MessageItem(_Wire):
    """A message that the client adds to the conversation."""

    type: Literal["message"]
    role: Role
    content: Annotated[list[TextPart], Field(min_length=1, max_length=MAX_LIST, fail_fast=True)]
    id: str | None = Field(default=None, min_length=1, max_length=MAX_ID)
    object: Literal["realtime.item"] | None = None
    status: Literal["completed", "incomplete", "in_progress"] | None = None

    @property
    def text(self) -> str:
        """The text of all its parts."""
        return "".join(part.text for part in self.content)


class ItemCreate(_Event):
    """Adds a message, without an answer."""

    type: Literal["conversation.item.create"]
    item: MessageItem
    previous_item_id: Name | None = None


class ItemTruncate(_Event):
    """The client's report of how much of an answer was played, milliseconds."""

    type: Literal["conversation.item.truncate"]
    item_id: Name
    content_index: Literal[0]
    audio_end_ms: Annotated[int, Field(ge=0)]


class ResponseOptions(_Wire):
    """Options of one answer. Only `instructions` has an effect."""

    instructions: Text | None = None
    conversation: Literal["auto"] | None = None
    output_modalities: Modalities | None = None
    audio: None = None
    input: None = None
    max_output_tokens: None = None
    metadata: None = None
    parallel_tool_calls: bool | None = None
    prompt: None = None
    reasoning: None = None
    tool_choice: Any = None
    tools: Anything | None = None


class ResponseCreate(_Event):
    """Answer now."""

    type: Literal["response.create"]
    response: ResponseOptions | None = None


class ResponseCancel(_Event):
    """Stop the answer."""

    type: Literal["response.cancel"]
    response_id: Name | None = None


ClientEvent = (
    SessionUpdate
    | AudioAppend
    | AudioCommit
    | AudioClear
    | ItemCreate
    | ItemTruncate
    | ResponseCreate
    | ResponseCancel
)

_MODELS: dict[str, type[ClientEvent]] = {
    "session.update": SessionUpdate,
    "input_audio_buffer.append": AudioAppend,
    "input_audio_buffer.commit": AudioCommit,
    "input_audio_buffer.clear": AudioClear,
    "conversation.item.create": ItemCreate,
    "conversation.item.truncate": ItemTruncate,
    "response.create": ResponseCreate,
    "response.cancel": ResponseCancel,
}
#: event types of the protocol that are refused by name
NOT_SUPPORTED = frozenset(
    {"conversation.item.delete", "conversation.item.retrieve", "output_audio_buffer.clear"}
)


def not_supported(what: str, *, param: str) -> Refused:
    """The refusal of a part of the protocol that is known and not implemented."""
    return Refused(f"{what} is not supported yet", reason="not_supported", param=param)


def validate(raw: dict[str, Any]) -> ClientEvent:
    """Checks a decoded message against the model of its type.

    Raises:
        Refused: the type is missing, unknown or not supported, or a field is wrong.
    """
    kind = raw.get("type")
    if not isinstance(kind, str):
        raise Refused(
            "Missing required parameter: 'type'", reason="missing_required_parameter", param="type"
        )
    if kind in NOT_SUPPORTED:
        raise not_supported(f"Event type '{kind}'", param="type")
    model = _MODELS.get(kind)
    if model is None:
        raise Refused(f"Unknown event type '{kind[:100]}'", reason="invalid_value", param="type")
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise _refusal(error) from None


def _refusal(error: ValidationError) -> Refused:
    """The first fault that pydantic found, in the protocol's words."""
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    param = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"]
    ).lstrip(".")
    if fault["type"] == "missing":
        return Refused(
            f"Missing required parameter: '{param}'",
            reason="missing_required_parameter",
            param=param,
        )
    if fault["type"] == "extra_forbidden":
        return Refused(
            f"Unknown parameter: '{param[:200]}'", reason="unknown_parameter", param=param[:200]
        )
    if fault["type"] == "none_required":
        return not_supported(f"'{param}'", param=param)
    reason = "invalid_type" if fault["type"].endswith("_type") else "invalid_value"
    return Refused(f"Invalid value for '{param}': {fault['msg']}", reason=reason, param=param)
