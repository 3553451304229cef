"""The turn core: a pure function from state and event to state and actions.

    IDLE ---- onset: Listen, OpenTurn ----> SPEAKING -- silence, text: EndTurn, Commit --> IDLE
     |                                        ^ | ^
     |                                        | | '-- the user goes on: Withdraw --.
     |                                        | '-- a long silence: EndTurn --> DECIDED
     |                                        |                                    |
     |              speech: OpenTurn, Interrupt                  the text: Commit  '----> IDLE
     |                                        |
     '- onset over an answer: Pause, Listen -> CANDIDATE -- no turn: Resume, Dismiss --> IDLE

Time is counted in windows of received audio. A window is voiced if it is probably speech, the user
is not muted, and it is no echo of an answer; what a client does not send counts as silence.

**The open turn** (`endpointing`, `recognition`). Early in every silence the recogniser is asked,
once, for the text; it and an acoustic model's opinion decide how long the silence has to be, from
`floor_ms` to `ceiling_ms`. Without a text it is the ceiling: then the turn is decided and its text
is awaited, and a user who goes on meanwhile keeps the turn. A voiced window voids what was known of
the silence. A turn that the client committed, or that lasted too long, is decided firmly: what
comes then is the next one's. It is committed in the same step if its text is known.

**Speculation** (`speculation`). With the text, the answer is made, and held. It is void as soon as
the user goes on; a click alone starts the silence anew, and the answer is kept if the text comes
out the same. When the turn ends with that text, the held answer is the answer. None is made while
there is another answer, a request that waits, or nobody who wants one; one that called a function
ends it for this turn.

**Barge-in** (`barge_in`). Sounds over an answer, and right after one that may echo, are a
candidate: the answer pauses and the recogniser listens, and nobody is told. Speech, by its text or
by its length, takes over: the turn opens and the answer is interrupted. A cough, a backchannel or
an echo is dismissed, and playing goes on; it does so too when the verdict is late. A new sound
pauses it again. From every echo the core learns how loud the next one is (`loudness`).

**Answers** (`answering`). What the client asks for begins at once, with these exceptions:

- the text of a turn is awaited: that text is answered by the request;
- an answer plays that has called a function: it is waited for, as it leads up to the next one;
- the request is out of band: it waits until nobody speaks and nothing is answered.

A later request takes the place of one that waits, out-of-band ones apart, which are answered one
after the other. A user who speaks over an answer drops the request that waits for its end, but not
those out of band; `CancelRequested` drops them all. What begins takes the place of an answer that
is made or played, speculation included. A turn that comes as text takes the place of the spoken
one. Nobody speaks for long after an answer: one comes unasked, once. `Abandoned` ends the answer,
what waits, and the turn that is open or decided.

What always holds:

- a `Listen` ends in exactly one of `OpenTurn` and `Dismiss`, a turn in exactly one of `Commit`,
  `Discard` and `Forget`, a `Finalise` in exactly one of a reply and `Withdraw`, a `Speculate` in
  exactly one of a `Commit` with its number and `Revoke`, and a request in exactly one of its answer
  and `Drop`;
- `Pause` and `Resume` alternate, within one answer; an answer that ends is not resumed;
- `Speculate` is the last action of its step;
- a user who falls silent, a recogniser that replies and answers that end lead back to IDLE.
"""
# pyright: strict

from __future__ import annotations

from dataclasses import replace

from pipeline.turns import answering, barge_in, endpointing, speculation
from pipeline.turns.actions import Reason
from pipeline.turns.events import (
    Abandoned,
    AnswerEnded,
    Called,
    CancelRequested,
    Cleared,
    Closed,
    ContextChanged,
    Event,
    FinalFailed,
    FinalText,
    ManualCommit,
    Muted,
    PartialText,
    PlaybackStarted,
    RespondRequested,
    Starved,
    TextTurn,
    TurnProbability,
    Window,
    Withdrawn,
)
from pipeline.turns.fading import faded
from pipeline.turns.recognition import awaits_this_silence
from pipeline.turns.settings import WINDOW_MS
from pipeline.turns.state import Phase, Step, Text, TurnState, in_turn


def step(state: TurnState, event: Event) -> Step:
    """Decides what an event means.

    Args:
        state: as the last step left it.
        event: what happened; whatever comes too late or out of place means nothing.

    Returns:
        The new state, and the actions to be taken in order.
    """
    if state.closed:
        return state, ()
    return in_turn(state, lambda state: _taken(state, event), answering.what_waits)


def _taken(state: TurnState, event: Event) -> Step:
    match event:
        case Window() | Starved() | Muted():
            return _heard(state, event)
        case FinalText() | FinalFailed() | PartialText() | TurnProbability():
            return _recognised(state, event)
        case Withdrawn(number, for_good):
            return speculation.withdrawn(state, number, for_good=for_good)
        case ContextChanged():
            return speculation.context_changed(state)
        case PlaybackStarted():
            return answering.playing(state), ()
        case Called():
            return answering.called(state), ()
        case AnswerEnded():
            return answering.over(state), ()
        case _:
            return _demanded(state, event)


