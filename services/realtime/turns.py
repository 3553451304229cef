# pyright: strict
"""The user's side: a spoken turn as one user item, and the transcription of its audio."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from services.items import turn_ref
from services.realtime.items import Item, Items, message
from services.realtime.wire import Wire
from tts_engine.errors import DuplexdError, EngineFailed

#: most commits whose turns have not ended
_MAX_COMMITS = 256
#: a committed turn ends at the end of a window of the detector's; its clock may lag so much, ms
_WINDOW_MS = 100


@dataclass(slots=True, kw_only=True)
class _Turn:
    """A turn being spoken, or waiting for its transcript.

    Parameters:
        announced: the client was told of its start, and not yet of its end.
        transcribed: the client is told its text.
        shown: what transcription deltas have said so far.
        partial: the last partial.
    """

    item: Item
    start_ms: int
    announced: bool
    transcribed: bool
    end_ms: int = 0
    shown: str = ""
    partial: str = ""


@dataclass(slots=True, kw_only=True)
class UserTurns:
    """Writes the events of spoken turns. Each that ends gets one transcript or one failure, unless
    the client wants no transcripts.
    """

    wire: Wire
    items: Items
    _open: _Turn | None = field(default=None, init=False)
    _awaited: _Turn | None = field(default=None, init=False)
    # where the audio begins that the client may commit; beginning and end of what it committed
    _since_ms: int = field(default=0, init=False)
    _commits: deque[tuple[int, int]] = field(
        default_factory=lambda: deque[tuple[int, int]](maxlen=_MAX_COMMITS), init=False
    )

    def opened(self, at_ms: int, *, announce: bool, transcribe: bool) -> list[str]:
        """See Sink.turn_opened.

        Args:
            announce: with turn detection by the client, the protocol has no event for it.
            transcribe: the client wants its text.
        """
        self._open = turn = self._turn(at_ms, transcribe, announced=announce)
        if not announce:
            return []
        return [
            self.wire.event(
                "input_audio_buffer.speech_started", audio_start_ms=at_ms, item_id=turn.item.id
            )
        ]

    def committed(self, at_ms: int) -> None:
        """The client has committed what it sent; its turn is about to end."""
        self._commits.append((self._since_ms, at_ms))
        self._since_ms = at_ms

    def ended(self, at_ms: int, *, transcribe: bool) -> list[str]:
        """See Sink.turn_ended."""
        start_ms = end_ms = at_ms
        # A turn that ends before was ended by the daemon, which the client knew too late.
        if self._commits and self._commits[0][1] < at_ms + _WINDOW_MS:
            start_ms, end_ms = self._commits.popleft()
        turn = self._open or self._turn(start_ms, transcribe)
        lost = self.failed(EngineFailed("The turn was not transcribed"))
        self._open, self._awaited = None, turn
        turn.end_ms = end_ms
        return [*lost, *self._stopped(turn, at_ms), *self._committed(turn.item, None)]

    def idle(self, since_ms: int, at_ms: int) -> list[str]:
        """See Sink.idle. As in the original, the silence is an item, and has no text."""
        item = self._item()
        return [
            self.wire.event(
                "input_audio_buffer.timeout_triggered",
                audio_start_ms=since_ms,
                audio_end_ms=at_ms,
                item_id=item.id,
            ),
            *self._committed(item, ""),
        ]

    def silenced(self, at_ms: int) -> list[str]:
        """Nothing will tell of the end of the open turn: the client took detection over, or
        cleared the buffer. If it becomes an item after all, the item has the id that was announced.
        """
        self._since_ms = at_ms
        return self._stopped(self._open, at_ms) if self._open else []

    def cleared(self, at_ms: int) -> list[str]:
        """The client cleared the buffer: what it commits next begins here."""
        stopped = self.silenced(at_ms)
        if self._open is not None:
            self._open.start_ms = at_ms
        return stopped

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

    def final(self, text: str, language: str, number: int) -> list[str]:
        """See Sink.final."""
        turn, self._awaited = self._awaited, None
        if turn is None:
            return []
        item = turn.item
        item.shown, item.done = _spoken(item.id, text), True
        item.ref = turn_ref(number) if number else None
        self.items.keep(item)
        if not turn.transcribed:
            return []
        seconds = max(0, turn.end_ms - turn.start_ms) / 1000
        return [
            *self._delta(turn, text),
            self._about(
                turn,
                "completed",
                transcript=text,
                usage={"type": "duration", "seconds": seconds},
                languages=[{"code": language}] if language else None,
            ),
        ]

    def failed(self, error: DuplexdError) -> list[str]:
        """The transcript that is awaited, if any, will not come."""
        turn, self._awaited = self._awaited, None
        if turn is None:
            return []
        turn.item.done = True
        if not turn.transcribed:
            return []
        details = {
            "type": "server_error",
            "code": error.code,
            "message": str(error),
            "param": None,
        }
        return [self._about(turn, "failed", error=details)]

    def _turn(self, at_ms: int, transcribe: bool, *, announced: bool = False) -> _Turn:
        return _Turn(item=self._item(), start_ms=at_ms, announced=announced, transcribed=transcribe)

    def _item(self) -> Item:
        return Item(id=self.wire.new_id("item"), shown=None)

    def _stopped(self, turn: _Turn, at_ms: int) -> list[str]:
        if not turn.announced:
            return []
        turn.announced = False
        return [
            self.wire.event(
                "input_audio_buffer.speech_stopped",
                audio_end_ms=max(at_ms, turn.start_ms),
                item_id=turn.item.id,
            )
        ]

    def _committed(self, item: Item, transcript: str | None) -> list[str]:
        """Audio has become an item.

        Args:
            transcript: None: it is still to come.
        """
        shown = item.shown = _spoken(item.id, transcript)
        item.done = transcript is not None
        previous = self.items.add(item)
        event = self.wire.event
        return [
            event("input_audio_buffer.committed", previous_item_id=previous, item_id=item.id),
            event("conversation.item.added", previous_item_id=previous, item=shown),
            event("conversation.item.done", previous_item_id=previous, item=shown),
        ]

    def _delta(self, turn: _Turn, text: str) -> list[str]:
        """The rest of `text`, where it goes on from what was shown."""
        if not turn.transcribed or len(text) <= len(turn.shown) or not text.startswith(turn.shown):
            return []
        delta, turn.shown = text[len(turn.shown) :], text
        return [self._about(turn, "delta", delta=delta)]

    def _about(self, turn: _Turn, what: str, **fields: Any) -> str:
        return self.wire.event(
            f"conversation.item.input_audio_transcription.{what}",
            item_id=turn.item.id,
            content_index=0,
            **fields,
        )


def _spoken(item_id: str, transcript: str | None) -> dict[str, Any]:
    content = [{"type": "input_audio", "transcript": transcript}]
    return message(item_id=item_id, role="user", content=content)


def _agreed(one: str, other: str) -> str:
    """The prefix that both have."""
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return other[:length]
