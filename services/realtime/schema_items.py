# pyright: strict
"""Items of the conversation as clients write them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from services.items import FunctionCall, FunctionOutput, Message
from services.realtime.schema import (
    MAX_LIST,
    FunctionName,
    Id,
    Role,
    Text,
    WireModel,
    unsupported_types,
)

#: content that a cascade of recogniser, language model and voice has no place for
_NO_TEXT = ("input_audio", "input_image", "output_audio", "audio", "item_reference")


class TextPart(WireModel):
    """A piece of a message's text; the fields of other kinds of content may be there, and empty."""

    type: Literal["input_text", "output_text", "text"]
    text: Text
    audio: None = None
    transcript: None = None
    image_url: None = None
    detail: Literal["auto", "low", "high"] | None = None


class _Item(WireModel):
    id: Id | None = None
    object: Literal["realtime.item"] | None = None
    status: Literal["completed", "incomplete", "in_progress"] | None = None


class MessageItem(_Item):
    """A message."""

    type: Literal["message"]
    role: Role
    content: Annotated[
        list[Annotated[TextPart, unsupported_types(*_NO_TEXT)]],
        Field(min_length=1, max_length=MAX_LIST, fail_fast=True),
    ]

    @property
    def text(self) -> str:
        """The text of all its parts."""
        return "".join(part.text for part in self.content)

    def context(self, *, call_id: str) -> Message:
        """For the conversation."""
        return Message(role=self.role, text=self.text)


class CallItem(_Item):
    """A function call that the client says was made."""

    type: Literal["function_call"]
    name: FunctionName
    arguments: Text
    call_id: Id | None = None

    def context(self, *, call_id: str) -> FunctionCall:
        """For the conversation; `call_id` is taken where the client gave none."""
        return FunctionCall(
            call_id=self.call_id or call_id, name=self.name, arguments=self.arguments
        )


class CallOutputItem(_Item):
    """What a function gave back."""

    type: Literal["function_call_output"]
    call_id: Id
    output: Text

    def context(self, *, call_id: str) -> FunctionOutput:
        """For the conversation."""
        return FunctionOutput(call_id=self.call_id, output=self.output)


class ItemReference(WireModel):
    """An item of the conversation by its id."""

    type: Literal["item_reference"]
    id: Id


NewItem = Annotated[
    MessageItem | CallItem | CallOutputItem,
    Field(discriminator="type"),
    unsupported_types("item_reference", prefix="mcp_"),
]
InputItem = Annotated[
    MessageItem | CallItem | CallOutputItem | ItemReference,
    Field(discriminator="type"),
    unsupported_types(prefix="mcp_"),
]
