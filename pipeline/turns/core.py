"""The turn core: a pure function from state and event to state and actions.

        IDLE --onset--> SPEAKING --floor of silence--> DECIDED --final text--> IDLE
                            ^                             |
                            '---- the user goes on -------'

This first policy ends a turn at a fixed silence. The text is awaited after that, and a user who
goes on meanwhile keeps the turn: the wait for the recogniser costs no cut-off. A turn that the
client committed, or that lasted too long, is decided firmly: what comes then is the next one's.

What the client asks for begins at once, with these exceptions:

- the text of a turn is awaited: that text is answered by the request;
- an answer plays that has called a function: it is waited for, as it leads up to the next one;
- the request is out of band: it waits until nobody speaks and nothing is answered.

A later request takes the place of one that waits, out-of-band ones apart, which are answered one
after the other. A user who speaks over an answer drops the request that waits for its end, but not
those out of band; `CancelRequested` drops them all.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.turns.actions import (
    Action,
    Apologise,
    Commit,
    Discard,
    Drop,
    EndTurn,
    Finalise,
    Forget,
    Idle,
    Interrupt,
    OpenTurn,
    Respond,
    Withdraw,
)
from pipeline.turns.events import (
    AnswerEnded,
    Called,
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
    state, actions = _decided(state, event)
    state, begun = _next(state)
    return state, (*actions, *begun)


def _decided(state: TurnState, event: Event) -> Step:
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
            return _over(state), ()
        case Called():
            return replace(state, called=state.answering), ()
        case ManualCommit():
            return _manual_commit(state)
        case Cleared():
            return _cleared(state)
        case RespondRequested(ask, aside):
            return _respond(state, ask, aside=aside)
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
        return _idle(state) if state.phase is Phase.IDLE else _silence(state, WINDOW_MS)
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
        opened, actions = _open(replace(_over(state), asked=None))
        # Clients drop what they have buffered when they are told that a turn opened: tell it first,
        # an interruption takes its way through the whole pipeline.
        return opened, (*actions, Interrupt(), *_drop(state.asked))
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
    asked, idle = _asked(state), _idled(state)
    if not text:
        discard = Discard(failed=False)
        return (idle, (discard,)) if asked is None else _answer(idle, discard, Respond(asked))
    answer = asked is not None or _answers_by_itself(state)
    commit = Commit(text, language, answer, asked)
    return _answer_turn(idle, commit) if answer else (idle, (commit,))


def _failed(state: TurnState, request: int) -> Step:
    if state.phase is not Phase.DECIDED or request != state.request:
        return state, ()
    asked, idle = _asked(state), _idled(state)
    discard = Discard(failed=True)
    if asked is None and not _answers_by_itself(state):
        return idle, (discard,)
    return _answer_turn(idle, discard, Apologise(asked))


def _asked(state: TurnState) -> int | None:
    """The request that waits for the turn's text, not for the end of an answer."""
    return None if state.called else state.asked


def _idled(state: TurnState) -> TurnState:
    """Nobody speaks any more; a request that waited for the turn's text waits no longer."""
    quiet_ms = None if state.quiet_ms is None else state.now_ms
    asked = None if _asked(state) is not None else state.asked
    return replace(state, phase=Phase.IDLE, run=0, quiet_ms=quiet_ms, asked=asked)


def _answer_turn(state: TurnState, *actions: Action) -> Step:
    """The user's turn is answered: what waited for the end of the last answer is out of date."""
    return _answer(replace(state, asked=None), *_drop(state.asked), *actions)


def _answer(state: TurnState, *actions: Action) -> Step:
    """Takes actions that begin an answer; one that still plays gives way to it."""
    if state.answering:
        actions = (Interrupt(), *actions)
    return replace(state, answering=True, called=False, unasked=False, quiet_ms=None), actions


def _over(state: TurnState) -> TurnState:
    """The answer, if there is one, is over: the silence begins that may be too long."""
    if not state.answering:
        return state
    quiet_ms = None if state.unasked else state.now_ms
    return replace(state, answering=False, called=False, quiet_ms=quiet_ms)


def _answers_by_itself(state: TurnState) -> bool:
    """The turn that was decided is answered unasked."""
    return not state.manual and state.settings.auto_respond


def _drop(ask: int | None) -> tuple[Action, ...]:
    return () if ask is None else (Drop(ask),)


def _manual_commit(state: TurnState) -> Step:
    if state.phase is not Phase.SPEAKING:
        return state, ()
    return _decide(state, manual=True)


def _cleared(state: TurnState) -> Step:
    """Drops the open turn; one that was decided is no longer the client's to withdraw."""
    if state.phase is not Phase.SPEAKING:
        return state, ()
    return _idled(state), (Forget(), *_drop(_asked(state)))


def _respond(state: TurnState, ask: int, *, aside: bool) -> Step:
    if aside:
        return replace(state, aside=(*state.aside, ask)), ()
    dropped = _drop(state.asked)
    if state.phase is Phase.DECIDED or state.called:
        return replace(state, asked=ask), dropped
    state, actions = _answer(replace(state, asked=None), Respond(ask))
    return state, (*dropped, *actions)


def _cancel(state: TurnState) -> Step:
    dropped = tuple(action for ask in (state.asked, *state.aside) for action in _drop(ask))
    interrupted = (Interrupt(),) if state.answering else ()
    return replace(_over(state), asked=None, aside=()), (*interrupted, *dropped)


def _next(state: TurnState) -> Step:
    """Begins what waited, once nothing stands before it."""
    speaking = state.phase is Phase.SPEAKING and state.settings.server_turns
    if state.answering or speaking or state.phase is Phase.DECIDED:
        return state, ()
    if state.asked is not None:
        return _answer(replace(state, asked=None), Respond(state.asked))
    if state.aside:
        first, *rest = state.aside
        return _answer(replace(state, aside=tuple(rest)), Respond(first))
    return state, ()


def _idle(state: TurnState) -> Step:
    """Nobody speaks: an answer comes unasked when that has lasted too long."""
    since_ms, idle_ms = state.quiet_ms, state.settings.idle_ms
    if since_ms is None or idle_ms is None or state.now_ms - since_ms < idle_ms:
        return state, ()
    state, actions = _answer(state, Idle(since_ms, state.now_ms), Respond(None))
    return replace(state, unasked=True), actions
