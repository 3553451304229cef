"""How turns are decided. Lengths are milliseconds of received audio."""
# pyright: strict

from __future__ import annotations

from dataclasses import dataclass

#: milliseconds of one window of the voice activity detector
WINDOW_MS = 32.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSettings:
    """How turns are decided.

    Parameters:
        threshold: speech probability from which a window counts as voiced.
        onset_windows: voiced windows in a row that open a turn in silence.
        playback_onset_windows: the same while an answer is heard: it pauses then.
        resume_windows: voiced windows in a row after which the user goes on with an open turn;
            fewer are a click, which starts the silence anew and costs no speculation.
        floor_ms: least silence that ends a turn, when the text is complete.
        ceiling_ms: silence that ends a turn whatever its text.
        finalise_ms: silence at which the recogniser is asked for the text.
        speculate: make the answer as soon as there is a text, and hold it until the turn ends.
        speculations: answers that may be made so in one turn.
        max_turn_ms: a turn that lasts this long ends whatever the user does.
        interruptible: voice during an answer interrupts it; otherwise it is not listened to.
        barge_in_ms: voice over an answer that interrupts it without a verdict on its text.
        resume_ms: silence after which a paused answer goes on, if there is no verdict by then.
        echo: the client's microphone may hear its loudspeaker.
        lead_ms: how much a client may go on playing after a pause.
        echo_tail_ms: how late an echo may come, after the end of what it repeats: what the client's
            loudspeaker, the room and the detector need.
        server_turns: the core finds the turns; otherwise only the client's commit ends one.
        auto_respond: answer a turn that the core ended.
        idle_ms: after so much silence since an answer was over, answer unasked, once; None: never.
    """

    threshold: float = 0.5
    onset_windows: int = 3
    playback_onset_windows: int = 3
    resume_windows: int = 2
    floor_ms: float = 200.0
    ceiling_ms: float = 1200.0
    finalise_ms: float = 128.0
    speculate: bool = True
    speculations: int = 4
    max_turn_ms: float = 60_000.0
    interruptible: bool = True
    barge_in_ms: float = 800.0
    resume_ms: float = 320.0
    echo: bool = False
    lead_ms: float = 200.0
    echo_tail_ms: float = 500.0
    server_turns: bool = True
    auto_respond: bool = True
    idle_ms: float | None = None
