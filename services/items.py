# pyright: strict
"""What a conversation's context is made of, and how its items are named.

The conversation names what it makes itself, the user's turns, answers and function calls; a face
names what its client adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What somebody said or wrote."""

    role: Literal["user", "assistant", "system"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """The language model asks for a function.

    Parameters:
        call_id: unique in its conversation.
        arguments: JSON text as the model wrote it, which may be anything.
    """

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOutput:
    """What a function gave back, as text."""

    call_id: str
    output: str


ContextItem = Message | FunctionCall | FunctionOutput

#: `services.face.Conversation.add(after=ROOT)`: before everything else
ROOT = "root"


def turn_ref(turn: int) -> str:
    """Names the user's spoken turn in the context; `turn` as `services.face.Sink.final` told it."""
    return f"turn-{turn}"


def answer_ref(revision: int) -> str:
    """Names an answer in the context; its text, not its function calls."""
    return f"answer-{revision}"


def call_ref(call_id: str) -> str:
    """Names a function call that an answer made."""
    return f"call-{call_id}"


def item_ref(item_id: str) -> str:
    """Names an item that a client added."""
    return f"item-{item_id}"
