# pyright: strict
"""What a device and a conversation say to each other: a pure core between the two.

    IDLE --- begin: start ---> SPEAKING --- end, flush: stop ---> IDLE
                                  |  ^
                  end of an       |  |  begin: goes on without
                  answer that     v  |  a second start
                  called tools: WORKING --- rested: stop ---> IDLE

An `Abort` is answered by `tts stop` at once, wherever this is: many firmwares speak on until they
see one. What it stops is named by its revision, so whatever of it is still on its way finds
another one live, or none, and goes nowhere. A turn that was decided in that moment may still begin
its answer: until the conversation has obeyed (`abandoned`) nothing of it is told.

The connection closes at the end of an answer that has called for it (`leave`) and has said
anything, or at the end of a farewell: that follows such an answer without words, or a long silence.
Speech, a text and an abort keep it open.

When the microphone counts:

- before the first `listen start` never: that is the wake word, which a device sends as a burst;
- auto: while the device is not told to speak. It stops its microphone then, and what it hears
  would be itself. It need not say `listen start` again: some clients do not;
- manual: between `listen start` and `listen stop`;
- realtime: always.

What always holds: starts and stops alternate, but for stops that answer an abort; frames and
subtitles come between a start and its stop, and are those of the live answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from services.answer import by_language
from services.face import Ending
from services.xiaozhi.emotion import NEUTRAL, emotion_of, subtitle
from services.xiaozhi.events import (
    Abort,
    Audio,
    Detect,
    DeviceEvent,
    Goodbye,
    Hello,
    Ignored,
    IotDescriptors,
    IotStates,
    ListenStart,
    ListenStop,
    Mcp,
    Mode,
    Ping,
)
from services.xiaozhi.messages import (
    Alert,
    Message,
    Pong,
    SentenceStart,
    ServerHello,
    Stt,
    TtsStart,
    TtsStop,
)
from services.xiaozhi.settings import XiaozhiSettings


# --- what is to be done ----------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Send:
    """The device is told."""

    message: Message


@dataclass(frozen=True, slots=True)
class Play:
    """The device plays a frame.

    Parameters:
        first: of its answer.
    """

    pcm: bytes
    first: bool


@dataclass(frozen=True, slots=True)
class Greeted:
    """The hellos are exchanged; the device's tools may be asked for."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class Hear:
    """A packet of the microphone counts."""

    audio: Audio


@dataclass(frozen=True, slots=True)
class Configure:
    """The device listens in another mode."""

    mode: Mode


@dataclass(frozen=True, slots=True)
class Clear:
    """A turn begins by hand: what was heard before is none of it."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A turn ended by hand."""


@dataclass(frozen=True, slots=True)
class Respond:
    """What was said by hand is to be answered: the conversation waits for that with such turns."""


@dataclass(frozen=True, slots=True)
class Say:
    """The user's turn came as text."""

    text: str


@dataclass(frozen=True, slots=True)
class Speak:
    """A sentence of ours is spoken."""

    text: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """The answer and the turn are given up."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The device tells of its tools, or what one of them gave."""

    event: Mcp | IotDescriptors | IotStates


@dataclass(frozen=True, slots=True)
class Stir:
    """Somebody is there: the time until the farewell begins anew."""


@dataclass(frozen=True, slots=True)
class Drop:
    """A message means nothing: it is counted."""

    ignored: Ignored


@dataclass(frozen=True, slots=True)
class Close:
    """The connection ends."""


Action = (
    Send
    | Play
    | Greeted
    | Hear
    | Configure
    | Clear
    | Commit
    | Respond
    | Say
    | Speak
    | Abandon
    | Tools
    | Stir
    | Drop
    | Close
)
Actions = tuple[Action, ...]


class Phase(StrEnum):
    """What the device has been told to do."""

    IDLE = "idle"
    SPEAKING = "speaking"
    WORKING = "working"  # it is to speak on when the tools are done


_STOP = Send(TtsStop())


