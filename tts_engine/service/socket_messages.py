# pyright: strict
"""What is said on `WS /ws/tts`, beside the audio.

client                                          server
speak   a whole text                            started    an utterance is next; audio follows
start   a text that comes in pieces             clause     what the following audio says
text    a piece of it                           end        it was spoken
end     it is whole                             cancelled  it was not, as was asked
cancel  one utterance, or all                   error      it failed, or a message was wrong
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from tts_engine.errors import BadRequest
from tts_engine.service.api_errors import ApiError
from tts_engine.service.bodies import json_object, parse_fields
from tts_engine.service.requests import Fields, Manners

_Name = Annotated[str, Field(min_length=1, max_length=64)]


class Start(Manners):
    """A text begins; its pieces follow.

    Parameters:
        id: what the client calls the utterance; None: the service finds a name.
    """

    type: Literal["start"]
    id: _Name | None = None


class Speak(Manners):
    """A whole text; otherwise as `Start`."""

    type: Literal["speak"]
    text: str
    id: _Name | None = None


class Text(Fields):
    """The next piece of the text that has begun."""

    type: Literal["text"]
    text: str


class End(Fields):
    """The text that has begun is whole."""

    type: Literal["end"]


class Cancel(Fields):
    """An utterance is no longer wanted.

    Parameters:
        id: which; None: all that have not ended.
    """

    type: Literal["cancel"]
    id: _Name | None = None


ClientMessage = Start | Speak | Text | End | Cancel
_MESSAGES: dict[str, type[ClientMessage]] = {
    "start": Start,
    "speak": Speak,
    "text": Text,
    "end": End,
    "cancel": Cancel,
}


def read_message(text: str) -> ClientMessage:
    """Reads what a client sent.

    Raises:
        ApiError: it is none of the messages.
    """
    raw = json_object(text, "message")
    kind = raw.get("type")
    model = _MESSAGES.get(kind) if isinstance(kind, str) else None
    if model is None:
        failure = BadRequest(f"The message's 'type' is none of {', '.join(_MESSAGES)}")
        raise ApiError(failure, 400, param="type", code="unknown_message")
    return parse_fields(raw, model)


def event(kind: str, **fields: Any) -> str:
    """A message to the client."""
    return json.dumps({"type": kind, **fields}, ensure_ascii=True)


def error_event(error: ApiError, utterance: str | None) -> str:
    """Tells what went wrong with an utterance, or with a message."""
    return event("error", id=utterance, **error.body)
