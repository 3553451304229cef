"""What the turn core wants done, in this order. Times are milliseconds of received audio."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """A user turn begins; the recogniser gets the pre-roll and everything from now on."""

    at_ms: float


@dataclass(frozen=True, slots=True)
class Interrupt:
    """The current answer stops now, wherever it is.

    Parameters:
        by_user: the user spoke; False: the client asked for it.
    """

    by_user: bool


@dataclass(frozen=True, slots=True)
class Finalise:
    """The recogniser should say what the turn holds; the reply names the request."""

    request: int


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The pending `Finalise` is no longer wanted: the user goes on."""


@dataclass(frozen=True, slots=True)
class EndTurn:
    """The user's turn is over, by decision at `at_ms`, before its text is known.

    Parameters:
        at_ms: when it was decided.
        firm: nothing can be added any more; otherwise the user may still go on.
    """

    at_ms: float
    firm: bool


@dataclass(frozen=True, slots=True)
class Commit:
    """The turn's text is final: it enters the context, and is answered if `answer` is set."""

    text: str
    language: str
    answer: bool
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class Discard:
    """The turn held nothing: no text enters the context, nothing is answered.

    Parameters:
        failed: the recogniser failed; False: nothing was said.
    """

    failed: bool


@dataclass(frozen=True, slots=True)
class Apologise:
    """Say that the turn could not be understood, in place of an answer."""


@dataclass(frozen=True, slots=True)
class Forget:
    """The open turn is dropped as if it had never been: the client withdrew it."""


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer from the context as it is, by these instructions if any."""

    instructions: str = ""


Action = (
    OpenTurn
    | Interrupt
    | Finalise
    | Withdraw
    | EndTurn
    | Commit
    | Discard
    | Apologise
    | Forget
    | Respond
)