class Dialogue:
    """One connection's.

    Args:
        settings: of the face.
        sample_rate, frame_ms: of the downlink, for the hello.
    """

    def __init__(
        self, *, settings: XiaozhiSettings, sample_rate: int = 24_000, frame_ms: int = 60
    ) -> None:
        self._settings = settings
        self._hello = ServerHello(sample_rate=sample_rate, frame_ms=frame_ms)
        self._language = settings.language
        self.phase = Phase.IDLE
        self.mode: Mode | None = None
        self._pressed = False  # the button of a manual device
        self._released = False  # and the turn that it ended has no text yet
        self._live: int | None = None  # revision of the answer that the device is told
        self._played = False  # a frame of it was sent
        self._faced = False  # its face was sent
        self._called = False  # it has called tools
        self._leaving = False  # the connection closes after what is said now
        self._giving_up = 0  # aborts that the conversation has yet to obey

    # --- the device --------------------------------------------------------------------------
    def receive(self, event: DeviceEvent) -> Actions:
        """What a message of the device's means."""
        match event:
            case Audio():
                return (Hear(event),) if self._listens else ()
            case Hello():
                return (Send(self._hello), Greeted(event), Stir())
            case ListenStart(mode):
                return self._listen(mode)
            case ListenStop():
                return self._release()
            case Detect(text):
                return self._detected(text)
            case Abort():
                return self._abort()
            case Mcp() | IotDescriptors() | IotStates():
                return (Tools(event),)
            case Ping():
                return (Send(Pong()),)
            case Goodbye():
                return (*self._stop(), Close())
            case Ignored():
                return (Drop(event),)

    @property
    def _listens(self) -> bool:
        match self.mode:
            case None:
                return False
            case "auto":
                return self.phase is Phase.IDLE
            case "manual":
                return self._pressed
            case "realtime":
                return True

    def _listen(self, mode: Mode) -> Actions:
        changed = () if mode == self.mode else (Configure(mode),)
        self.mode = mode
        if mode != "manual":
            return (*changed, Stir())
        self._pressed = True
        # Devices send an abort first; a program may not.
        aborted = self._abort() if self.phase is not Phase.IDLE else ()
        return (*aborted, *changed, Clear(), Stir())

    def _release(self) -> Actions:
        if not self._pressed:
            return ()
        self._pressed, self._released = False, True
        return (Commit(), Stir())

    def _detected(self, text: str) -> Actions:
        if not self._settings.is_wake_word(text):
            return (Say(text), Stir())
        greeting = self._text(self._settings.greeting)
        greets = greeting and self.phase is Phase.IDLE
        return (Speak(greeting), Stir()) if greets else (Stir(),)

    def _abort(self) -> Actions:
        self._live, self.phase = None, Phase.IDLE
        self._leaving = self._released = False
        self._giving_up += 1
        return (_STOP, Abandon(), Stir())

    def abandoned(self) -> None:
        """The conversation has done so: what comes from now on is new."""
        self._giving_up -= 1

    # --- the conversation: see services.face.Sink ---------------------------------------------
    def begin(self, revision: int) -> Actions:
        """An answer begins: the device gets ready while the first audio is made."""
        if self._giving_up:
            return ()
        self._live = revision
        self._played = self._faced = self._called = False
        goes_on = self.phase is not Phase.IDLE
        self.phase = Phase.SPEAKING
        return (Stir(),) if goes_on else (Send(TtsStart()), Stir())

    def text(self, revision: int, text: str) -> Actions:
        """A piece of its text, just before its audio."""
        if revision != self._live:
            return ()
        found = emotion_of(text)
        shown = subtitle(text)
        face = found or NEUTRAL
        faced, self._faced = self._faced, self._faced or found is not None or bool(shown)
        faces = () if faced or not self._faced else (Send(face),)
        return (*faces, Send(SentenceStart(shown))) if shown else faces

    def audio(self, revision: int, pcm: bytes) -> Actions:
        """A frame of it."""
        if revision != self._live:
            return ()
        first, self._played = not self._played, True
        return (Play(pcm, first),)

    def working(self, revision: int) -> Actions:
        """It has called tools: another answer follows."""
        if revision == self._live:
            self._called = True
        return ()

    def rested(self) -> Actions:
        """Nothing follows any more."""
        if self.phase is Phase.WORKING:
            return self._part() if self._leaving else self._stop()
        self._called = False
        return ()

    def leave(self) -> None:
        """The language model has called for the end. Nothing holds if its answer was stopped."""
        self._leaving = self._leaving or self.phase is not Phase.IDLE

    def flush(self, revision: int) -> Actions:
        """It was interrupted."""
        if revision != self._live:
            return ()
        self._leaving = False
        return self._stop()

    def end(self, revision: int, ending: Ending) -> Actions:
        """It is over, and was played."""
        if revision != self._live:
            return ()
        if self._called and ending.outcome == "answered":
            self._live, self.phase = None, Phase.WORKING
            return (Stir(),)
        failed = ending.outcome == "failed" and not self._played
        told = self._alert(ending.error.message if ending.error else "") if failed else ()
        leaves = (Close(),) if self._leaving else ()
        return (*told, *self._stop(), Stir(), *leaves)

    def turn_opened(self) -> Actions:
        """The user speaks, and nothing is answered."""
        self._leaving = False
        return (Stir(),)

    def final(self, text: str, language: str) -> Actions:
        """What the user said."""
        self._language = language or self._language
        if not text or self._giving_up:
            return ()
        self._leaving = False
        by_hand, self._released = self._released, False
        return (Send(Stt(text)), *((Respond(),) if by_hand else ()), Stir())

    def error(self, message: str) -> Actions:
        """Something failed, and nobody says it aloud."""
        return self._alert(message)

    # --- the connection ----------------------------------------------------------------------
    def idle(self) -> Actions:
        """Nobody was heard for long: farewell, or another while if something is going on."""
        if self._leaving and self.phase is not Phase.SPEAKING:  # the farewell did not come
            return (*self._stop(), Close())
        if self.phase is not Phase.IDLE:
            return (Stir(),)
        self._leaving = True
        return self._farewell()

    def shut(self) -> Actions:
        """The connection is about to be closed: the device is not left speaking."""
        return self._stop()

    # --- helpers -----------------------------------------------------------------------------
    def _part(self) -> Actions:
        """The answer that called for the end is over."""
        return (*self._stop(), Close()) if self._played else self._farewell()

    def _farewell(self) -> Actions:
        farewell = self._text(self._settings.farewell)
        return (Speak(farewell), Stir()) if farewell else (*self._stop(), Close())

    def _stop(self) -> Actions:
        self._live, self._called = None, False
        speaking, self.phase = self.phase is not Phase.IDLE, Phase.IDLE
        return (_STOP,) if speaking else ()

    def _alert(self, message: str) -> Actions:
        return (Send(Alert(status=self._text(self._settings.failed), message=message)),)

    def _text(self, texts: Mapping[str, str]) -> str:
        return by_language(texts, self._language)
