"""Whether words that were said over an answer are a turn, or leave the answer alone."""
# pyright: strict

from __future__ import annotations

from pipeline.turns.actions import Reason
from pipeline.turns.backchannels import is_backchannel, is_command, is_laughter, spoken
from pipeline.turns.echo import is_echo, is_scrap


def judge(
    text: str, *, audible: str, echo: bool, scraps: bool = False, laughter: bool = False
) -> Reason | None:
    """Why what was said over an answer is no turn; None: it is one.

    - No words, or only marks of sounds ([music], ♪): noise. Laughter is a backchannel.
    - Nothing but agreement and listening sounds: a backchannel, whenever it was said.
    - An order to stop, wait or change is a turn, even if the answer said the same words: to be
      deaf to it is the worst mistake.
    - What is like the audible words is an echo, where one is possible; so is a scrap of a text, if
      `scraps`.
    - Anything else is a turn.

    Args:
        text: what was recognised, final or so far.
        audible: the words that the client played meanwhile and just before.
        echo: by client and time, this may be an echo: the client cancels none, and the voice lies
            inside what was played. Somebody who answers an option by repeating it is later.
        scraps: the pause may have cut an echo off, of which a recogniser makes other words.
        laughter: the recogniser heard somebody laugh.
    """
    if not spoken(text):
        return Reason.BACKCHANNEL if laughter or is_laughter(text) else Reason.NOISE
    if is_backchannel(text):
        return Reason.BACKCHANNEL
    if is_command(text) or not echo:
        return None
    return Reason.ECHO if is_echo(text, audible) or (scraps and is_scrap(text)) else None
