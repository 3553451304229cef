"""The contract between a face and the conversation.

A face owns a socket and a protocol: it does the handshake, turns bytes into calls on a
`Conversation`, and implements `Sink`, through which the conversation is heard. Faces never import
the pipeline: they are given a `SessionFactory`.

        face --audio(), commit(), say(), add(), respond(), cancel(), close()--> Conversation
        face <--begin(), audio(), text(), calls, pause(), flush(), end(), user events-- Conversation

Every method of a Sink is called from the event loop, in order, and must return soon: it puts its
message on the face's one writer queue. Only the audio path awaits the socket.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from services.items import ContextItem, FunctionCall
from services.tools import DaemonTool, Tool, ToolChoice
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
#: why an answer that was played to its end is not whole
Cut = Literal["max_tokens", "content_filter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of an answer, as the language model's server counted them."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an answer ended.

    Parameters:
        heard: what was heard of its text: the text that the context holds.
        error: why it failed, with outcome "failed".
        usage: its tokens, where the server told them.
        cut: why it is not whole, with outcome "answered".
    """

    outcome: Outcome
    heard: str = ""
    error: DuplexdError | None = None
    usage: Usage | None = None
    cut: Cut | None = None


class Sink(ABC):
    """What a conversation speaks through. Revisions are numbers that name an answer."""

    profile: PacingProfile

    # --- the answer -------------------------------------------------------------------------
    @abstractmethod
    async def begin(self, revision: int, *, ask: int | None = None) -> None:
        """A committed answer starts. Nothing of it came before this.

        Args:
            ask: `AnswerOptions.ask` of the `respond` that it answers; None: it answers a turn. It
                comes again with what follows `working`.
        """

    async def dropped(self, ask: int) -> None:  # noqa: B027 - faces that never ask ignore it
        """The answer that was asked for will not come: another one took its place, the user spoke,
        or it was cancelled before it began. Each `respond` with an `ask` ends in exactly one of
        `begin` and this, unless the conversation ends first.
        """

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

    # A function call is told as the model writes it, while the answer's speech may still play.
    async def call_begun(self, revision: int, call_id: str, name: str) -> None:  # noqa: B027
        """The language model starts to write a function call."""

    async def call_arguments(self, revision: int, call_id: str, delta: str) -> None:  # noqa: B027
        """A piece of its arguments."""

    async def call_done(self, revision: int, call: FunctionCall) -> None:  # noqa: B027
        """The call is whole, and in the context unless the answer is out of band. Its output comes
        by `Conversation.add`; nothing is answered until `respond`. A call that was begun and did
        not get this is void.
        """

    async def working(self, revision: int) -> None:  # noqa: B027
        """The answer has called functions that the daemon runs. It ends as any other; then `begin`
        of the next one follows when they are done, or `rested`.
        """

    async def rested(self, revision: int) -> None:  # noqa: B027
        """What followed `working` is off: the user went on, or cancelled."""

    async def abandoned(self) -> None:  # noqa: B027
        """`Conversation.abandon` was obeyed: what came before this may have been of what was given
        up, what comes after it is not. One for each.
        """

    @abstractmethod
    async def flush(self, revision: int, *, heard_ms: int) -> None:
        """The answer was interrupted: the client drops what it has buffered. `end` follows.

        Args:
            heard_ms: how much of the answer's audio was played, by the daemon's play head.
        """

    @abstractmethod
    async def end(self, revision: int, ending: Ending) -> None:
        """The answer is over."""

    # Sounds over an answer pause it until it is known whether they are a turn. Only an answer that
    # was begun is paused; pauses and resumes of one alternate. What ends it while it is paused,
    # `flush` or `end`, ends the pause as well, without `resume`.
    async def pause(self, revision: int) -> None:  # noqa: B027 - faces that cannot pause ignore it
        """Nothing is sent until `resume`. With `SessionOptions.pauses` the client stops playing at
        once and keeps what it has; another one plays out what it has.
        """

    async def resume(self, revision: int) -> None:  # noqa: B027
        """Sending goes on from the exact sample, and so does a client that stopped playing."""

    # --- the user ---------------------------------------------------------------------------
    @abstractmethod
    async def turn_opened(self, *, at_ms: int) -> None:
        """The user's turn opened: somebody speaks and nothing is answered, or what was said over
        an answer interrupts it; `flush` and `end` of that one follow. A cough, an echo, or a word
        of agreement over an answer opens none.

        Args:
            at_ms: where the voice began, on the clock of received audio: well before this is told,
                if it was not known at first whether it interrupts.
        """

    @abstractmethod
    async def turn_ended(self, *, at_ms: int) -> None:
        """The turn core decided that the user's turn is over."""

    @abstractmethod
    async def partial(self, text: str) -> None:
        """What is recognised so far of the open turn; replaces the previous partial."""

    @abstractmethod
    async def final(self, text: str, language: str, *, turn: int) -> None:
        """The text of the turn that ended; empty when nothing was said. Recognition that failed is
        told by `error` in its place.

        Args:
            turn: names it in the context, see `turn_ref`; 0 when nothing was said.
        """

    async def idle(self, *, since_ms: int, at_ms: int) -> None:  # noqa: B027
        """Nobody has spoken for `SessionOptions.idle_ms`; an answer follows by itself.

        Args:
            since_ms, at_ms: the silence, on the clock of received audio.
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
        interruptible: speech during playback interrupts.
        floor_ms: silence that ends a turn.
        max_tokens: bound of an answer.
        temperature: of the LLM.
        speak: False: answers come as text only, and no audio is made of them.
        idle_ms: after so much silence since the last answer was played, answer unasked, once.
        languages: the only ones that the user speaks; None: those of the configuration.
        hotwords: names and terms that the user is likely to say.
        echo_cancelled: the client's microphone does not hear its loudspeaker. False: what is heard
            during an answer, and just after it, may be that answer.
        pauses: the client stops playing at `Sink.pause` and keeps what it has.
        tools: functions of the client's that the LLM may ask for.
        tool_choice: whether it may, must, or which.
        daemon_tools: functions that the daemon runs itself when the LLM asks for them: those of
            the client's device, say. The client is not told of their calls.
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
    idle_ms: int | None = None
    languages: tuple[str, ...] | None = None
    hotwords: tuple[str, ...] = ()
    echo_cancelled: bool = False
    pauses: bool = False
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = "auto"
    daemon_tools: tuple[DaemonTool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions:
    """What a client asks of one answer; None keeps what the session has.

    Parameters:
        ask: number by which `Sink.begin` and `Sink.dropped` name this request.
        instructions, voice, speak, max_tokens, tools, tool_choice: see SessionOptions.
        context: answer from these items instead of the conversation's.
        remember: the answer becomes part of the conversation. False: it is out of band: the
            context does not get it, and it interrupts nothing but waits for its turn.
        text: a sentence that is spoken as it is; the LLM is not asked.
    """

    ask: int | None = None
    instructions: str | None = None
    voice: str | None = None
    speak: bool | None = None
    max_tokens: int | None = None
    tools: tuple[Tool, ...] | None = None
    tool_choice: ToolChoice | None = None
    context: tuple[ContextItem, ...] | None = None
    remember: bool = True
    text: str | None = None


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

    def mute(self, on: bool) -> None:
        """The user's microphone is off, or on again: what it sends meanwhile counts as silence."""

    def say(self, text: str, language: str = "") -> None:
        """The user's turn came as text, a wake word say: it is answered at once.

        It takes the place of a turn that is open, and interrupts an answer.

        Args:
            text: not empty.
            language: of the text; empty: by the text itself.
        """

    def add(self, ref: str, item: ContextItem, *, after: str | None = None) -> None:
        """Adds an item to the context, without answering.

        Args:
            ref: its name, see `item_ref`; not in use.
            after: name of the item that it follows, or ROOT; None, or one that is gone: the last.
        """

    def remove(self, ref: str) -> None:
        """Takes an item out of the context; nothing happens if it is not there (any more)."""

    def respond(self, options: AnswerOptions | None = None) -> None:
        """Answer now, from the context as it is.

        A playing answer is interrupted first; one that has called a function is waited for, as its
        words lead up to the answer that follows. While the text of a turn is awaited, the answer
        waits for it. A later request takes the place of one that waits; so does the answer to a
        user who speaks over the playing one.

        Answers out of band wait until nobody speaks and nothing is answered, one after the other,
        and only `cancel` drops them.

        Raises:
            UnknownVoice, BadRequest: at once, and neither `begin` nor `dropped` follows.
        """

    def cancel(self) -> None:
        """Stop the answer that is being made or played, if any, and drop those that wait."""

    def abandon(self) -> None:
        """Start afresh: as `cancel`, and the user's turn goes too, be it open or decided, with the
        audio that came before this.
        """

    def heard_until(self, revision: int, audio_ms: int) -> None:
        """The client's own report of how much of an answer was played, of one of the last 32.

        The context holds what it says. An answer that still plays is stopped, as by `cancel`.
        """

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
