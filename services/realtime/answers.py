# pyright: strict
"""The assistant's side: one answer of the conversation as one response of the protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from services.face import Outcome
from services.realtime.audio import encode_audio
from services.realtime.items import Items, Spoken, message
from services.realtime.session import Session
from services.realtime.wire import Wire
from tts_engine.errors import DuplexdError, EngineFailed

_STATUS = {"answered": "completed", "interrupted": "cancelled", "failed": "failed"}


@dataclass(slots=True, kw_only=True)
class _Answer:
    """The response that is open.

    Parameters:
        session: the session when it began; later changes hold from the next answer on.
        text: the pieces sent so far.
        heard_ms: how much was played when it was interrupted.
        by_client: the client asked for its end.
        early: the client asked for its end before it began. An answer that speaks all the same is
            another one than the client meant.
    """

    spoken: Spoken
    previous: str | None
    session: Session
    text: list[str] = field(default_factory=list[str])
    heard_ms: int | None = None
    by_client: bool = False
    early: bool = False

    @property
    def as_text(self) -> bool:
        return self.session.modality == "text"

    def place(self) -> dict[str, Any]:
        """The fields that say where a piece of content belongs."""
        return {
            "response_id": self.spoken.response_id,
            "item_id": self.spoken.item_id,
            "output_index": 0,
            "content_index": 0,
        }

    def part(self, text: str) -> dict[str, Any]:
        if self.as_text:
            return {"type": "text", "text": text}
        return {"type": "audio", "transcript": text}

    def item(self, status: str, text: str | None = None) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if text is not None:
            kind, key = ("output_text", "text") if self.as_text else ("output_audio", "transcript")
            content.append({"type": kind, key: text})
        return message(
            item_id=self.spoken.item_id, role="assistant", content=content, status=status
        )


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
        # answers that the client stopped before they began; they begin nevertheless, to be ended
        self._stopped_early = 0

    @property
    def response_id(self) -> str | None:
        """The response that is open."""
        return self._open.spoken.response_id if self._open else None

    def stopped_by_client(self, *, expected: bool = False) -> None:
        """The end of the open answer, when it comes, is what the client asked for.

        Args:
            expected: so is that of an answer that has yet to begin.
        """
        if self._open:
            self._open.by_client = True
        if expected:
            self._stopped_early += 1

    def none_expected(self) -> None:
        """Whatever answer comes now has not been stopped."""
        self._stopped_early = 0

    def begin(self, revision: int, session: Session) -> list[str]:
        """See Sink.begin."""
        stale = self._open
        events = self.end(stale.spoken.revision, "interrupted", heard="") if stale else []
        spoken = Spoken(
            revision=revision,
            response_id=self._wire.new_id("resp"),
            item_id=self._wire.new_id("item"),
        )
        previous = self._items.add(spoken.item_id, spoken)
        self._open = answer = _Answer(
            spoken=spoken, previous=previous, session=session, early=self._stopped_early > 0
        )
        self._stopped_early = max(0, self._stopped_early - 1)
        event = self._wire.event
        item = answer.item("in_progress")
        return [
            *events,
            event("response.created", response=self._response(answer, "in_progress", [])),
            event(
                "response.output_item.added",
                response_id=spoken.response_id,
                output_index=0,
                item=item,
            ),
            event("conversation.item.added", previous_item_id=previous, item=item),
            event("response.content_part.added", **answer.place(), part=answer.part("")),
        ]

    def text(self, revision: int, text: str) -> list[str]:
        """See Sink.text."""
        answer = self._current(revision)
        if answer is None or not text:
            return []
        answer.early = False
        answer.text.append(text)
        kind = "output_text" if answer.as_text else "output_audio_transcript"
        return [self._wire.event(f"response.{kind}.delta", **answer.place(), delta=text)]

    def audio(self, revision: int, pcm: bytes) -> str | None:
        """See Sink.audio; None when there is nothing to send."""
        answer = self._current(revision)
        if answer is None or answer.as_text:
            return None
        answer.early = False
        answer.spoken.samples += len(pcm) // 2
        return self._wire.event(
            "response.output_audio.delta", **answer.place(), delta=encode_audio(pcm)
        )

    def flush(self, revision: int, heard_ms: int) -> None:
        """See Sink.flush. The client has dropped its audio at speech_started, or by its own wish;
        what was heard is told when the answer ends.
        """
        answer = self._current(revision)
        if answer is not None:
            answer.heard_ms = heard_ms

    def playback(self, revision: int, what: str) -> list[str]:
        """Our own event: playback "paused" or "resumed"."""
        answer = self._current(revision)
        if answer is None:
            return []
        return [
            self._wire.event(
                f"duplexd.playback.{what}",
                response_id=answer.spoken.response_id,
                item_id=answer.spoken.item_id,
            )
        ]

    def end(
        self, revision: int, outcome: Outcome, *, heard: str, error: DuplexdError | None = None
    ) -> list[str]:
        """See Sink.end.

        The `done` events of text carry what was sent, as their deltas did. The item carries what
        was heard: it is what the context holds.
        """
        if outcome == "failed" and error is None:
            error = EngineFailed("The answer failed")
        answer = self._current(revision)
        if answer is None:
            # an answer that failed before it began must not end in silence
            return [self._wire.failure(error)] if error else []
        self._open = None
        sent = "".join(answer.text)
        place = answer.place()
        event = self._wire.event
        item = answer.item("completed" if outcome == "answered" else "incomplete", heard)
        events: list[str] = []
        if answer.as_text:
            events.append(event("response.output_text.done", **place, text=sent))
        else:
            events.append(event("response.output_audio.done", **place))
            events.append(event("response.output_audio_transcript.done", **place, transcript=sent))
        events += [
            event("response.content_part.done", **place, part=answer.part(sent)),
            event(
                "response.output_item.done",
                response_id=answer.spoken.response_id,
                output_index=0,
                item=item,
            ),
            event("conversation.item.done", previous_item_id=answer.previous, item=item),
        ]
        if answer.heard_ms is not None and not answer.as_text:
            events.append(
                event(
                    "conversation.item.truncated",
                    item_id=answer.spoken.item_id,
                    content_index=0,
                    audio_end_ms=answer.heard_ms,
                )
            )
        details = _details(answer, outcome, error)
        response = self._response(answer, _STATUS[outcome], [item], details)
        events.append(event("response.done", response=response))
        return events

    def _current(self, revision: int) -> _Answer | None:
        answer = self._open
        return answer if answer is not None and answer.spoken.revision == revision else None

    def _response(
        self,
        answer: _Answer,
        status: str,
        output: list[dict[str, Any]],
        details: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        session = answer.session.wire()
        speech = session["audio"]["output"]
        return {
            "object": "realtime.response",
            "id": answer.spoken.response_id,
            "status": status,
            "status_details": details,
            "output": output,
            "conversation_id": self._conversation_id,
            "output_modalities": session["output_modalities"],
            "max_output_tokens": session["max_output_tokens"],
            "audio": {"output": {"format": speech["format"], "voice": speech["voice"]}},
            "usage": None,
            "metadata": None,
        }


def _details(
    answer: _Answer, outcome: Outcome, error: DuplexdError | None
) -> dict[str, Any] | None:
    """Why a response did not complete."""
    if outcome == "answered":
        return None
    details: dict[str, Any] = {"type": _STATUS[outcome]}
    if error is not None:
        details["error"] = {"type": "server_error", "code": error.code, "message": str(error)}
    else:
        by_client = answer.by_client or answer.early
        details["reason"] = "client_cancelled" if by_client else "turn_detected"
    return details
