"""What the turn core is told. Times are milliseconds on the clock of received audio."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """A window of the voice activity detector ended at `at_ms` with this speech probability."""

    at_ms: float
    probability: float


@dataclass(frozen=True, slots=True)
class Starved:
    """The client sent nothing for `for_ms`; it counts as silence, though no sample came."""

    for_ms: float


@dataclass(frozen=True, slots=True)
class FinalText:
    """The recogniser's answer to `Finalise(request)`; empty text: nothing was said."""

    request: int
    text: str
    language: str


@dataclass(frozen=True, slots=True)
class FinalFailed:
    """The recogniser could not answer `Finalise(request)`."""

    request: int


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


Event = (
    Window
    | Starved
    | FinalText
    | FinalFailed
    | AnswerEnded
    | Called
    | ManualCommit
    | Cleared
    | RespondRequested
    | CancelRequested
)
