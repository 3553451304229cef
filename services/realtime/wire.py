# pyright: strict
"""Server events as JSON text: ids, and the two shapes that every part of the core writes."""

from __future__ import annotations

import json
from typing import Any

from services.realtime.schema import Refused
from tts_engine.errors import BadAudio, DuplexdError, UnknownVoice

_encode = json.JSONEncoder(separators=(",", ":")).encode


class Wire:
    """Writes events of one session, each with an id of its own.

    Parameters:
        seed: what makes the ids of this session differ from those of every other.
    """

    def __init__(self, *, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def new_id(self, kind: str) -> str:
        """An id like `item_<seed>_1`, never given twice."""
        self._count += 1
        return f"{kind}_{self._seed}_{self._count}"

    def owns(self, given: str) -> bool:
        """An id that a client chose looks like one of ours, given or yet to be given."""
        return f"_{self._seed}_" in given

    def event(self, kind: str, **fields: Any) -> str:
        """One event as the client gets it."""
        return _encode({"type": kind, "event_id": self.new_id("event"), **fields})

    def failure(self, error: DuplexdError) -> str:
        """An `error` event about something that the daemon could not do."""
        return self._error("server_error", error, error.code, None, None)

    def refusal(self, error: DuplexdError, *, event_id: str | None, within: str = "") -> str:
        """An `error` event about something that the client sent.

        Args:
            event_id: the id that the client gave the event at fault.
            within: the field of it that the conversation refused, "session" or "response".
        """
        code, param = error.code, within or None
        if isinstance(error, Refused):
            code, param = error.reason, error.param
        elif isinstance(error, BadAudio):
            param = "audio"
        elif isinstance(error, UnknownVoice) and within:
            param = f"{within}.audio.output.voice"
        return self._error("invalid_request_error", error, code, param, event_id)

    def _error(
        self, kind: str, error: DuplexdError, code: str, param: str | None, event_id: str | None
    ) -> str:
        details = {
            "type": kind,
            "code": code,
            "message": str(error),
            "param": param,
            "event_id": event_id,
        }
        return self.event("error", error=details)
