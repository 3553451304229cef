"""What the turn core is told. Times are milliseconds on the clock of received audio."""
# pyright: strict

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """A window of the voice activity detector.

    Parameters:
        at_ms: where it ended.
        probability: that it is speech.
        level_db: its mean power, decibels of full scale.
    """

    at_ms: float
    probability: float
    level_db: float


@dataclass(frozen=True, slots=True)
class Starved:
    """The client sent nothing for `for_ms`; it counts as silence, though no sample came."""

    for_ms: float


@dataclass(frozen=True, slots=True)
class Muted:
    """The user's microphone is off, or on again; what comes meanwhile counts as silence."""

    on: bool


@dataclass(frozen=True, slots=True)
class PartialText:
    """What is recognised so far of what is listened to; replaces the last one.

    Parameters:
        text: may be empty.
        audible: see `FinalText`.
    """

    text: str
    audible: str = ""


@dataclass(frozen=True, slots=True)
class FinalText:
    """The recogniser's answer to `Finalise(request)`.

    Parameters:
        request: names the question; answers to older ones are stale.
        text: empty: nothing was said.
        language: of the text.
        audible: what the client played while the user was heard, and in the 1.5 s before: what an
            echo would consist of. Empty when nothing was played.
        laughter: somebody laughed, if the recogniser can tell.
    """

    request: int
    text: str
    language: str
    audible: str = ""
    laughter: bool = False


@dataclass(frozen=True, slots=True)
class FinalFailed:
    """The recogniser could not answer `Finalise(request)`."""

    request: int


@dataclass(frozen=True, slots=True)
class TurnProbability:
    """What an acoustic model says of the silence at which `Finalise(request)` was asked: the
    probability that the user has finished.
    """

    request: int
    probability: float


@dataclass(frozen=True, slots=True)
class TextTurn:
    """The user's turn came as text, a wake word say; it is answered at once.

    Parameters:
        text: empty: it means nothing.
        language: of the text.
    """

    text: str
    language: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The speculation cannot be used.

    Parameters:
        number: of the speculation; a stale one means nothing.
        for_good: none may follow in this turn, as this one called a function, or failed; otherwise
            the next silence has another try, as the engines were busy.
    """

    number: int
    for_good: bool = False


@dataclass(frozen=True, slots=True)
class ContextChanged:
    """What answers are made from has changed, by the client's word: its items, what was heard of
    an answer, its instructions. A speculation was made from what it was.
    """


@dataclass(frozen=True, slots=True)
class PlaybackStarted:
    """The first frame of the answer was sent: from now on it is audible."""


@dataclass(frozen=True, slots=True)
class AnswerEnded:
    """The answer is over: played to its end, failed, or stopped."""


@dataclass(frozen=True, slots=True)
class Called:
    """The answer has called a function: its words lead up to the answer that follows."""


@dataclass(frozen=True, slots=True)
class ManualCommit:
    """The client says that the user's turn is over."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """The client withdraws the audio of the open turn."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The user wants to start afresh: the answer stops, and with it goes the turn that is open or
    whose text is awaited, and all that waits.
    """


@dataclass(frozen=True, slots=True)
class RespondRequested:
    """The client wants an answer from the context as it is.

    Parameters:
        ask: number that names the request.
        aside: it is out of band: it interrupts nothing and waits for its turn.
    """

    ask: int
    aside: bool = False


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The client wants the current answer to stop, and what waits not to begin."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The conversation is over: nothing that comes after this means anything."""


Event = (
    Window
    | Starved
    | Muted
    | PartialText
    | FinalText
    | FinalFailed
    | TurnProbability
    | TextTurn
    | Withdrawn
    | ContextChanged
    | PlaybackStarted
    | AnswerEnded
    | Called
    | ManualCommit
    | Cleared
    | Abandoned
    | RespondRequested
    | CancelRequested
    | Closed
)
