"""What the turn core wants done, in this order. Times are milliseconds of received audio."""
# pyright: strict

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Listen:
    """Somebody makes sounds: the recogniser gets everything from `at_ms` on, with its pre-roll.

    Nobody is told yet: over an answer it is not known whether this is a turn.
    """

    at_ms: float


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """What is listened to since `at_ms` is a turn of the user: the client is told."""

    at_ms: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Playing stops at this moment and keeps its place; the answer goes on being made."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Playing goes on from the exact sample."""


class Reason(StrEnum):
    """Why sounds over an answer were no turn."""

    NOISE = "noise"  # no words: a cough, a knock
    BACKCHANNEL = "backchannel"  # the user agrees and wants to hear on
    ECHO = "echo"  # the client's microphone hears its loudspeaker
    FAILED = "failed"  # the recogniser could not say
    WITHDRAWN = "withdrawn"  # the client does not want it to count


@dataclass(frozen=True, slots=True)
class Dismiss:
    """What was listened to is no turn and is forgotten; the answer is untouched."""

    reason: Reason
    text: str = ""


@dataclass(frozen=True, slots=True)
class Interrupt:
    """The current answer stops now, wherever it is."""


@dataclass(frozen=True, slots=True)
class Finalise:
    """The recogniser should say what the turn holds; the reply names the request.

    An acoustic model, if there is one, is asked at the same time whether the user has finished.
    """

    request: int


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The pending `Finalise` is no longer wanted: the user goes on.

    Parameters:
        decided: the turn was decided, and is open again.
    """

    decided: bool = False


@dataclass(frozen=True, slots=True)
class Speculate:
    """Make an answer to this text, and hold it: the user has probably finished.

    Parameters:
        number: names the speculation; there is at most one at a time.
        text: not empty.
        language: of the text.
    """

    number: int
    text: str
    language: str


@dataclass(frozen=True, slots=True)
class Revoke:
    """The speculation is void: nothing of it may cost any more work or be heard."""

    number: int


@dataclass(frozen=True, slots=True)
class EndTurn:
    """The user's turn is over, by decision at `at_ms`.

    Parameters:
        at_ms: when it was decided.
        firm: nothing can be added any more; otherwise the user may still go on, if `Commit` or
            `Discard` does not follow at once.
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
        number: the speculation that is the answer; 0: a new answer begins.
    """

    text: str
    language: str
    answer: bool
    ask: int | None = None
    number: int = 0


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
    Listen
    | OpenTurn
    | Pause
    | Resume
    | Dismiss
    | Interrupt
    | Finalise
    | Withdraw
    | Speculate
    | Revoke
    | EndTurn
    | Commit
    | Discard
    | Apologise
    | Forget
    | Respond
    | Drop
    | Idle
)
