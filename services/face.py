"""The contract between a face and the conversation.

A face owns a socket and a protocol: it does the handshake, turns bytes into calls on a
`Conversation`, and implements `Sink`, through which the conversation is heard. Faces never import
the pipeline: they are given a `SessionFactory`.

        face --audio(), commit(), respond(), cancel(), close()--> Conversation
        face <--begin(), audio(), text(), flush(), end(), user events--  Conversation

Every method of a Sink is called from the event loop, in order, and must return soon: it puts its
message on the face's one writer queue. Only the audio path awaits the socket.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from tts_engine.errors import DuplexdError


@dataclass(frozen=True, slots=True, kw_only=True)
class PacingProfile:
    """How a face wants its audio paced.

    Parameters:
        sample_rate: samples per second of the audio handed to `Sink.audio`.
        frame_ms: length of every frame; the last one of an answer may be shorter.
        lead_ms: how far sending runs ahead of playing, so that the client never starves. What the
            client has received and not yet played is at most this.
        start_gap_ms: least time between `begin` and the first frame.
        stop_margin_ms: time between the end of playback and `end`.
    """

    sample_rate: int = 24_000
    frame_ms: int = 20
    lead_ms: int = 200
    start_gap_ms: int = 0
    stop_margin_ms: int = 0


Outcome = Literal["answered", "interrupted", "failed"]


class Sink(ABC):
    """What a conversation speaks through. Revisions are numbers that name an answer."""

    profile: PacingProfile

    # --- the answer -------------------------------------------------------------------------
    @abstractmethod
    async def begin(self, revision: int) -> None:
        """A committed answer starts. Nothing of it came before this."""

    @abstractmethod
    async def audio(self, revision: int, pcm: bytes) -> None:
        """One frame of the answer, int16 mono at `profile.sample_rate`; returns once it is handed
        to the socket.

        Raises:
            ConnectionError: the client is gone, or did not take the frame in time.
        """

    @abstractmethod
    async def text(self, revision: int, text: str) -> None:
        """A piece of the answer's text (raw, as the LLM wrote it), just before its audio."""

    @abstractmethod
    async def flush(self, revision: int, *, heard_ms: int) -> None:
        """The answer was interrupted: the client drops what it has buffered. `end` follows.

        Args:
            heard_ms: how much of the answer's audio was played, by the daemon's play head.
        """

    @abstractmethod
    async def end(
        self, revision: int, outcome: Outcome, *, heard: str, error: DuplexdError | None = None
    ) -> None:
        """The answer is over.

        Args:
            heard: what was heard of its text: the text that the context holds.
            error: why it failed, with outcome "failed".
        """

    async def pause(self, revision: int) -> None:  # noqa: B027 - faces that cannot pause ignore it
        """Sending pauses; the client may stop playing at once and keeps what it has."""

    async def resume(self, revision: int) -> None:  # noqa: B027
        """Sending goes on from the exact sample."""

    # --- the user ---------------------------------------------------------------------------
    @abstractmethod
    async def turn_opened(self, *, at_ms: int) -> None:
        """The user started to speak. `at_ms`: position on the clock of received audio."""

    @abstractmethod
    async def turn_ended(self, *, at_ms: int) -> None:
        """The turn core decided that the user's turn is over."""

    @abstractmethod
    async def partial(self, text: str) -> None:
        """What is recognised so far of the open turn; replaces the previous partial."""

    @abstractmethod
    async def final(self, text: str, language: str) -> None:
        """The text of the turn that ended; empty when nothing was said. Recognition that failed is
        told by `error` in its place.
        """

    # --- the rest ---------------------------------------------------------------------------
    @abstractmethod
    async def turn_report(self, report: dict[str, Any]) -> None:
        """Latency of a finished turn, `pipeline.latency.TurnReport` as JSON."""

    @abstractmethod
    async def error(self, error: DuplexdError) -> None:
        """Something failed outside an answer, as recognition; the conversation goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """What a client may choose for its conversation; None keeps the daemon's configuration.

    Parameters:
        instructions: replaces the system prompt.
        voice: a voice name of the speech engine.
        speed: pace of the voice.
        server_turns: True: the daemon decides when a turn ends. False: only `commit` does.
        auto_respond: with server turns: answer when a turn ends.
        interruptible: voice during playback interrupts.
        floor_ms: silence that ends a turn.
        max_tokens: bound of an answer.
        temperature: of the LLM.
        speak: False: answers come as text only, and no audio is made of them.
    """

    instructions: str | None = None
    voice: str | None = None
    speed: float | None = None
    server_turns: bool = True
    auto_respond: bool = True
    interruptible: bool = True
    floor_ms: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    speak: bool = True


class Conversation(Protocol):
    """One conversation, as its face sees it. Methods without `async` return at once."""

    id: str

    async def run(self) -> None:
        """Runs until `close`; to be awaited by the connection's handler."""

    def audio(self, pcm: bytes, *, arrived: float) -> None:
        """Microphone audio: int16 mono at 16 kHz, any length; `arrived` in time.monotonic()."""

    def commit(self) -> None:
        """The user's turn is over (manual turns)."""

    def clear(self) -> None:
        """Forget the audio of the turn that is open."""

    def add_text(self, role: Literal["user", "assistant", "system"], text: str) -> None:
        """Adds a message to the context, without answering."""

    def respond(self, *, instructions: str | None = None) -> None:
        """Answer now, from the context as it is; a playing answer is interrupted first."""

    def cancel(self) -> None:
        """Stop the answer that is being made or played, if any."""

    def heard_until(self, revision: int, audio_ms: int) -> None:
        """The client's own report of how much of an answer was played."""

    def update(self, options: SessionOptions) -> None:
        """Changes the options from the next turn on.

        Raises:
            UnknownVoice, BadRequest
        """

    def close(self) -> None:
        """Ends the conversation. Idempotent."""


class SessionFactory(Protocol):
    """Builds conversations on the shared engines; given to every face by the composition root."""

    @property
    def ready(self) -> bool:
        """All engines are warm."""
        ...

    @property
    def voices(self) -> tuple[str, ...]:
        """Voices that SessionOptions.voice may name; the first is the default."""
        ...

    def open(self, sink: Sink, options: SessionOptions) -> Conversation:
        """Opens a conversation.

        Raises:
            AtCapacity: the daemon's session limit is reached.
            UnknownVoice, BadRequest
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FaceContext:
    """What the composition root gives every face.

    Parameters:
        sessions: opens conversations.
        send_timeout_s: bound of every send.
        on_error: counts a failure by class for /metrics; the face logs it.
    """

    sessions: SessionFactory
    send_timeout_s: float = 5.0
    on_error: Callable[[DuplexdError], None] = field(default=lambda _: None)
