"""What the turn core wants done, in this order. Times are milliseconds of received audio."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """A user turn begins; the recogniser gets the pre-roll and everything from now on."""

    at_ms: float


@dataclass(frozen=True, slots=True)
class Interrupt:
    """The current answer stops now, wherever it is."""


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
    """The turn's text is final: it enters the context.

    Parameters:
        text: not empty.
        language: of the turn.
        answer: it is answered.
        ask: the request that this answers, if the client made one.
    """

    text: str
    language: str
    answer: bool
    ask: int | None = None


@dataclass(frozen=True, slots=True)
class Discard:
    """The turn held nothing: no text enters the context, nothing is answered.

    Parameters:
        failed: the recogniser failed; False: nothing was said.
    """

    failed: bool


@dataclass(frozen=True, slots=True)
class Apologise:
    """Say that the turn could not be understood, in place of an answer, which `ask` wanted."""

    ask: int | None = None


@dataclass(frozen=True, slots=True)
class Forget:
    """The open turn is dropped as if it had never been: the client withdrew it."""


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer from the context as it is: the client's request, or None: unasked."""

    ask: int | None


@dataclass(frozen=True, slots=True)
class Drop:
    """The request will not be answered."""

    ask: int


@dataclass(frozen=True, slots=True)
class Idle:
    """Nobody has spoken for as long as the client set; an answer follows unasked.

    Parameters:
        since_ms: where the silence began.
        at_ms: when it was long enough.
    """

    since_ms: float
    at_ms: float


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
    | Drop
    | Idle
)
