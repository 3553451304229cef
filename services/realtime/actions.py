# pyright: strict
"""What the core wants done after a message from the client, in order."""

from __future__ import annotations

from dataclasses import dataclass

from services.face import AnswerOptions, SessionOptions
from services.items import ContextItem
from services.realtime.formats import AudioFormat
from services.realtime.requests import Request
from services.realtime.session import Session
from tts_engine.errors import DuplexdError


@dataclass(frozen=True, slots=True)
class Send:
    """Send an event."""

    text: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Send an `error` event, and count the failure."""

    text: str
    error: DuplexdError


@dataclass(frozen=True, slots=True)
class Hear:
    """Feed microphone audio: whole samples of `format`."""

    data: bytes
    format: AudioFormat


@dataclass(frozen=True, slots=True)
class Commit:
    """Conversation.commit."""


@dataclass(frozen=True, slots=True)
class Clear:
    """Conversation.clear."""


@dataclass(frozen=True, slots=True)
class Add:
    """Conversation.add."""

    ref: str
    item: ContextItem
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    """Conversation.remove."""

    ref: str


@dataclass(frozen=True, slots=True)
class Respond:
    """Conversation.respond with `options`; then `RealtimeCore.asked` or `.not_asked`."""

    options: AnswerOptions
    request: Request
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """Conversation.cancel."""


@dataclass(frozen=True, slots=True)
class HeardUntil:
    """Conversation.heard_until."""

    revision: int
    audio_ms: int


@dataclass(frozen=True, slots=True)
class Update:
    """Conversation.update with `options`; then `RealtimeCore.updated` or `.not_updated`."""

    options: SessionOptions
    session: Session
    event_id: str | None


Action = (
    Send | Refuse | Hear | Commit | Clear | Add | Remove | Respond | Cancel | HeardUntil | Update
)
