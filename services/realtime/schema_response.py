# pyright: strict
"""What a `response.create` may hold."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from services.realtime.schema import MAX_LIST, MaxTokens, Modalities, Text, Voice, WireModel
from services.realtime.schema_items import InputItem
from services.realtime.schema_session import Format
from services.realtime.tools import Choice, Tools


class SpeechOptions(WireModel):
    """How one answer sounds."""

    format: Format | None = None
    voice: Voice | None = None


class ResponseAudio(WireModel):
    """Audio of one answer."""

    output: SpeechOptions | None = None


class ResponseOptions(WireModel):
    """Options of one answer; what is absent or null is as in the session.

    Parameters:
        conversation: "none": the conversation does not get to know of it.
        input: answer from these instead of the conversation's items.
        metadata: shown back.
        parallel_tool_calls, reasoning: no effect.
    """

    instructions: Text | None = None
    conversation: Literal["auto", "none"] | None = None
    output_modalities: Modalities | None = None
    audio: ResponseAudio | None = None
    input: Annotated[list[InputItem], Field(max_length=MAX_LIST, fail_fast=True)] | None = None
    max_output_tokens: MaxTokens | None = None
    metadata: (
        Annotated[
            dict[
                Annotated[str, Field(max_length=64)],
                Annotated[str, Field(max_length=512)],
            ],
            Field(max_length=16),
        ]
        | None
    ) = None
    tools: Tools | None = None
    tool_choice: Choice | None = None
    prompt: None = None
    parallel_tool_calls: bool | None = None
    reasoning: dict[str, Any] | None = None
