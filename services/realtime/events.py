# pyright: strict
"""Client events of the OpenAI Realtime protocol (GA names), and how bad ones are refused.

Every event type of the protocol is known here. Those that have no meaning here are refused by name,
so that a client learns why instead of waiting for an answer: docs/realtime.md has the table.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from services.realtime.schema import Id, Name, Refused, WireModel, not_supported, refusal
from services.realtime.schema_items import NewItem
from services.realtime.schema_response import ResponseOptions
from services.realtime.schema_session import SessionPatch


class _Event(WireModel):
    event_id: Name | None = None


class SessionUpdate(_Event):
    """Changes the session."""

    type: Literal["session.update"]
    session: SessionPatch


class AudioAppend(_Event):
    """Microphone audio: base64 of the session's input format."""

    type: Literal["input_audio_buffer.append"]
    audio: str


class AudioCommit(_Event):
    """The user's turn is over."""

    type: Literal["input_audio_buffer.commit"]


class AudioClear(_Event):
    """Forgets the audio of the open turn."""

    type: Literal["input_audio_buffer.clear"]


class ItemCreate(_Event):
    """Adds an item, without an answer.

    Parameters:
        previous_item_id: it follows this one; "root": it comes first; None: it comes last.
    """

    type: Literal["conversation.item.create"]
    item: NewItem
    previous_item_id: Id | None = None


class ItemDelete(_Event):
    """Takes an item out of the conversation."""

    type: Literal["conversation.item.delete"]
    item_id: Name


class ItemRetrieve(_Event):
    """Asks for an item as it is now."""

    type: Literal["conversation.item.retrieve"]
    item_id: Name


class ItemTruncate(_Event):
    """The client's report of how much of an answer was played, milliseconds."""

    type: Literal["conversation.item.truncate"]
    item_id: Name
    content_index: Literal[0]
    audio_end_ms: Annotated[int, Field(ge=0)]


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
    | ItemDelete
    | ItemRetrieve
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
    "conversation.item.delete": ItemDelete,
    "conversation.item.retrieve": ItemRetrieve,
    "conversation.item.truncate": ItemTruncate,
    "response.create": ResponseCreate,
    "response.cancel": ResponseCancel,
}
#: event types of the protocol that are refused by name, and what to do instead
_NOT_HERE = {
    "output_audio_buffer.clear": "The server keeps no audio back over a WebSocket: drop what you "
    "have buffered, and send response.cancel or conversation.item.truncate",
}


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
    if kind in _NOT_HERE:
        raise not_supported(f"Event type '{kind}'", param="type", mend=_NOT_HERE[kind])
    model = _MODELS.get(kind)
    if model is None:
        raise Refused(f"Unknown event type '{kind[:100]}'", reason="invalid_value", param="type")
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise refusal(error) from None
