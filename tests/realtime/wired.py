"""A protocol core whose events are checked against the original's types, and kept."""

from __future__ import annotations

import json
from typing import Any

from services.face import AnswerOptions, Ending, SessionOptions
from services.realtime.actions import Refuse, Respond, Send, Update
from services.realtime.protocol import RealtimeCore
from services.realtime.session import Session
from tests.realtime.fakes import check

#: 20 ms of an answer
FRAME = bytes(960)


def user(text: str, **fields: Any) -> dict[str, Any]:
    """A message item of the user's."""
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content, **fields}


def function(name: str = "weather") -> dict[str, Any]:
    """A tool."""
    return {"type": "function", "name": name, "description": "d", "parameters": {"type": "object"}}


class Wired:
    def __init__(self, **session: Any) -> None:
        self.core = RealtimeCore(
            session=Session(id="sess", default_voice="xiaobei", **session),
            seed="seed",
            boot_id="boot",
        )
        self.events: list[dict[str, Any]] = []
        self.ids: set[str] = set()

    def sent(self, texts: list[str]) -> list[dict[str, Any]]:
        events = [check(json.loads(text)) for text in texts]
        for event in events:
            assert event["event_id"] not in self.ids
            self.ids.add(event["event_id"])
        self.events += events
        return events

    def receive(self, kind: str, **fields: Any) -> list[Any]:
        """The actions other than messages; the conversation accepts requests for answers."""
        others = []
        for action in self.core.receive(json.dumps({"type": kind, **fields})):
            if isinstance(action, Send | Refuse):
                self.sent([action.text])
            else:
                others.append(action)
            if isinstance(action, Respond):
                self.core.asked(action)
        return others

    def update(self, **session: Any) -> SessionOptions:
        session.setdefault("type", "realtime")
        (action,) = self.receive("session.update", session=session)
        assert isinstance(action, Update)
        self.sent(self.core.updated(action))
        return action.options

    def ask(self, **response: Any) -> AnswerOptions:
        """The options of a request that is accepted."""
        (action,) = self.receive("response.create", response=response)
        assert isinstance(action, Respond)
        return action.options

    def add(self, item: dict[str, Any], **fields: Any) -> list[Any]:
        return self.receive("conversation.item.create", item=item, **fields)

    def refused(self, kind: str, **fields: Any) -> tuple[str, str | None]:
        """Code and field of the error that an event is answered with."""
        assert self.receive(kind, **fields) == []
        error = self.events[-1]["error"]
        return error["code"], error["param"]

    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    def last(self, kind: str) -> dict[str, Any]:
        return next(event for event in reversed(self.events) if event["type"] == kind)

    def turn(self, text: str = "你好", start: int = 100, end: int = 1100, number: int = 1) -> str:
        """A spoken turn; returns the id of its item."""
        self.sent(self.core.turn_opened(at_ms=start))
        self.sent(self.core.turn_ended(at_ms=end))
        self.sent(self.core.final(text, "zh", turn=number if text else 0))
        return self.last("input_audio_buffer.committed")["item_id"]

    def speak(
        self, revision: int, text: str = "很好。", frames: int = 2, ask: int | None = None
    ) -> None:
        self.sent(self.core.begin(revision, ask))
        self.sent(self.core.text(revision, text))
        for _ in range(frames):
            self.sent(self.core.audio(revision, FRAME))

    def end(self, revision: int, outcome: Any = "answered", heard: str = "", **fields: Any) -> None:
        self.sent(self.core.end(revision, Ending(outcome=outcome, heard=heard, **fields)))

    def answer(self, revision: int, text: str = "很好。") -> str:
        """A whole answer; returns the id of its item."""
        self.speak(revision, text)
        self.end(revision, heard=text)
        return self.last("response.output_item.done")["item"]["id"]
