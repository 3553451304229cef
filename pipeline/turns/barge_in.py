"""Barge-in: what becomes of sounds over an answer.

The answer pauses at the onset, which costs the listener nothing. What was said, or for how long,
then tells whether it was a turn, which interrupts, or none, and playing goes on where it stood.
"""
# pyright: strict

from __future__ import annotations

from dataclasses import replace

from pipeline.turns.actions import Reason
from pipeline.turns.answering import drop, interrupt, is_paused, pause, resume
from pipeline.turns.backchannels import may_become_backchannel
from pipeline.turns.endpointing import (
    dismiss,
    end_if_over,
    goes_on,
    is_onset,
    listen,
    longer,
    open_turn,
)
from pipeline.turns.judgement import judge
from pipeline.turns.loudness import (
    begun,
    has_none,
    heard,
    lasted,
    not_heard,
    perhaps_echo,
    stands_out,
    was_echo,
    was_voice,
)
from pipeline.turns.recognition import finalise_early
from pipeline.turns.settings import WINDOW_MS
from pipeline.turns.speculation import speculate
from pipeline.turns.state import Phase, Step, Text, TurnState, in_turn


def told_from_echo(state: TurnState, *, voiced: bool) -> tuple[TurnState, bool]:
    """Whether a window counts as voiced: one that is no louder than the echo of what plays does
    not. While an answer is paused all do: what is an echo ends by itself then.
    """
    listening = state.phase in {Phase.IDLE, Phase.CANDIDATE} and not state.muted
    if not listening or is_paused(state) or not _may_be_echo(state):
        return state, voiced
    known = state.loudness
    if voiced and stands_out(known, state.level_db):
        return state, True
    if state.answer is not None and voiced:
        known = heard(known, state.level_db, for_ms=WINDOW_MS)
    elif state.answer is not None:
        known = not_heard(known, for_ms=WINDOW_MS, lead_ms=state.settings.lead_ms)
    return replace(state, loudness=known), False


def onset(state: TurnState) -> Step:
    """A voiced window while nothing is listened to."""
    if not is_onset(state):
        return state, ()
    if state.answer is not None or _may_be_echo(state):
        return in_turn(state, pause, _consider)
    return in_turn(state, listen, open_turn)


def voiced(state: TurnState) -> Step:
    """A voiced window of a candidate."""
    loudness = lasted(state.loudness, state.level_db)
    state = replace(state, echo=_may_be_echo(state), loudness=loudness)
    if not _is_likely_echo(state):  # which would prove nothing by its length
        state = replace(state, voiced_ms=state.voiced_ms + WINDOW_MS)
    elif not is_paused(state) and not is_onset(state):
        return state, ()  # nor would a click: the verdict on what was heard before is awaited
    state, actions = goes_on(state)
    if state.voiced_ms >= state.settings.barge_in_ms:
        state, more = take_over(state)
    elif is_onset(state) and not is_paused(state):  # it had gone on, or it is another one
        state, more = pause(replace(state, loudness=begun(state.loudness, state.level_db)))
    else:
        more = ()
    return state, (*actions, *more)


def silent(state: TurnState, for_ms: float) -> Step:
    """A candidate is silent for so much longer; the verdict may come after the answer goes on."""
    state, asked = finalise_early(longer(state, for_ms))
    if state.silence.ms < state.settings.resume_ms:
        return state, asked
    if is_paused(state):
        state = _learn(state)  # before the rest of the answer is heard
    state, resumed = resume(state)
    return state, (*asked, *resumed)


def replied(state: TurnState, audible: str) -> Step:
    """The recogniser has said what a candidate is, or that it cannot: the verdict."""
    said = state.silence.text
    if said is None:
        return give_back(state, Reason.FAILED)
    reason = _judge(state, said, audible)
    if reason is Reason.BACKCHANNEL and state.answer is None and not _is_likely_echo(state):
        reason = None  # there is nothing to hear on: it is the reply
    return take_over(state) if reason is None else give_back(state, reason, said.text)


def partial(state: TurnState, text: str, audible: str) -> Step:
    """It is known what a candidate said so far: clear speech need not wait for its end."""
    if _judge(state, Text(text, ""), audible) is None and not may_become_backchannel(text):
        return take_over(state)
    return state, ()


def give_back(state: TurnState, reason: Reason, text: str = "") -> Step:
    """A candidate was no turn: playing goes on."""
    if reason in {Reason.ECHO, Reason.NOISE}:
        state = _learn(state)
    return in_turn(state, resume, lambda state: dismiss(state, reason, text))


def take_over(state: TurnState) -> Step:
    """A candidate is a turn, and goes on as one with its silence and its text as they are."""
    return in_turn(state, accept, end_if_over, speculate)


def accept(state: TurnState) -> Step:
    """A candidate is a turn: it interrupts the answer that it was spoken over, if that still lives,
    and the request that waited for its end is dropped.
    """
    state, opened = open_turn(replace(state, loudness=was_voice(state.loudness)))
    if state.answer is None:
        return state, opened
    asked = state.asked
    state, interrupted = interrupt(replace(state, asked=None))
    return state, (*opened, *interrupted, *drop(asked))


def _consider(state: TurnState) -> Step:
    """Listens to a candidate."""
    known, echo = state.loudness, _may_be_echo(state)
    sudden = has_none(known, lead_ms=state.settings.lead_ms)
    known = begun(known, state.level_db)
    state = replace(state, phase=Phase.CANDIDATE, echo=echo, sudden=sudden, loudness=known)
    state, actions = listen(state)
    return (replace(state, voiced_ms=0.0) if _is_likely_echo(state) else state), actions


def _judge(state: TurnState, said: Text, audible: str) -> Reason | None:
    return judge(
        said.text,
        audible=audible,
        echo=state.echo,
        scraps=_is_likely_echo(state),
        laughter=said.laughter,
    )


def _learn(state: TurnState) -> TurnState:
    """A candidate was no turn: if it lay where an echo lies, the next echo is like it."""
    if not state.echo:
        return state
    learn = perhaps_echo if state.sudden else was_echo
    return replace(state, loudness=learn(state.loudness))


def _is_likely_echo(state: TurnState) -> bool:
    """A candidate may be an echo so far, and there is no reason to think that there is none."""
    return state.echo and not state.sudden


def _may_be_echo(state: TurnState) -> bool:
    """The client can have played, at this moment or just before it, what is heard now."""
    settings, answer = state.settings, state.answer
    if not settings.echo:
        return False
    if state.ended_ms is not None and state.now_ms - state.ended_ms <= settings.echo_tail_ms:
        return True
    if answer is None or not answer.playing:
        return False
    late_ms = 0.0 if answer.paused_ms is None else state.now_ms - answer.paused_ms
    return late_ms <= settings.lead_ms + settings.echo_tail_ms
