"""What is asked of the recogniser: at most one `Finalise` is pending, and each of them ends in
exactly one of a reply and a `Withdraw`.
"""
# pyright: strict

from __future__ import annotations

from dataclasses import replace

from pipeline.turns.actions import Finalise, Withdraw
from pipeline.turns.state import Step, TurnState


def finalise(state: TurnState) -> Step:
    """Asks for the text up to now."""
    state, withdrawn = withdraw(state)
    request = state.request + 1
    silence = replace(state.silence, request=request)
    state = replace(state, request=request, pending=request, silence=silence)
    return state, (*withdrawn, Finalise(request))


def finalise_early(state: TurnState) -> Step:
    """Asks once in every silence, before it is long enough to end a turn.

    The silence counts from when the sound was gone. To decide by, that would be too bold: what is
    asked too early is withdrawn and costs nobody a word.
    """
    settings, silence = state.settings, state.silence
    lasts_ms = max(silence.ms, state.fading.ms)
    if silence.request is not None or lasts_ms < min(settings.finalise_ms, settings.floor_ms):
        return state, ()
    return finalise(state)


def withdraw(state: TurnState) -> Step:
    """The reply that is awaited, if one is, is no longer wanted."""
    return (state, ()) if state.pending is None else (replace(state, pending=None), (Withdraw(),))


def awaits_this_silence(state: TurnState) -> bool:
    """The reply that is awaited tells what was said before the silence that lasts."""
    return state.pending is not None and state.pending == state.silence.request
