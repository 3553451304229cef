# pyright: strict
"""What the core wants done after a message from the client, in order."""

from __future__ import annotations

from dataclasses import dataclass

from services.face import SessionOptions
from services.realtime.events import Role
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
    """Feed microphone audio: int16 mono at 24 kHz."""

    pcm: bytes


@dataclass(frozen=True, slots=True)
class Commit:
    """Conversation.commit."""


@dataclass(frozen=True, slots=True)
class Clear:
    """Conversation.clear."""


@dataclass(frozen=True, slots=True)
class AddText:
    """Conversation.add_text."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Respond:
    """Conversation.respond."""

    instructions: str | None


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


Action = Send | Refuse | Hear | Commit | Clear | AddText | Respond | Cancel | HeardUntil | Update
