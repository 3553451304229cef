# pyright: strict
"""The assistant's side: one answer of the conversation as one response of the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from services.face import Ending, Usage
from services.items import FunctionCall
from services.realtime.items import Items
from services.realtime.outputs import Call, Place, Speech, Spoken
from services.realtime.requests import Request
from services.realtime.responses import show_response, status_of
from services.realtime.schema import Refused
from services.realtime.session import Session
from services.realtime.wire import Wire
from tts_engine.errors import EngineFailed

#: answers remembered, for truncation and for latency reports; the conversation knows no more either
_REMEMBERED = 32


@dataclass(slots=True, kw_only=True)
class _Answer:
    """A response.

    Parameters:
        session: the session as this answer has it; later changes hold from the next one on.
        metadata: of its request.
        remembered: it is part of the conversation.
        asks: it is made from the conversation's items, and has not shown yet that it was.
        outputs: what there is of it, in the order of appearance.
        heard_ms: how much was played when it was interrupted.
        truncated: the client has said how much it played, and was told so; that holds.
        by_client: the client asked for its end.
        early: the client asked for its end before it began. An answer that speaks all the same is
            another one than the client meant.
        paused: the client was told that it is paused.
    """

    spoken: Spoken
    session: Session
    metadata: dict[str, str] | None = None
    remembered: bool = True
    asks: bool = True
    outputs: list[Speech | Call] = field(default_factory=list[Speech | Call])
    speech: Speech | None = None
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    heard_ms: int | None = None
    truncated: bool = False
    by_client: bool = False
    early: bool = False
    paused: bool = False


class Answers:
    """Writes the events of answers, one at a time; anything about another one is stale.

    Parameters:
        items: the conversation's items.
        conversation_id: shown in every response.
    """

    def __init__(self, *, wire: Wire, items: Items, conversation_id: str) -> None:
        self._wire = wire
        self._items = items
        self._conversation_id = conversation_id
        self._open: _Answer | None = None
        self._spoken: dict[int, Spoken] = {}
        # requests that ended while another response was open
        self._dropped: list[tuple[Session, Request]] = []

    @property
    def response_id(self) -> str | None:
        """The response that is open."""
        return self._open.spoken.response_id if self._open else None

    @property
    def untold(self) -> int:
        """Requests that were dropped, and wait for the open response to be told."""
        return len(self._dropped)

    def stopped_by_client(self) -> None:
        """The end of the open answer, when it comes, is what the client asked for."""
        if self._open:
            self._open.by_client = True

    def replaced_by_client(self) -> None:
        """The client asks for another answer; one that has called a function leads up to it."""
        if self._open and not self._open.calls:
            self._open.by_client = True

    def spoken(self, item_id: str) -> Spoken:
        """An answer by its message.

        Raises:
            Refused: there is none, or none with sound.
        """
        for spoken in reversed(self._spoken.values()):
            if spoken.item_id == item_id:
                if spoken.as_text:
                    raise Refused(
                        "The item has no audio", reason="invalid_value", param="content_index"
                    )
                return spoken
        raise Refused(
            f"None of the last {_REMEMBERED} answers spoke an item with this id",
            reason="item_not_found",
            param="item_id",
        )

    def shorten(self, spoken: Spoken, audio_ms: int) -> None:
        """The client says that it played no more: the text that was heard is another one, and only
        the conversation knows which.
        """
        if self._open is not None and self._open.spoken is spoken:
            self._open.truncated = True
        item = spoken.item
        if audio_ms < spoken.sent_ms and item is not None and item.done and item.shown is not None:
            content = [{"type": "output_audio", "transcript": None}]
            item.shown = {**item.shown, "status": "incomplete", "content": content}
            self._items.keep(item)

    def by_revision(self, revision: object) -> Spoken | None:
        """An answer by its number."""
        return self._spoken.get(revision) if isinstance(revision, int) else None

    def begin(
        self, revision: int, session: Session, request: Request | None, *, stopped: bool
    ) -> list[str]:
        """See Sink.begin.

        Args:
            request: what it answers; None: a turn.
            stopped: the client has asked for its end already.
        """
        stale = self._open
        events = self.end(stale.spoken.revision, Ending(outcome="interrupted")) if stale else []
        self._open = answer = self._answer(revision, session, request)
        answer.early = stopped
        self._spoken[revision] = answer.spoken
        if len(self._spoken) > _REMEMBERED:
            del self._spoken[next(iter(self._spoken))]
        return [*events, self._wire.event("response.created", response=self._response(answer))]

    def dropped(self, session: Session, request: Request) -> list[str]:
        """See Sink.dropped. One response is told at a time: while one is open this waits for it."""
        if self._open is not None:
            self._dropped.append((session, request))
            return []
        answer = self._answer(0, session, request)
        status, details = status_of(Ending(outcome="interrupted"), by_client=request.stopped)
        over = self._response(answer, status=status, details=details)
        return [
            self._wire.event("response.created", response=self._response(answer)),
            self._wire.event("response.done", response=over),
        ]

    def text(self, revision: int, text: str) -> list[str]:
        """See Sink.text."""
        answer = self._current(revision)
        if answer is None or not text:
            return []
        began, speech = self._speech(answer)
        return [*began, *speech.text(text)]

    def audio(self, revision: int, pcm: bytes) -> list[str]:
        """See Sink.audio."""
        answer = self._current(revision)
        if answer is None or answer.spoken.as_text:
            return []
        began, speech = self._speech(answer)
        return [*began, *speech.audio(pcm)]

    def call_begun(self, revision: int, call_id: str, name: str) -> list[str]:
        """See Sink.call_begun."""
        answer = self._current(revision)
        if answer is None:
            return []
        call = Call(self._place(answer), call_id=call_id, name=name)
        answer.calls[call_id] = call
        answer.outputs.append(call)
        self._asked(answer)
        return call.begin()

    def call_arguments(self, revision: int, call_id: str, delta: str) -> list[str]:
        """See Sink.call_arguments."""
        call = self._call(revision, call_id)
        return call.arguments(delta) if call is not None and delta else []

    def call_done(self, revision: int, done: FunctionCall) -> list[str]:
        """See Sink.call_done."""
        call = self._call(revision, done.call_id)
        return call.end(done.arguments) if call is not None else []

    def flush(self, revision: int, heard_ms: int) -> None:
        """See Sink.flush. The client has dropped its audio at speech_started, or by its own wish;
        what was heard is told when the answer ends.
        """
        answer = self._current(revision)
        if answer is not None and not answer.truncated:
            answer.heard_ms = heard_ms

    def playback(self, revision: int, *, paused: bool) -> list[str]:
        """Our own events; see Sink.pause. One that the client knows already is not told."""
        answer = self._current(revision)
        if answer is None or answer.paused == paused:
            return []
        answer.paused = paused
        return [
            self._wire.event(
                f"duplexd.playback.{'paused' if paused else 'resumed'}",
                response_id=answer.spoken.response_id,
                item_id=answer.spoken.item_id,
            )
        ]

    def end(self, revision: int, ending: Ending) -> list[str]:
        """See Sink.end."""
        if ending.outcome == "failed" and ending.error is None:
            ending = replace(ending, error=EngineFailed("The answer failed"))
        answer = self._current(revision)
        if answer is None:
            # an answer that failed before it began must not end in silence
            return [self._wire.failure(ending.error)] if ending.error else []
        self._open = None
        if ending.outcome != "interrupted":
            self._asked(answer)
        events: list[str] = []
        for output in answer.outputs:
            if isinstance(output, Speech):
                whole = ending.outcome == "answered" and ending.cut is None
                events += output.end("completed" if whole else "incomplete", heard=ending.heard)
            elif output.open:
                events += output.void()
        if answer.speech is not None and answer.heard_ms is not None:
            events += answer.speech.truncated(answer.heard_ms)
        by_client = answer.by_client or answer.early
        status, details = status_of(ending, by_client=by_client)
        response = self._response(answer, status=status, details=details, usage=ending.usage)
        events.append(self._wire.event("response.done", response=response))
        dropped, self._dropped = self._dropped, []
        for session, request in dropped:
            events += self.dropped(session, request)
        return events

    def _answer(self, revision: int, session: Session, request: Request | None) -> _Answer:
        if request is not None:
            session = session.answering(request.options)
        return _Answer(
            spoken=Spoken(
                revision=revision,
                response_id=self._wire.new_id("resp"),
                as_text=session.modality == "text",
            ),
            session=session,
            metadata=request.options.metadata if request is not None else None,
            remembered=request is None or request.remembered,
            asks=request is None or (request.remembered and request.options.input is None),
        )

    def _current(self, revision: int) -> _Answer | None:
        answer = self._open
        return answer if answer is not None and answer.spoken.revision == revision else None

    def _speech(self, answer: _Answer) -> tuple[Sequence[str], Speech]:
        """The message of an answer that speaks, and what makes it appear."""
        answer.early = False
        if answer.speech is not None:
            return (), answer.speech
        answer.speech = speech = Speech(
            self._place(answer), spoken=answer.spoken, says=answer.session.says
        )
        answer.outputs.append(speech)
        self._asked(answer)
        return speech.begin(), speech

    def _asked(self, answer: _Answer) -> None:
        """The language model had the items: what is too much for it was dropped from them. One that
        is cancelled before cannot tell, and items would pile up behind such answers.
        """
        if answer.asks:
            answer.asks = False
            self._items.asked()

    def _call(self, revision: int, call_id: str) -> Call | None:
        """A call that is being written."""
        answer = self._current(revision)
        call = answer.calls.get(call_id) if answer is not None else None
        return call if call is not None and call.open else None

    def _place(self, answer: _Answer) -> Place:
        return Place(
            wire=self._wire,
            response_id=answer.spoken.response_id,
            index=len(answer.outputs),
            items=self._items if answer.remembered else None,
        )

    def _response(
        self,
        answer: _Answer,
        *,
        status: str = "in_progress",
        details: dict[str, Any] | None = None,
        usage: Usage | None = None,
    ) -> dict[str, Any]:
        return show_response(
            response_id=answer.spoken.response_id,
            session=answer.session,
            conversation_id=self._conversation_id if answer.remembered else None,
            metadata=answer.metadata,
            status=status,
            details=details,
            output=[output.shown for output in answer.outputs],
            usage=usage,
        )
