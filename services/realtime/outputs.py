# pyright: strict
"""What an answer consists of: speech, or text in its place, and function calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from services.items import answer_ref, call_ref
from services.realtime.audio import encode_audio
from services.realtime.formats import MOUTH_RATE, AudioFormat, MouthFeed
from services.realtime.items import Item, Items, function_call, message
from services.realtime.wire import Wire

Status = Literal["in_progress", "completed", "incomplete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an output belongs.

    Parameters:
        index: place in the response's output.
        items: the conversation's; None: the response is out of band.
    """

    wire: Wire
    response_id: str
    index: int
    items: Items | None


class _Output:
    """One item of a response."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.item = Item(id=place.wire.new_id("item"), shown=None, done=False)
        self._previous: str | None = None

    @property
    def shown(self) -> dict[str, Any]:
        """The item as it is now."""
        assert self.item.shown is not None
        return self.item.shown

    def _where(self) -> dict[str, Any]:
        return {
            "response_id": self._place.response_id,
            "item_id": self.item.id,
            "output_index": self._place.index,
        }

    def _event(self, kind: str, **fields: Any) -> str:
        return self._place.wire.event(kind, **fields)

    def _appears(self, shown: dict[str, Any]) -> list[str]:
        self.item.shown = shown
        items = self._place.items
        if items is not None:
            self._previous = items.add(self.item)
        return self._told("added", shown)

    def _ends(self, shown: dict[str, Any]) -> list[str]:
        self.item.shown, self.item.done = shown, True
        if self._place.items is not None:
            self._place.items.keep(self.item)
        return self._told("done", shown)

    def _told(self, what: str, shown: dict[str, Any]) -> list[str]:
        """The item's state, as part of the response and of the conversation."""
        events = [
            self._event(
                f"response.output_item.{what}",
                response_id=self._place.response_id,
                output_index=self._place.index,
                item=shown,
            )
        ]
        if self._place.items is not None:
            previous = self._previous
            events.append(
                self._event(f"conversation.item.{what}", previous_item_id=previous, item=shown)
            )
        return events


@dataclass(slots=True, kw_only=True)
class Spoken:
    """An answer that was begun, for what is said of it later.

    Parameters:
        revision: as the conversation numbers it.
        item: its message; None while it has not spoken.
        samples: how much of its audio was handed to the client, at the mouth's rate.
        as_text: it is written, and not spoken.
    """

    revision: int
    response_id: str
    as_text: bool
    item: Item | None = None
    samples: int = 0

    @property
    def item_id(self) -> str | None:
        """Id of its message."""
        return self.item.id if self.item else None

    @property
    def sent_ms(self) -> int:
        """How much audio was sent, milliseconds, rounded up."""
        return -(-self.samples * 1000 // MOUTH_RATE)


class Speech(_Output):
    """The message of an answer: its text, and mostly its sound.

    Parameters:
        says: how it sounds on the wire.
    """

    def __init__(self, place: Place, *, spoken: Spoken, says: AudioFormat) -> None:
        super().__init__(place)
        self._spoken = spoken
        self._feed = MouthFeed(says)
        self._text: list[str] = []
        self.item.ref = answer_ref(spoken.revision) if place.items is not None else None
        spoken.item = self.item

    def begin(self) -> list[str]:
        """It appears."""
        return [
            *self._appears(self._message("in_progress")),
            self._event("response.content_part.added", **self._content(), part=self._part("")),
        ]

    def text(self, text: str) -> list[str]:
        """A piece of its text."""
        self._text.append(text)
        kind = "output_text" if self._spoken.as_text else "output_audio_transcript"
        return [self._event(f"response.{kind}.delta", **self._content(), delta=text)]

    def audio(self, pcm: bytes) -> list[str]:
        """A frame of its sound."""
        self._spoken.samples += len(pcm) // 2
        return self._sound(self._feed.push(pcm))

    def end(self, status: Status, *, heard: str) -> list[str]:
        """It is over.

        The `done` events of text carry what was sent, as their deltas did. The item carries what
        was heard: it is what the context holds.
        """
        sent = "".join(self._text)
        content = self._content()
        events: list[str] = []
        if self._spoken.as_text:
            events.append(self._event("response.output_text.done", **content, text=sent))
        else:
            if status == "completed":
                events += self._sound(self._feed.finish())
            events.append(self._event("response.output_audio.done", **content))
            events.append(
                self._event("response.output_audio_transcript.done", **content, transcript=sent)
            )
        events.append(self._event("response.content_part.done", **content, part=self._part(sent)))
        return [*events, *self._ends(self._message(status, heard))]

    def truncated(self, heard_ms: int) -> list[str]:
        """How much of it was heard, where that can be told."""
        if self._spoken.as_text or self._place.items is None:
            return []
        return [
            self._event(
                "conversation.item.truncated",
                item_id=self.item.id,
                content_index=0,
                audio_end_ms=heard_ms,
            )
        ]

    def _sound(self, data: bytes) -> list[str]:
        if not data:
            return []
        delta = encode_audio(data)
        return [self._event("response.output_audio.delta", **self._content(), delta=delta)]

    def _content(self) -> dict[str, Any]:
        return {**self._where(), "content_index": 0}

    def _part(self, text: str) -> dict[str, Any]:
        if self._spoken.as_text:
            return {"type": "text", "text": text}
        return {"type": "audio", "transcript": text}

    def _message(self, status: Status, text: str | None = None) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if text is not None:
            as_text = self._spoken.as_text
            kind, key = ("output_text", "text") if as_text else ("output_audio", "transcript")
            content.append({"type": kind, key: text})
        return message(item_id=self.item.id, role="assistant", content=content, status=status)


class Call(_Output):
    """A function call, told as the language model writes it."""

    def __init__(self, place: Place, *, call_id: str, name: str) -> None:
        super().__init__(place)
        self._call_id = call_id
        self._name = name
        self._written: list[str] = []

    @property
    def open(self) -> bool:
        """It is still being written."""
        return not self.item.done

    def begin(self) -> list[str]:
        """It appears."""
        return self._appears(self._call("in_progress", ""))

    def arguments(self, delta: str) -> list[str]:
        """A piece of its arguments."""
        self._written.append(delta)
        return [
            self._event(
                "response.function_call_arguments.delta",
                **self._where(),
                call_id=self._call_id,
                delta=delta,
            )
        ]

    def end(self, arguments: str) -> list[str]:
        """It is whole, and in the context."""
        if self._place.items is not None:
            self.item.ref = call_ref(self._call_id)
        return [
            self._event(
                "response.function_call_arguments.done",
                **self._where(),
                call_id=self._call_id,
                name=self._name,
                arguments=arguments,
            ),
            *self._ends(self._call("completed", arguments)),
        ]

    def void(self) -> list[str]:
        """It will never be whole. Its arguments are not told to be done: a client that acts on
        that would do half of something.
        """
        return self._ends(self._call("incomplete", "".join(self._written)))

    def _call(self, status: Status, arguments: str) -> dict[str, Any]:
        return function_call(
            item_id=self.item.id,
            call_id=self._call_id,
            name=self._name,
            arguments=arguments,
            status=status,
        )
