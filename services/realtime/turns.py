# pyright: strict
"""The user's side: a spoken turn as one user item, and the transcription of its audio."""

from __future__ import annotations

from dataclasses import dataclass

from services.realtime.items import Items, message
from services.realtime.wire import Wire
from tts_engine.errors import DuplexdError, EngineFailed


@dataclass(slots=True, kw_only=True)
class _Turn:
    """A turn being spoken, or waiting for its transcript.

    Parameters:
        announced: the client was told of its start, and not yet of its end.
        shown: what transcription deltas have said so far.
        partial: the last partial.
    """

    item_id: str
    start_ms: int
    announced: bool
    end_ms: int = 0
    shown: str = ""
    partial: str = ""


class UserTurns:
    """Writes the events of spoken turns. Each that ends gets one transcript or one failure."""

    def __init__(self, *, wire: Wire, items: Items) -> None:
        self._wire = wire
        self._items = items
        self._open: _Turn | None = None
        self._awaited: _Turn | None = None

    def opened(self, at_ms: int, *, announce: bool) -> list[str]:
        """See Sink.turn_opened.

        Args:
            announce: with turn detection by the client, the protocol has no event for it.
        """
        self._open = turn = _Turn(
            item_id=self._wire.new_id("item"), start_ms=at_ms, announced=announce
        )
        if not announce:
            return []
        return [
            self._wire.event(
                "input_audio_buffer.speech_started", audio_start_ms=at_ms, item_id=turn.item_id
            )
        ]

    def ended(self, at_ms: int) -> list[str]:
        """See Sink.turn_ended."""
        turn = self._open or _Turn(
            item_id=self._wire.new_id("item"), start_ms=at_ms, announced=False
        )
        lost = self.failed(EngineFailed("The turn was not transcribed"))
        self._open, self._awaited = None, turn
        turn.end_ms = at_ms
        event = self._wire.event
        previous = self._items.add(turn.item_id)
        item = message(
            item_id=turn.item_id,
            role="user",
            content=[{"type": "input_audio", "transcript": None}],
        )
        return [
            *lost,
            *self._stopped(turn, at_ms),
            event("input_audio_buffer.committed", previous_item_id=previous, item_id=turn.item_id),
            event("conversation.item.added", previous_item_id=previous, item=item),
            event("conversation.item.done", previous_item_id=previous, item=item),
        ]

    def silenced(self, at_ms: int) -> list[str]:
        """Nothing will tell of the end of the open turn: the client took detection over, or
        cleared the buffer. If it becomes an item after all, the item has the id that was announced.
        """
        return self._stopped(self._open, at_ms) if self._open else []

    def _stopped(self, turn: _Turn, at_ms: int) -> list[str]:
        if not turn.announced:
            return []
        turn.announced = False
        return [
            self._wire.event(
                "input_audio_buffer.speech_stopped",
                audio_end_ms=max(at_ms, turn.start_ms),
                item_id=turn.item_id,
            )
        ]

    def partial(self, text: str) -> list[str]:
        """See Sink.partial.

        A delta cannot be taken back and a partial can: what two partials in a row agree on is sent.
        """
        turn = self._open
        if turn is None or not turn.announced:
            return []
        agreed = _agreed(turn.partial, text)
        turn.partial = text
        return self._delta(turn, agreed)

    def final(self, text: str) -> list[str]:
        """See Sink.final."""
        turn, self._awaited = self._awaited, None
        if turn is None:
            return []
        return [
            *self._delta(turn, text),
            self._wire.event(
                "conversation.item.input_audio_transcription.completed",
                item_id=turn.item_id,
                content_index=0,
                transcript=text,
                usage={
                    "type": "duration",
                    "seconds": max(0, turn.end_ms - turn.start_ms) / 1000,
                },
            ),
        ]

    def failed(self, error: DuplexdError) -> list[str]:
        """The transcript that is awaited, if any, will not come."""
        turn, self._awaited = self._awaited, None
        if turn is None:
            return []
        return [
            self._wire.event(
                "conversation.item.input_audio_transcription.failed",
                item_id=turn.item_id,
                content_index=0,
                error={
                    "type": "server_error",
                    "code": error.code,
                    "message": str(error),
                    "param": None,
                },
            )
        ]

    def _delta(self, turn: _Turn, text: str) -> list[str]:
        """The rest of `text`, where it goes on from what was shown."""
        if len(text) <= len(turn.shown) or not text.startswith(turn.shown):
            return []
        delta, turn.shown = text[len(turn.shown) :], text
        return [
            self._wire.event(
                "conversation.item.input_audio_transcription.delta",
                item_id=turn.item_id,
                content_index=0,
                delta=delta,
            )
        ]


def _agreed(one: str, other: str) -> str:
    """The prefix that both have."""
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return other[:length]
