"""Frames of our own: how the turn driver's decisions travel through the pipeline."""

from __future__ import annotations

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
        instructions: for this answer alone.
    """

    revision: int = 0
    language: str = ""
    instructions: str = ""
    interruptible: bool = field(default=False, init=False)


@dataclass
class AnswerFrame(ControlFrame):
    """Answer from the context as it is.

    Parameters:
        revision: of the answer.
        language: of the turn that was answered last.
        instructions: for this answer alone.
    """

    revision: int = 0
    language: str = ""
    instructions: str = ""
    interruptible: bool = field(default=False, init=False)


@dataclass
class HeardTextFrame(SystemFrame):
    """The whole text heard so far of the open answer.

    A system frame, so that it stays in order with the interruption or the end that follows it;
    the whole prefix, so that a lost or repeated one does no harm.

    Parameters:
        revision: of the answer.
        text: raw text, as the LLM wrote it.
    """

    revision: int = 0
    text: str = ""
