# pyright: strict
"""How a client of the bench and a server understand each other: messages in, news out.

Every server that is measured has a wire, so that one client with one clock measures them all.
"""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

#: samples per second of the microphone. No server resamples it on its way to the recogniser
MICROPHONE_RATE = 16_000

Kind = Literal[
    "ready",  # the conversation may begin
    "opened",  # the user's turn opened
    "turn",  # the user's turn was committed; `text` is what was understood
    "answer",  # an answer to it begins
    "audio",  # `samples` of the answer
    "text",  # a piece of the answer's text
    "flush",  # the client drops what it has not played
    "paused",  # the client falls silent, and keeps what it has
    "resumed",  # and goes on
    "done",  # all of the answer was sent; `text` is its status
    "report",  # the server's own account of the turn
    "error",  # `text` says what is wrong
    "other",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class News:
    """What a message says.

    Parameters:
        at: monotonic seconds of its arrival.
        kind: what it is about.
        answer: names the answer that it is about; empty for none.
        text: see Kind.
        samples: mono int16 at `pipeline.talk.stereo.RATE`.
        event: the message as it came; empty for binary ones.
    """

    at: float
    kind: Kind
    answer: str = ""
    text: str = ""
    samples: NDArray[np.int16] | None = None
    event: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Wire(ABC):
    """One conversation's side of a protocol; it may keep state."""

    @abstractmethod
    def opening(self) -> list[str]:
        """What is sent first. The server answers with news of the kind "ready"."""

    @abstractmethod
    def frame(self, pcm: bytes) -> str | bytes:
        """A frame of the microphone: int16 at MICROPHONE_RATE."""

    @abstractmethod
    def read(self, message: str | bytes, at: float) -> News:
        """Understands a message that arrived at `at`.

        Raises:
            LookupError, TypeError, ValueError, AttributeError: it is of another protocol.
        """


_KINDS: dict[str, Kind] = {
    "session.updated": "ready",
    "input_audio_buffer.speech_started": "opened",
    "conversation.item.input_audio_transcription.completed": "turn",
    "response.created": "answer",
    "response.output_audio.delta": "audio",
    "response.output_audio_transcript.delta": "text",
    "duplexd.playback.paused": "paused",
    "duplexd.playback.resumed": "resumed",
    "response.done": "done",
    "duplexd.turn": "report",
    "error": "error",
}


class RealtimeWire(Wire):
    """The Realtime protocol, as duplexd speaks it.

    Parameters:
        pauses: tell the daemon that the client stops at `duplexd.playback.paused`.
        echo_cancelled: tell it that the microphone does not hear the loudspeaker.
        session: further fields of `session.update`.
    """

    def __init__(
        self,
        *,
        pauses: bool = True,
        echo_cancelled: bool = True,
        session: Mapping[str, Any] | None = None,
    ) -> None:
        self._traits = {"pauses": pauses, "echo_cancelled": echo_cancelled}
        self._session = dict(session or {})

    def opening(self) -> list[str]:
        """See Wire."""
        session = {
            "type": "realtime",
            "audio": {"input": {"format": {"type": "audio/pcm", "rate": MICROPHONE_RATE}}},
            "duplexd": self._traits,
            **self._session,
        }
        return [json.dumps({"type": "session.update", "session": session})]

    def frame(self, pcm: bytes) -> str:
        """See Wire."""
        audio = base64.b64encode(pcm).decode()
        return f'{{"type":"input_audio_buffer.append","audio":"{audio}"}}'

    def read(self, message: str | bytes, at: float) -> News:
        """See Wire."""
        event: dict[str, Any] = json.loads(message)
        kind = _KINDS.get(event["type"], "other")
        answer: str = event.get("response_id") or ""
        text, samples = "", None
        match kind:
            case "audio":
                samples = np.frombuffer(base64.b64decode(event["delta"]), np.int16)
            case "turn":
                text = event["transcript"]
            case "text":
                text = event["delta"]
            case "answer" | "done":
                answer, text = event["response"]["id"], event["response"]["status"]
            case "error":
                text = event["error"].get("message") or "it did not say why"
            case _:
                pass
        return News(at=at, kind=kind, answer=answer, text=text, samples=samples, event=event)
