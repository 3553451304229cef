"""What the turn core knows: frozen, so that a step is a function."""
# pyright: strict

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from pipeline.turns.actions import Action
from pipeline.turns.fading import Fading
from pipeline.turns.loudness import FAINTEST_DB, Loudness
from pipeline.turns.settings import TurnSettings


class Phase(Enum):
    """Where the user's turn stands."""

    IDLE = "idle"  # nobody speaks
    CANDIDATE = "candidate"  # sounds over an answer are listened to: a turn or not
    SPEAKING = "speaking"  # a turn is open
    DECIDED = "decided"  # the turn is over, its text is awaited


@dataclass(frozen=True, slots=True)
class Text:
    """What the recogniser heard; an empty text: nothing was said.

    Parameters:
        laughter: somebody laughed.
    """

    text: str
    language: str
    laughter: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """The silence that lasts, and what is known of it; the next voiced window voids all of it.

    Parameters:
        ms: how long it is, starvation included.
        request: the `Finalise` that was asked in it.
        text: what the recogniser answered.
        probability: that the user has finished, as an acoustic model hears it.
    """

    ms: float = 0.0
    request: int | None = None
    text: Text | None = None
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class Speculation:
    """The answer that is made in advance, and the text that it answers."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer that is made or played.

    Parameters:
        playing: its first frame was sent.
        paused_ms: when playing was paused; None: it is not.
        called: it has called a function.
        unasked: it came by itself, after a silence.
    """

    playing: bool = False
    paused_ms: float | None = None
    called: bool = False
    unasked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnState:
    """Everything the core knows.

    Parameters:
        settings: how turns are decided.
        phase: where the user's turn stands.
        closed: the conversation is over.
        muted: the user's microphone is off.
        now_ms: the audio clock.
        level_db: of the last window.
        run: voiced windows in a row.
        opened_ms: when that began which is listened to.
        voiced_ms: how much voice a candidate has had.
        echo: the last voiced window of a candidate may have been an echo.
        sudden: nothing was heard of the answer before the candidate: that is hardly its echo.
        loudness: what is known of the echo.
        fading: how what is listened to fades away.
        silence: the one that lasts.
        request: number of the last `Finalise`.
        pending: the `Finalise` whose reply is awaited; replies to others are stale.
        speculation: the answer that is made in advance; at most one.
        number: of the last speculation.
        speculated: speculations of this turn.
        barred: none may follow in this turn.
        answer: the one that is made or played.
        ended_ms: when the last answer that was audible was over.
        asked: the request that waits, for the turn's text or for the end of an answer that has
            called a function.
        aside: out-of-band requests that wait, the oldest first.
        quiet_ms: since when nobody has spoken; None until an answer was over, and during one.
        manual: the turn that was decided was committed by the client.
        firm: the turn that was decided cannot go on.
    """

    settings: TurnSettings = field(default_factory=TurnSettings)
    phase: Phase = Phase.IDLE
    closed: bool = False
    muted: bool = False
    now_ms: float = 0.0
    level_db: float = FAINTEST_DB
    run: int = 0
    opened_ms: float = 0.0
    voiced_ms: float = 0.0
    echo: bool = False
    sudden: bool = False
    loudness: Loudness = field(default_factory=Loudness)
    fading: Fading = field(default_factory=Fading)
    silence: Silence = field(default_factory=Silence)
    request: int = 0
    pending: int | None = None
    speculation: Speculation | None = None
    number: int = 0
    speculated: int = 0
    barred: bool = False
    answer: Answer | None = None
    ended_ms: float | None = None
    asked: int | None = None
    aside: tuple[int, ...] = ()
    quiet_ms: float | None = None
    manual: bool = False
    firm: bool = False


Step = tuple[TurnState, tuple[Action, ...]]
Move = Callable[[TurnState], Step]


def in_turn(state: TurnState, *moves: Move) -> Step:
    """Makes moves one after the other: each from the state that the last one left."""
    actions: tuple[Action, ...] = ()
    for move in moves:
        state, more = move(state)
        actions += more
    return state, actions
