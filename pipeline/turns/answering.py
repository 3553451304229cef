"""Answers and the requests for them: what begins, what waits, what gives way."""
# pyright: strict

from __future__ import annotations

from dataclasses import replace

from pipeline.turns.actions import Action, Drop, Idle, Interrupt, Pause, Respond, Resume
from pipeline.turns.speculation import revoke
from pipeline.turns.state import Answer, Phase, Step, TurnState, in_turn


# --- the answer ------------------------------------------------------------------------------
def begin(state: TurnState, *actions: Action) -> Step:
    """Takes actions that begin an answer; one that is made or played gives way to it."""
    state, stopped = in_turn(state, revoke, interrupt)
    return replace(state, answer=Answer(), quiet_ms=None), (*stopped, *actions)


def begin_of_turn(state: TurnState, *actions: Action) -> Step:
    """Begins the answer to a turn: what waited for the end of the last one is out of date."""
    return begin(replace(state, asked=None), *drop(state.asked), *actions)


def interrupt(state: TurnState) -> Step:
    """Stops the answer, if there is one."""
    return (state, ()) if state.answer is None else (over(state), (Interrupt(),))


def over(state: TurnState) -> TurnState:
    """The answer, if there is one, is over: the silence begins that may be too long."""
    answer = state.answer
    if answer is None:
        return state
    quiet_ms = None if answer.unasked else state.now_ms
    ended_ms = state.now_ms if answer.playing else state.ended_ms
    return replace(state, answer=None, quiet_ms=quiet_ms, ended_ms=ended_ms)


def pause(state: TurnState) -> Step:
    """Pauses the answer, if there is one and it is not paused."""
    if state.answer is None or is_paused(state):
        return state, ()
    return replace(state, answer=replace(state.answer, paused_ms=state.now_ms)), (Pause(),)


def resume(state: TurnState) -> Step:
    """Resumes the answer, if it is paused."""
    if state.answer is None or not is_paused(state):
        return state, ()
    return replace(state, answer=replace(state.answer, paused_ms=None)), (Resume(),)


def is_paused(state: TurnState) -> bool:
    """There is an answer, and it is paused."""
    return state.answer is not None and state.answer.paused_ms is not None


def playing(state: TurnState) -> TurnState:
    """The answer, if there is one, is audible from now on."""
    return (
        state
        if state.answer is None
        else replace(state, answer=replace(state.answer, playing=True))
    )


def called(state: TurnState) -> TurnState:
    """The answer, if there is one, has called a function."""
    return (
        state if state.answer is None else replace(state, answer=replace(state.answer, called=True))
    )


# --- requests --------------------------------------------------------------------------------
def respond(state: TurnState, ask: int, *, aside: bool) -> Step:
    """A request: begins at once, or waits."""
    if aside:
        return replace(state, aside=(*state.aside, ask)), ()
    dropped = drop(state.asked)
    if state.phase is Phase.DECIDED or has_called(state):
        return replace(state, asked=ask), dropped
    state, actions = begin(replace(state, asked=None), Respond(ask))
    return state, (*dropped, *actions)


def cancel(state: TurnState) -> Step:
    """Stops the answer, and drops all that waits."""
    state, stopped = in_turn(state, revoke, interrupt)
    dropped = tuple(action for ask in (state.asked, *state.aside) for action in drop(ask))
    return replace(state, asked=None, aside=()), (*stopped, *dropped)


def drop(ask: int | None) -> tuple[Action, ...]:
    """What becomes of a request, if there is one, that will not be answered."""
    return () if ask is None else (Drop(ask),)


def for_text(state: TurnState) -> int | None:
    """The request that waits for the turn's text, not for the end of an answer."""
    return None if has_called(state) else state.asked


def has_called(state: TurnState) -> bool:
    """There is an answer, and it has called a function."""
    return state.answer is not None and state.answer.called


def what_waits(state: TurnState) -> Step:
    """Begins what waited, once nothing stands before it."""
    manual = state.phase is Phase.SPEAKING and not state.settings.server_turns
    free = state.phase is Phase.IDLE or manual
    if state.closed or state.answer is not None or not free:
        return state, ()
    if state.asked is not None:
        return begin(replace(state, asked=None), Respond(state.asked))
    if state.aside:
        first, *rest = state.aside
        return begin(replace(state, aside=tuple(rest)), Respond(first))
    return state, ()


# --- silence ---------------------------------------------------------------------------------
def at_rest(state: TurnState) -> TurnState:
    """Nobody speaks any more."""
    quiet_ms = None if state.quiet_ms is None else state.now_ms
    return replace(state, phase=Phase.IDLE, run=0, quiet_ms=quiet_ms)


def idle(state: TurnState) -> Step:
    """Nobody speaks: an answer comes unasked when that has lasted too long."""
    since_ms, idle_ms = state.quiet_ms, state.settings.idle_ms
    if since_ms is None or idle_ms is None or not state.settings.server_turns:
        return state, ()
    if state.now_ms - since_ms < idle_ms:
        return state, ()
    state, actions = begin(state, Idle(since_ms, state.now_ms), Respond(None))
    return replace(state, answer=Answer(unasked=True)), actions
