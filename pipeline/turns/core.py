"""The turn core: a pure function from state and event to state and actions.

        IDLE --onset--> SPEAKING --floor of silence--> DECIDED --final text--> IDLE
                            ^                             |
                            '---- the user goes on -------'

This first policy ends a turn at a fixed silence. The text is awaited after that, and a user who
goes on meanwhile keeps the turn: the wait for the recogniser costs no cut-off. A turn that the
client committed, or that lasted too long, is decided firmly: what comes then is the next one's.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.turns.actions import (
    Action,
    Apologise,
    Commit,
    Discard,
    EndTurn,
    Finalise,
    Forget,
    Interrupt,
    OpenTurn,
    Respond,
    Withdraw,
)
from pipeline.turns.events import (
    AnswerEnded,
    CancelRequested,
    Cleared,
    Event,
    FinalFailed,
    FinalText,
    ManualCommit,
    RespondRequested,
    Starved,
    Window,
)
from pipeline.turns.state import WINDOW_MS, Phase, TurnState

Step = tuple[TurnState, tuple[Action, ...]]


def step(state: TurnState, event: Event) -> Step:
    """Decides what an event means.

    Args:
        state: as the last step left it.
        event: what happened.

    Returns:
        The new state, and the actions to be taken in order.
    """
    match event:
        case Window():
            return _window(state, event)
        case Starved(for_ms):
            return _silence(state, for_ms)
        case FinalText(request, text, language):
            return _final(state, request, text, language)
        case FinalFailed(request):
            return _failed(state, request)
        case AnswerEnded():
            return replace(state, answering=False), ()
        case ManualCommit():
            return _manual_commit(state)
        case Cleared():
            return _cleared(state)
        case RespondRequested(instructions):
            return _respond(state, instructions)
        case CancelRequested():
            return _cancel(state)


def _window(state: TurnState, event: Window) -> Step:
    settings = state.settings
    voiced = event.probability >= settings.threshold
    state = replace(state, now_ms=event.at_ms, run=state.run + 1 if voiced else 0)
    if not settings.server_turns:
        # The client decides; the recogniser hears everything between two commits.
        return _open(state) if state.phase is Phase.IDLE else (state, ())
    if not voiced:
        return _silence(state, WINDOW_MS)
    if state.phase is Phase.SPEAKING:
        state = replace(state, silence_ms=0.0)
        if event.at_ms - state.opened_ms >= settings.max_turn_ms:
            return _decide(state, firm=True)
        return state, ()
    return _onset(state)


def _onset(state: TurnState) -> Step:
    """A voiced window outside a turn."""
    settings = state.settings
    needed = settings.playback_onset_windows if state.answering else settings.onset_windows
    if state.run < needed or (state.answering and not settings.interruptible):
        return state, ()
    if state.phase is Phase.DECIDED:
        if state.firm:
            return state, ()
        # The user goes on before the text was there: the same turn, as if it had not been decided.
        return replace(state, phase=Phase.SPEAKING, silence_ms=0.0), (Withdraw(),)
    if state.answering:
        state = replace(state, answering=False)
        opened, actions = _open(state)
        # Clients drop what they have buffered when they are told that a turn opened: tell it first,
        # an interruption takes its way through the whole pipeline.
        return opened, (*actions, Interrupt(by_user=True))
    return _open(state)


def _open(state: TurnState) -> Step:
    opened_ms = state.now_ms - state.run * WINDOW_MS
    state = replace(state, phase=Phase.SPEAKING, opened_ms=opened_ms, silence_ms=0.0)
    return state, (OpenTurn(opened_ms),)


def _silence(state: TurnState, for_ms: float) -> Step:
    if state.phase is not Phase.SPEAKING or not state.settings.server_turns:
        return state, ()
    state = replace(state, silence_ms=state.silence_ms + for_ms)
    return _decide(state) if state.silence_ms >= state.settings.floor_ms else (state, ())


def _decide(state: TurnState, *, manual: bool = False, firm: bool = False) -> Step:
    request = state.request + 1
    state = replace(
        state, phase=Phase.DECIDED, request=request, run=0, manual=manual, firm=manual or firm
    )
    return state, (EndTurn(state.now_ms, state.firm), Finalise(request))


def _final(state: TurnState, request: int, text: str, language: str) -> Step:
    if state.phase is not Phase.DECIDED or request != state.request:
        return state, ()
    owed, answer = state.owed, _wants_answer(state)
    idle = replace(state, phase=Phase.IDLE, owed=None, run=0)
    if text:
        commit = Commit(text, language, answer, owed or "")
        return _answering(idle, commit) if answer else (idle, (commit,))
    if owed is not None:
        return _answering(idle, Discard(failed=False), Respond(owed))
    return idle, (Discard(failed=False),)


def _failed(state: TurnState, request: int) -> Step:
    if state.phase is not Phase.DECIDED or request != state.request:
        return state, ()
    answer = _wants_answer(state)
    idle = replace(state, phase=Phase.IDLE, owed=None, run=0)
    if not answer:
        return idle, (Discard(failed=True),)
    return _answering(idle, Discard(failed=True), Apologise())


def _answering(state: TurnState, *actions: Action) -> Step:
    """Takes actions that begin an answer; one that still plays gives way to it."""
    if state.answering:
        actions = (Interrupt(by_user=False), *actions)
    return replace(state, answering=True), actions


def _wants_answer(state: TurnState) -> bool:
    """The turn that was decided is to be answered."""
    return state.owed is not None or (not state.manual and state.settings.auto_respond)


def _manual_commit(state: TurnState) -> Step:
    if state.phase is not Phase.SPEAKING:
        return state, ()
    return _decide(state, manual=True)


def _cleared(state: TurnState) -> Step:
    """Drops the open turn; one that was decided is no longer the client's to withdraw."""
    if state.phase is not Phase.SPEAKING:
        return state, ()
    return replace(state, phase=Phase.IDLE, run=0), (Forget(),)


def _respond(state: TurnState, instructions: str) -> Step:
    if state.phase is Phase.DECIDED:
        return replace(state, owed=instructions), ()
    return _answering(state, Respond(instructions))


def _cancel(state: TurnState) -> Step:
    state = replace(state, owed=None)
    if not state.answering:
        return state, ()
    return replace(state, answering=False), (Interrupt(by_user=False),)
