# pyright: strict
"""The sans-I/O core of the Realtime protocol: messages in, actions and messages out.

        client --text--> receive() --actions--> the connection --> Conversation
        Conversation --Sink--> the connection --> begin(), audio(), ... --texts--> client

The core keeps the state that the protocol is about (session, items, the open response and turn)
and nothing else: no socket, no clock, no task. No input makes it raise.

Where it departs from the original: docs/realtime.md. Our own events are `duplexd.turn` and
`duplexd.playback.paused` / `.resumed`.
"""

from __future__ import annotations

from typing import Any

from services.face import Ending
from services.items import FunctionCall
from services.realtime import events as wire_events
from services.realtime.actions import (
    Action,
    Cancel,
    Clear,
    Commit,
    Hear,
    HeardUntil,
    Refuse,
    Remove,
    Respond,
    Send,
    Update,
)
from services.realtime.answers import Answers
from services.realtime.audio import decode_audio
from services.realtime.clock import AudioClock
from services.realtime.creation import create_item
from services.realtime.items import Items
from services.realtime.messages import decode
from services.realtime.requests import Requests, answer_options
from services.realtime.schema import MAX_ID, Refused
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
        self._requests = Requests()
        self._report_clock = {"name": "monotonic", "boot_id": boot_id}
        self._clock = AudioClock()
        # audio since the last turn, so that an empty commit can be told
        self._unheard = True
        # a turn ended that an answer follows, which has not begun: there is something to cancel
        self._expected = False
        # the client has cancelled that answer
        self._stopped = False

    # --- from the client --------------------------------------------------------------------
    def receive(self, text: str) -> list[Action]:
        """Takes one text message."""
        event_id: str | None = None
        try:
            raw = decode(text)
            given = raw.get("event_id")
            if isinstance(given, str) and len(given) <= MAX_ID:
                event_id = given
            return self._handle(wire_events.validate(raw))
        except DuplexdError as error:
            return [self.refuse(error, event_id)]

    def receive_binary(self) -> list[Action]:
        """Takes one binary message, of which the protocol has none."""
        error = Refused("Binary messages are not part of this protocol", reason="invalid_json")
        return [self.refuse(error)]

    def refuse(
        self, error: DuplexdError, event_id: str | None = None, *, within: str = ""
    ) -> Refuse:
        """The refusal of something that the client sent: see Wire.refusal."""
        return Refuse(self._wire.refusal(error, event_id=event_id, within=within), error)

    def updated(self, update: Update) -> list[str]:
        """The conversation accepted an update."""
        taken_over = self._session.turns and not update.session.turns
        self._session = update.session
        stopped = self._turns.silenced(self._clock.ms) if taken_over else []
        return [*stopped, self._wire.event("session.updated", session=self._session.wire())]

    def not_updated(self, update: Update, error: DuplexdError) -> Refuse:
        """The conversation refused an update; nothing of it holds."""
        return self.refuse(error, update.event_id, within="session")

    def asked(self, respond: Respond) -> None:
        """The conversation accepted a request for an answer."""
        if respond.request.remembered:
            self._answers.replaced_by_client()
        self._requests.asked(respond.request)

    def not_asked(self, respond: Respond, error: DuplexdError) -> Refuse:
        """The conversation refused a request; no answer will come of it."""
        return self.refuse(error, respond.event_id, within="response")

    def _handle(self, event: wire_events.ClientEvent) -> list[Action]:
        match event:
            case wire_events.AudioAppend():
                return self._append(decode_audio(event.audio))
            case wire_events.AudioCommit():
                return self._commit()
            case wire_events.AudioClear():
                self._unheard = True
                stopped = [Send(event) for event in self._turns.cleared(self._clock.ms)]
                return [Clear(), *stopped, Send(self._wire.event("input_audio_buffer.cleared"))]
            case wire_events.SessionUpdate():
                session = self._session.patched(event.session)
                return [Update(session.options(), session, event.event_id)]
            case wire_events.ItemCreate():
                return create_item(event, items=self._items, wire=self._wire)
            case wire_events.ItemDelete():
                return self._delete(event.item_id)
            case wire_events.ItemRetrieve():
                return self._retrieve(event.item_id)
            case wire_events.ItemTruncate():
                return self._truncate(event)
            case wire_events.ResponseCreate():
                return self._respond(event)
            case wire_events.ResponseCancel():
                return self._cancel(event.response_id)

    def _append(self, data: bytes) -> list[Action]:
        audio_format = self._session.hears
        audio_format.check(data)
        self._unheard = False
        self._clock.add(data, audio_format)
        return [Hear(data, audio_format)]

    def _commit(self) -> list[Action]:
        if self._unheard:
            raise Refused("There is no audio to commit", reason="input_audio_buffer_commit_empty")
        self._unheard = True
        if self._session.turns is None:
            self._turns.committed(self._clock.ms)
        return [Commit()]

    def _delete(self, item_id: str) -> list[Action]:
        item = self._items.get(item_id)
        if not item.done:
            raise Refused(
                "The item is still being made", reason="item_in_progress", param="item_id"
            )
        self._items.remove(item_id)
        deleted = Send(self._wire.event("conversation.item.deleted", item_id=item_id))
        return [Remove(item.ref), deleted] if item.ref else [deleted]

    def _retrieve(self, item_id: str) -> list[Action]:
        shown = self._items.get(item_id).shown
        if shown is None:
            raise Refused(
                "The item is so old that its contents are no longer kept",
                reason="item_content_not_known",
                param="item_id",
            )
        return [Send(self._wire.event("conversation.item.retrieved", item=shown))]

    def _truncate(self, event: wire_events.ItemTruncate) -> list[Action]:
        spoken = self._answers.spoken(event.item_id)
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
        self._answers.shorten(spoken, event.audio_end_ms)
        return [HeardUntil(spoken.revision, event.audio_end_ms), Send(done)]

    def _respond(self, event: wire_events.ResponseCreate) -> list[Action]:
        if self._session.kind == "transcription":
            raise Refused(
                "A transcription session answers nothing",
                reason="invalid_session_type",
                param="type",
                mend="Send a session.update with type 'realtime'",
            )
        request = self._requests.new(event.response, untold=self._answers.untold)
        options = answer_options(request, self._session, self._items)
        return [Respond(options, request, event.event_id)]

    def _cancel(self, response_id: str | None) -> list[Action]:
        active = self._answers.response_id
        if response_id not in (None, active) or not (active or self._expected or self._requests):
            raise Refused(
                "There is no active response to cancel",
                reason="response_cancel_not_active",
                param=None if response_id is None else "response_id",
            )
        self._answers.stopped_by_client()
        self._requests.stop()
        self._stopped, self._expected = self._stopped or self._expected, False
        return [Cancel()]

    # --- from the conversation: see Sink ----------------------------------------------------
    def created(self) -> list[str]:
        """What the client hears first."""
        return [self._wire.event("session.created", session=self._session.wire())]

    def begin(self, revision: int, ask: int | None = None) -> list[str]:
        """An answer starts."""
        request = self._requests.begin(ask)
        stopped = self._stopped if request is None else request.stopped
        if request is None:
            self._expect(False)
        return self._answers.begin(revision, self._session, request, stopped=stopped)

    def dropped(self, ask: int) -> list[str]:
        """The answer that was asked for will not come."""
        request = self._requests.take(ask)
        return self._answers.dropped(self._session, request) if request is not None else []

    def text(self, revision: int, text: str) -> list[str]:
        """A piece of the answer's text."""
        return self._answers.text(revision, text)

    def audio(self, revision: int, pcm: bytes) -> list[str]:
        """A frame of the answer: int16 mono at 24 kHz."""
        return self._answers.audio(revision, pcm)

    def call_begun(self, revision: int, call_id: str, name: str) -> list[str]:
        """A function call starts."""
        return self._answers.call_begun(revision, call_id, name)

    def call_arguments(self, revision: int, call_id: str, delta: str) -> list[str]:
        """A piece of its arguments."""
        return self._answers.call_arguments(revision, call_id, delta)

    def call_done(self, revision: int, call: FunctionCall) -> list[str]:
        """The call is whole."""
        return self._answers.call_done(revision, call)

    def flush(self, revision: int, *, heard_ms: int) -> None:
        """The answer was interrupted."""
        self._answers.flush(revision, heard_ms)

    def end(self, revision: int, ending: Ending) -> list[str]:
        """The answer is over."""
        return self._answers.end(revision, ending)

    def pause(self, revision: int) -> list[str]:
        """Playback pauses."""
        return self._answers.playback(revision, paused=True)

    def resume(self, revision: int) -> list[str]:
        """Playback goes on."""
        return self._answers.playback(revision, paused=False)

    def turn_opened(self, *, at_ms: int) -> list[str]:
        """The user's turn opened."""
        self._expect(False)
        return self._turns.opened(
            at_ms,
            announce=self._session.turns is not None,
            transcribe=self._session.transcribes,
        )

    def turn_ended(self, *, at_ms: int) -> list[str]:
        """The user's turn is over."""
        if self._session.turns is not None:
            # The daemon took what there was. A client that commits itself said so then, and may
            # have sent the audio of its next turn by now.
            self._unheard = True
        self._expect(self._session.answers)
        return self._turns.ended(at_ms, transcribe=self._session.transcribes)

    def idle(self, *, since_ms: int, at_ms: int) -> list[str]:
        """Nobody has spoken for long; an answer follows."""
        self._expect(True)
        return self._turns.idle(since_ms, at_ms)

    def partial(self, text: str) -> list[str]:
        """What is recognised so far."""
        return self._turns.partial(text)

    def final(self, text: str, language: str = "", *, turn: int) -> list[str]:
        """What was recognised; no answer follows nothing."""
        if not text:
            self._expect(False)
        return self._turns.final(text, language, turn)

    def turn_report(self, report: dict[str, Any]) -> list[str]:
        """Our own event: the latency of a turn, on the machine's monotonic clock."""
        spoken = self._answers.by_revision(report.get("revision"))
        return [
            self._wire.event(
                "duplexd.turn",
                report=report,
                clock=self._report_clock,
                response_id=spoken.response_id if spoken else None,
                item_id=spoken.item_id if spoken else None,
            )
        ]

    def error(self, error: DuplexdError) -> list[str]:
        """Something failed outside an answer. While a transcript is awaited it will not come."""
        return [*self._turns.failed(error), self._wire.failure(error)]

    def _expect(self, expected: bool) -> None:
        """An answer that nobody asked for is on its way, or is not."""
        self._expected, self._stopped = expected, False