# --- the microphone --------------------------------------------------------------------------
def _heard(state: TurnState, event: Window | Starved | Muted) -> Step:
    match event:
        case Window(at_ms, probability, level_db):
            voiced = probability >= state.settings.threshold and not state.muted
            state = replace(state, now_ms=at_ms, level_db=level_db)
            state, voiced = barge_in.told_from_echo(state, voiced=voiced)
            fading = state.fading
            if state.phase is not Phase.IDLE:
                fading = faded(fading, level_db, voiced=voiced)
            state = replace(state, run=state.run + 1 if voiced else 0, fading=fading)
            if not state.settings.server_turns and state.phase is not Phase.CANDIDATE:
                return endpointing.manual(state)
            return _voiced(state) if voiced else _silent(state, WINDOW_MS)
        case Starved(for_ms):
            return _silent(replace(state, run=0), for_ms)
        case _:
            return replace(state, muted=event.on, run=0), ()


def _voiced(state: TurnState) -> Step:
    match state.phase:
        case Phase.IDLE:
            return barge_in.onset(state)
        case Phase.CANDIDATE:
            return barge_in.voiced(state)
        case Phase.SPEAKING:
            return endpointing.voiced(state)
        case _:
            return endpointing.reopen(state)


def _silent(state: TurnState, for_ms: float) -> Step:
    match state.phase:
        case Phase.IDLE:
            return answering.idle(state)
        case Phase.CANDIDATE:
            return barge_in.silent(state, for_ms)
        case Phase.SPEAKING:
            return endpointing.silent(state, for_ms)
        case _:
            return state, ()


# --- the recogniser --------------------------------------------------------------------------
def _recognised(
    state: TurnState, event: FinalText | FinalFailed | PartialText | TurnProbability
) -> Step:
    match event:
        case FinalText(request, text, language) if request == state.pending:
            said = Text(text, language, laughter=event.laughter)
            return _replied(state, said, event.audible)
        case FinalFailed(request) if request == state.pending:
            return _replied(state, None)
        case PartialText(text, audible) if state.phase is Phase.CANDIDATE:
            return barge_in.partial(state, text, audible)
        case TurnProbability(request, probability) if request == state.silence.request:
            state = replace(state, silence=replace(state.silence, probability=probability))
            return endpointing.end_if_over(state)
        case _:  # stale
            return state, ()


def _replied(state: TurnState, said: Text | None, audible: str = "") -> Step:
    """The reply to the pending `Finalise`; None: the recogniser failed."""
    timely = awaits_this_silence(state)
    state = replace(state, pending=None)
    if not timely:  # there was a click since; the silence that lasts is asked about anew
        return state, ()
    state = replace(state, silence=replace(state.silence, text=said))
    match state.phase:
        case Phase.CANDIDATE:
            return barge_in.replied(state, audible)
        case Phase.DECIDED:
            return endpointing.resolve(state)
        case _:
            return in_turn(state, endpointing.end_if_over, speculation.speculate)


# --- the client ------------------------------------------------------------------------------
def _demanded(
    state: TurnState,
    event: TextTurn
    | ManualCommit
    | Cleared
    | Abandoned
    | RespondRequested
    | CancelRequested
    | Closed,
) -> Step:
    match event:
        case TextTurn(text, language):
            return endpointing.text_turn(state, text, language)
        case ManualCommit():
            return _committed(state)
        case Cleared():
            return _cleared(state)
        case Abandoned():
            return in_turn(state, answering.cancel, _forgotten)
        case RespondRequested(ask, aside):
            return answering.respond(state, ask, aside=aside)
        case CancelRequested():
            return answering.cancel(state)
        case _:
            return replace(state, closed=True), ()


def _committed(state: TurnState) -> Step:
    """The turn is over by the client's word, and what may be one is one."""
    match state.phase:
        case Phase.CANDIDATE:
            return in_turn(state, barge_in.accept, _commit)
        case Phase.SPEAKING:
            return _commit(state)
        case _:
            return state, ()


def _commit(state: TurnState) -> Step:
    return endpointing.end(state, manual=True)


def _cleared(state: TurnState) -> Step:
    """Drops what is open; a turn that was decided is no longer the client's to withdraw."""
    return (state, ()) if state.phase is Phase.DECIDED else _forgotten(state)


def _forgotten(state: TurnState) -> Step:
    """Drops the turn, however far it is."""
    match state.phase:
        case Phase.CANDIDATE:
            return barge_in.give_back(state, Reason.WITHDRAWN)
        case Phase.SPEAKING | Phase.DECIDED:
            return endpointing.forget(state)
        case _:
            return state, ()
