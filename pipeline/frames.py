"""Frames of our own: how the turn driver's decisions travel through the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pipecat.frames.frames import ControlFrame, SystemFrame


@dataclass
class TurnOpenFrame(SystemFrame):
    """A user turn that will be committed begins; pushed just before its transcript."""


@dataclass
class TurnCommitFrame(ControlFrame):
    """The user turn ends; its transcript came before this frame.

    A control frame, so that the transcript (data) cannot be overtaken, and uninterruptible, since
    an interruption that follows at once must not lose the user's words.

    Parameters:
        revision: of the answer; 0 writes the turn to the context without answering.
        language: of the turn.
        turn: names it in the context.
        emotion: how it was said; empty where nobody knows.
        ready: the answer was asked for before, by a `SpeculateFrame`.
    """

    revision: int = 0
    language: str = ""
    turn: int = 0
    emotion: str = ""
    ready: bool = False
    interruptible: bool = field(default=False, init=False)


@dataclass
class AnswerFrame(ControlFrame):
    """Answer from the context as it is.

    Parameters:
        revision: of the answer.
        language: of the turn that was answered last.
    """

    revision: int = 0
    language: str = ""
    interruptible: bool = field(default=False, init=False)


@dataclass
class SpeculateFrame(ControlFrame):
    """Answer from the context as it is and a turn that has not ended, which it does not get yet.

    An interruption drops the frame: the speculation is then void.

    Parameters:
        revision: of the answer.
        language: of the turn.
        text: of the turn.
        emotion: how it was said; empty where nobody knows.
    """

    revision: int = 0
    language: str = ""
    text: str = ""
    emotion: str = ""


@dataclass
class ContextEditFrame(ControlFrame):
    """The client changes the context: a frame, so that it keeps its place among the turns.

    Parameters:
        edit: makes the change.
    """

    edit: Callable[[], None] = lambda: None
    interruptible: bool = field(default=False, init=False)
