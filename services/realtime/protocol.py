"""The sans-I/O core of the Realtime protocol: messages in, actions and messages out.

        client --text--> receive() --actions--> the connection --> Conversation
        Conversation --Sink--> the connection --> begin(), audio(), ... --texts--> client

The core keeps the state that the protocol is about (session, items, the open response and turn)
and nothing else: no socket, no clock, no task. No input makes it raise.

Where it departs from the original: `response.create` during an answer interrupts it (status
cancelled, reason client_cancelled), because answers are sent at the pace of playback and an answer
that is "active" here may long be complete there; an interruption tells the client by
`conversation.item.truncated` how much was heard, as the original does over WebRTC. Our own events
are `duplexd.turn` and `duplexd.playback.paused` / `.resumed`.
"""

from __future__ import annotations

from typing import Any

from services.face import Outcome
from services.realtime import events as wire_events
from services.realtime.actions import (
    Action,
    AddText,
    Cancel,
    Clear,
    Commit,
    Hear,
    HeardUntil,
    Refuse,
    Respond,
    Send,
    Update,
)
from services.realtime.answers import Answers
from services.realtime.audio import decode_audio
from services.realtime.events import Refused, not_supported
from services.realtime.items import Items, message
from services.realtime.messages import decode
from services.realtime.session import Session
from services.realtime.turns import UserTurns
from services.realtime.wire import Wire
from tts_engine.errors import DuplexdError


