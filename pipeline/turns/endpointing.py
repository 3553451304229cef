"""The open turn: from the onset to the text that is committed, and what ends it between them."""
# pyright: strict

from __future__ import annotations

from dataclasses import replace

from pipeline.turns.actions import (
    Action,
    Apologise,
    Commit,
    Discard,
    Dismiss,
    EndTurn,
    Forget,
    Listen,
    OpenTurn,
    Reason,
    Respond,
    Withdraw,
)
from pipeline.turns.answering import at_rest, begin, begin_of_turn, drop, for_text
from pipeline.turns.endpoint import wait_ms
from pipeline.turns.fading import Fading
from pipeline.turns.recognition import awaits_this_silence, finalise, finalise_early, withdraw
from pipeline.turns.settings import WINDOW_MS
from pipeline.turns.speculation import answers, revoke
from pipeline.turns.state import Phase, Silence, Step, Text, TurnState, in_turn


# --- it begins -------------------------------------------------------------------------------
def is_onset(state: TurnState) -> bool:
    """So many voiced windows in a row are somebody who speaks, and who may be listened to."""
    settings, answer = state.settings, state.answer
    if answer is None:
        return state.run >= settings.onset_windows
    needed = settings.playback_onset_windows if answer.playing else settings.onset_windows
    return settings.interruptible and state.run >= needed


def listen(state: TurnState) -> Step:
    """The recogniser gets what was voiced, and all from now on."""
    voiced_ms = state.run * WINDOW_MS
    state = replace(
        state,
        opened_ms=state.now_ms - voiced_ms,
        voiced_ms=voiced_ms,
        fading=Fading(voice_db=state.level_db),
        silence=Silence(),
        speculated=0,
        barred=False,
    )
    return state, (Listen(state.opened_ms),)


def open_turn(state: TurnState) -> Step:
    """What is listened to is a turn."""
    return replace(state, phase=Phase.SPEAKING), (OpenTurn(state.opened_ms),)


def manual(state: TurnState) -> Step:
    """A window while the client decides: the recogniser hears everything between two commits."""
    match state.phase:
        case Phase.IDLE:
            return in_turn(state, listen, open_turn)
        case Phase.SPEAKING:
            return replace(state, silence=Silence()), ()
        case _:
            return state, ()


# --- it lasts --------------------------------------------------------------------------------
def voiced(state: TurnState) -> Step:
    """A voiced window of the open turn."""
    state, actions = goes_on(state)
    if state.now_ms - state.opened_ms < state.settings.max_turn_ms:
        return state, actions
    state, ended = end(state, firm=True)
    return state, (*actions, *ended)


def goes_on(state: TurnState) -> Step:
    """Voice: the silence is over. If it is more than a click, so is what was made of it."""
    state = replace(state, silence=Silence())
    if state.run < state.settings.resume_windows:
        return state, ()
    return in_turn(state, withdraw, revoke)


def silent(state: TurnState, for_ms: float) -> Step:
    """The open turn is silent for so much longer."""
    state = longer(state, for_ms)
    if not state.settings.server_turns:
        return state, ()
    return end(state) if _is_over(state) else finalise_early(state)


def longer(state: TurnState, for_ms: float) -> TurnState:
    """The silence has become longer."""
    return replace(state, silence=replace(state.silence, ms=state.silence.ms + for_ms))


def end_if_over(state: TurnState) -> Step:
    """Ends the turn, if one is open and its silence is long enough for what is known of it."""
    return end(state) if _is_over(state) else (state, ())


def reopen(state: TurnState) -> Step:
    """A voiced window before the text is there: a user who goes on keeps the turn, as if it had not
    been decided.
    """
    if state.firm or not is_onset(state):
        return state, ()
    state = replace(state, phase=Phase.SPEAKING, silence=Silence(), pending=None)
    state, revoked = revoke(state)
    return state, (Withdraw(decided=True), *revoked)


def _is_over(state: TurnState) -> bool:
    settings, silence = state.settings, state.silence
    if state.phase is not Phase.SPEAKING or not settings.server_turns:
        return False
    if silence.text is None:
        return silence.ms >= max(settings.floor_ms, settings.ceiling_ms)
    wait = wait_ms(settings, text=silence.text.text, probability=silence.probability)
    return silence.ms >= wait


# --- it ends ---------------------------------------------------------------------------------
def end(state: TurnState, *, manual: bool = False, firm: bool = False) -> Step:
    """Decides that the turn is over; its text is committed as soon as it is known."""
    firm = firm or manual
    state = replace(state, phase=Phase.DECIDED, run=0, manual=manual, firm=firm)
    ended = EndTurn(state.now_ms, firm)
    if state.silence.text is not None:
        state, actions = resolve(state)
        return state, (ended, *actions)
    if awaits_this_silence(state):
        return state, (ended,)
    state, withdrawn = withdraw(state)
    state, asked = finalise(state)
    return state, (*withdrawn, ended, *asked)


def resolve(state: TurnState) -> Step:
    """The text of the turn that was decided is known, or it is known that there is none."""
    said = state.silence.text
    if said is None:
        return _failed(state)
    return _commit(state, said) if said.text else _discard(state)


def _commit(state: TurnState, said: Text) -> Step:
    asked, live = for_text(state), state.speculation
    state = at_rest(state)
    if asked is None and not _answers_by_itself(state):
        state, revoked = revoke(state)
        return state, (*revoked, Commit(said.text, said.language, answer=False))
    number = 0
    if asked is None and live is not None and answers(live, said):
        # What a client asks for has options of its own: nothing that was made before fits it.
        number, state = live.number, replace(state, speculation=None)
    return _answer(state, asked, Commit(said.text, said.language, True, asked, number))


def _discard(state: TurnState) -> Step:
    asked, (state, revoked) = for_text(state), revoke(at_rest(state))
    discard = (*revoked, Discard(failed=False))
    if asked is None:
        return state, discard
    return begin(replace(state, asked=None), *discard, Respond(asked))


def _failed(state: TurnState) -> Step:
    asked, (state, revoked) = for_text(state), revoke(at_rest(state))
    discard = (*revoked, Discard(failed=True))
    if asked is None and not _answers_by_itself(state):
        return state, discard
    return _answer(state, asked, *discard, Apologise(asked))


def _answer(state: TurnState, asked: int | None, *actions: Action) -> Step:
    """The turn is answered; by it the request that waited for its text."""
    return begin_of_turn(state if asked is None else replace(state, asked=None), *actions)


def _answers_by_itself(state: TurnState) -> bool:
    return not state.manual and state.settings.auto_respond


# --- the client's word -----------------------------------------------------------------------
def forget(state: TurnState) -> Step:
    """The open turn never was; with it goes the request that waited for its text."""
    state, actions = in_turn(state, withdraw, revoke)
    asked = for_text(state)
    if asked is not None:
        state = replace(state, asked=None)
    return at_rest(state), (*actions, Forget(), *drop(asked))


def dismiss(state: TurnState, reason: Reason, text: str = "") -> Step:
    """What was listened to is no turn."""
    state, actions = withdraw(state)
    return at_rest(state), (*actions, Dismiss(reason, text))


def text_turn(state: TurnState, text: str, language: str) -> Step:
    """The user's turn came as text: it takes the place of what is listened to."""
    if not text:
        return state, ()
    actions: tuple[Action, ...] = ()
    if state.phase is Phase.CANDIDATE:
        state, actions = dismiss(state, Reason.WITHDRAWN)
    elif state.phase is not Phase.IDLE:
        state, actions = forget(state)
    state, begun = begin_of_turn(state, Commit(text, language, answer=True))
    return state, (*actions, *begun)
