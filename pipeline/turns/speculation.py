"""Speculation: the answer is made as soon as there is a text, and held until the turn ends.

One is live at a time. It is kept as long as the text stays the same, and ends in exactly one of a
`Commit` that names it and a `Revoke`.
"""
# pyright: strict

from __future__ import annotations

from dataclasses import replace

from pipeline.turns.actions import Revoke, Speculate
from pipeline.turns.same_text import same_text
from pipeline.turns.state import Phase, Speculation, Step, Text, TurnState, in_turn


def speculate(state: TurnState) -> Step:
    """Makes the answer to what is known to be said, or keeps the one that is made already."""
    said = state.silence.text
    if state.phase is not Phase.SPEAKING or said is None or answers(state.speculation, said):
        return state, ()
    state, revoked = revoke(state)
    if not _may_speculate(state, said):
        return state, revoked
    number = state.number + 1
    state = replace(
        state,
        number=number,
        speculated=state.speculated + 1,
        speculation=Speculation(number, said.text),
    )
    return state, (*revoked, Speculate(number, said.text, said.language))


def revoke(state: TurnState) -> Step:
    """The live speculation, if there is one, is void."""
    if state.speculation is None:
        return state, ()
    return replace(state, speculation=None), (Revoke(state.speculation.number),)


def answers(speculation: Speculation | None, said: Text) -> bool:
    """The speculation, if there is one, answers this text."""
    return speculation is not None and bool(said.text) and same_text(speculation.text, said.text)


def withdrawn(state: TurnState, number: int, *, for_good: bool) -> Step:
    """A speculation cannot be used; a stale number means nothing."""
    if state.speculation is None or state.speculation.number != number:
        return state, ()
    return revoke(replace(state, barred=state.barred or for_good))


def context_changed(state: TurnState) -> Step:
    """A speculation was made from what the context no longer holds: it is made again."""
    return (state, ()) if state.speculation is None else in_turn(state, revoke, speculate)


def _may_speculate(state: TurnState, said: Text) -> bool:
    settings = state.settings
    wanted = settings.speculate and settings.auto_respond and settings.server_turns
    free = state.answer is None and state.asked is None and not state.barred
    return wanted and free and bool(said.text) and state.speculated < settings.speculations