class RealtimeCore:
    """One session of the protocol.

    Parameters:
        session: the session as it starts.
        seed: makes the ids of this session differ from those of every other.
        boot_id: names the monotonic clock of this machine's boot, for latency reports.
    """

    def __init__(self, *, session: Session, seed: str, boot_id: str = "") -> None:
        self._session = session
        self._wire = Wire(seed=seed)
        self._items = Items()
        self._turns = UserTurns(wire=self._wire, items=self._items)
        self._answers = Answers(
            wire=self._wire, items=self._items, conversation_id=self._wire.new_id("conv")
        )
        self._clock = {"name": "monotonic", "boot_id": boot_id}
        # audio since the last turn, so that an empty commit can be told
        self._unheard = True
        # an answer was asked for and has not begun: there is something to cancel
        self._expected = False
        # audio received, at 24 kHz
        self._samples = 0

    # --- from the client --------------------------------------------------------------------
    def receive(self, text: str) -> list[Action]:
        """Takes one text message."""
        event_id: str | None = None
        try:
            raw = decode(text)
            given = raw.get("event_id")
            if isinstance(given, str) and len(given) <= wire_events.MAX_ID:
                event_id = given
            return self._handle(wire_events.validate(raw))
        except DuplexdError as error:
            return [self._refuse(error, event_id)]

    def receive_binary(self) -> list[Action]:
        """Takes one binary message, of which the protocol has none."""
        return [
            self._refuse(
                Refused("Binary messages are not part of this protocol", reason="invalid_json"),
                None,
            )
        ]

    def updated(self, update: Update) -> list[str]:
        """The conversation accepted an update."""
        self._session = update.session
        stopped = [] if self._session.turns else self._turns.silenced(self._received_ms)
        return [*stopped, self._wire.event("session.updated", session=self._session.wire())]

    def not_updated(self, update: Update, error: DuplexdError) -> Refuse:
        """The conversation refused an update; nothing of it holds."""
        return self._refuse(error, update.event_id)

    @property
    def _received_ms(self) -> int:
        return self._samples // 24

    def _refuse(self, error: DuplexdError, event_id: str | None) -> Refuse:
        return Refuse(self._wire.refusal(error, event_id=event_id), error)

    def _handle(self, event: wire_events.ClientEvent) -> list[Action]:
        match event:
            case wire_events.AudioAppend():
                pcm = decode_audio(event.audio)
                self._unheard = False
                self._samples += len(pcm) // 2
                return [Hear(pcm)]
            case wire_events.AudioCommit():
                return self._commit()
            case wire_events.AudioClear():
                self._unheard = True
                stopped = [Send(event) for event in self._turns.silenced(self._received_ms)]
                return [Clear(), *stopped, Send(self._wire.event("input_audio_buffer.cleared"))]
            case wire_events.SessionUpdate():
                session = self._session.patched(event.session)
                return [Update(session.options(), session, event.event_id)]
            case wire_events.ItemCreate():
                return self._create(event)
            case wire_events.ItemTruncate():
                return self._truncate(event)
            case wire_events.ResponseCreate():
                return self._respond(event.response)
            case wire_events.ResponseCancel():
                return self._cancel(event.response_id)

    def _commit(self) -> list[Action]:
        if self._unheard:
            raise Refused("There is no audio to commit", reason="input_audio_buffer_commit_empty")
        self._unheard = True
        return [Commit()]

    def _create(self, event: wire_events.ItemCreate) -> list[Action]:
        item = event.item
        if event.previous_item_id not in (None, self._items.last):
            raise not_supported("Inserting before other items", param="previous_item_id")
        if item.id is not None and item.id in self._items:
            raise Refused(
                f"There is an item with id '{item.id}' already",
                reason="item_id_taken",
                param="item.id",
            )
        item_id = item.id or self._wire.new_id("item")
        previous = self._items.add(item_id)
        kind = "output_text" if item.role == "assistant" else "input_text"
        shown = message(
            item_id=item_id, role=item.role, content=[{"type": kind, "text": item.text}]
        )
        return [
            AddText(item.role, item.text),
            *(
                Send(
                    self._wire.event(
                        f"conversation.item.{what}", previous_item_id=previous, item=shown
                    )
                )
                for what in ("added", "done")
            ),
        ]

    def _truncate(self, event: wire_events.ItemTruncate) -> list[Action]:
        spoken = self._items.spoken(event.item_id)
        if spoken is None:
            raise Refused(
                "There is no spoken item with this id", reason="item_not_found", param="item_id"
            )
        if event.audio_end_ms > spoken.sent_ms:
            raise Refused(
                f"The item has {spoken.sent_ms} ms of audio, less than {event.audio_end_ms} ms",
                reason="invalid_value",
                param="audio_end_ms",
            )
        done = self._wire.event(
            "conversation.item.truncated",
            item_id=event.item_id,
            content_index=0,
            audio_end_ms=event.audio_end_ms,
        )
        if spoken.response_id == self._answers.response_id:
            self._answers.stopped_by_client()
        return [HeardUntil(spoken.revision, event.audio_end_ms), Send(done)]

    def _respond(self, options: wire_events.ResponseOptions | None) -> list[Action]:
        if options is not None:
            if options.tools:
                raise not_supported("Calling tools of the client", param="response.tools")
            if options.tool_choice not in (None, "auto", "none"):
                raise not_supported("Choosing a tool", param="response.tool_choice")
            if options.output_modalities not in (None, [self._session.modality]):
                raise not_supported(
                    "A modality for one response", param="response.output_modalities"
                )
        self._answers.stopped_by_client(expected=self._expected)
        self._expected = True
        return [Respond(options.instructions if options else None)]

    def _cancel(self, response_id: str | None) -> list[Action]:
        active = self._answers.response_id
        if response_id not in (None, active) or not (active or self._expected):
            raise Refused(
                "There is no active response to cancel",
                reason="response_cancel_not_active",
                param=None if response_id is None else "response_id",
            )
        self._answers.stopped_by_client(expected=self._expected)
        self._expected = False
        return [Cancel()]

    # --- from the conversation: see Sink ----------------------------------------------------
    def created(self) -> list[str]:
        """What the client hears first."""
        return [self._wire.event("session.created", session=self._session.wire())]

    def begin(self, revision: int) -> list[str]:
        """An answer starts."""
        self._expected = False
        return self._answers.begin(revision, self._session)

    def text(self, revision: int, text: str) -> list[str]:
        """A piece of the answer's text."""
        return self._answers.text(revision, text)

    def audio(self, revision: int, pcm: bytes) -> str | None:
        """A frame of the answer: int16 mono at 24 kHz. None: nothing is to be sent."""
        return self._answers.audio(revision, pcm)

    def flush(self, revision: int, *, heard_ms: int) -> None:
        """The answer was interrupted."""
        self._answers.flush(revision, heard_ms)

    def end(
        self, revision: int, outcome: Outcome, *, heard: str, error: DuplexdError | None = None
    ) -> list[str]:
        """The answer is over."""
        return self._answers.end(revision, outcome, heard=heard, error=error)

    def pause(self, revision: int) -> list[str]:
        """Playback pauses."""
        return self._answers.playback(revision, "paused")

    def resume(self, revision: int) -> list[str]:
        """Playback goes on."""
        return self._answers.playback(revision, "resumed")

    def turn_opened(self, *, at_ms: int) -> list[str]:
        """The user started to speak."""
        self._expected = False
        self._answers.none_expected()
        return self._turns.opened(at_ms, announce=self._session.turns is not None)

    def turn_ended(self, *, at_ms: int) -> list[str]:
        """The user's turn is over."""
        if self._session.turns is not None:
            # The daemon took what there was. A client that commits itself said so then, and may
            # have sent the audio of its next turn by now.
            self._unheard = True
        self._expected = self._session.turns is not None and self._session.turns.respond
        return self._turns.ended(at_ms)

    def partial(self, text: str) -> list[str]:
        """What is recognised so far."""
        return self._turns.partial(text)

    def final(self, text: str) -> list[str]:
        """What was recognised; no answer follows nothing."""
        if not text:
            self._expected = False
        return self._turns.final(text)

    def turn_report(self, report: dict[str, Any]) -> list[str]:
        """Our own event: the latency of a turn, on the machine's monotonic clock."""
        spoken = self._items.by_revision(report.get("revision"))
        return [
            self._wire.event(
                "duplexd.turn",
                report=report,
                clock=self._clock,
                response_id=spoken.response_id if spoken else None,
                item_id=spoken.item_id if spoken else None,
            )
        ]

    def error(self, error: DuplexdError) -> list[str]:
        """Something failed outside an answer. While a transcript is awaited it will not come."""
        return [*self._turns.failed(error), self._wire.failure(error)]
