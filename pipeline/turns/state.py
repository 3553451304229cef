"""The turn core's settings and state: frozen, so that a step is a function."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

#: milliseconds of one window of the voice activity detector
WINDOW_MS = 32.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSettings:
    """How turns are decided.

    Parameters:
        threshold: speech probability from which a window counts as voiced.
        onset_windows: voiced windows in a row that open a turn in silence.
        playback_onset_windows: the same while an answer is made or played.
        floor_ms: silence that ends a turn.
        max_turn_ms: a turn that lasts this long ends whatever the user does.
        interruptible: voice during an answer interrupts it; otherwise it is not listened to.
        server_turns: the core finds the turns; otherwise only the client's commit ends one.
        auto_respond: answer a turn that the core ended.
        idle_ms: after so much silence since an answer was over, answer unasked, once; None: never.
    """

    threshold: float = 0.5
    onset_windows: int = 3
    playback_onset_windows: int = 3
    floor_ms: float = 200.0
    max_turn_ms: float = 60_000.0
    interruptible: bool = True
    server_turns: bool = True
    auto_respond: bool = True
    idle_ms: float | None = None


class Phase(Enum):
    """Where the user's turn stands."""

    IDLE = "idle"  # nobody speaks
    SPEAKING = "speaking"  # a turn is open
    DECIDED = "decided"  # the turn is over, its text is awaited


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnState:
    """Everything the core knows.

    Parameters:
        settings: how turns are decided.
        phase: where the user's turn stands.
        run: voiced windows in a row.
        opened_ms: when the open turn began.
        silence_ms: silence since the last voiced window, starvation included.
        now_ms: the audio clock.
        request: number of the last `Finalise`; replies to others are stale.
        answering: an answer is made or played.
        called: that answer has called a function; never without one.
        unasked: the last answer came by itself, after a silence.
        asked: the request that waits, for the turn's text or for the end of an answer that has
            called a function.
        aside: out-of-band requests that wait, the oldest first.
        quiet_ms: since when nobody has spoken; None until an answer was over, and during one.
        manual: the turn that was decided was committed by the client.
        firm: the turn that was decided cannot go on.
    """

    settings: TurnSettings = field(default_factory=TurnSettings)
    phase: Phase = Phase.IDLE
    run: int = 0
    opened_ms: float = 0.0
    silence_ms: float = 0.0
    now_ms: float = 0.0
    request: int = 0
    answering: bool = False
    called: bool = False
    unasked: bool = False
    asked: int | None = None
    aside: tuple[int, ...] = ()
    quiet_ms: float | None = None
    manual: bool = False
    firm: bool = False
