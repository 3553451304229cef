"""What travels with an answer through the pipeline, and what its makers tell the conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipecat.frames.frames import AggregatedTextFrame
from pipecat.utils.text.base_text_aggregator import TextType

from services.face import AnswerOptions, Cut, Usage
from services.items import FunctionCall
from services.tools import DaemonTool, Tool, ToolChoice
from tts_engine.errors import DuplexdError
from tts_engine.text.clause import Clause

# Keys of `Frame.metadata`, the only place where a frame of pipecat's can carry something of ours.
#: revision of the answer that the frame belongs to: int
REVISION = "revision"
#: language of the turn that is answered: "zh", "en" or ""
LANGUAGE = "language"
#: the clause that a text or a chunk of audio belongs to: Clause
CLAUSE = "clause"
#: alignment of a chunk of audio: tuple[Mark, ...]
MARKS = "marks"
#: on the answer's end: text after the last clause that nobody speaks, a code block say: str
TAIL = "tail"
#: on the answer's end: what is said if nothing of the answer can be: Fallback
FALLBACK = "fallback"

#: key of a user's message in the context: how it was said, as `Transcript.emotion`. Requests say
#: it in words, and do not hold it: str
EMOTION = "emotion"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """An answer of which nothing can be spoken has failed; this is said instead.

    Parameters:
        text: the apology; empty for none.
        error: why.
    """

    text: str
    error: DuplexdError


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPlan:
    """What holds for one answer from its beginning to its end, whatever its client changes later.

    Parameters:
        instructions: the client's own prompt; empty for the daemon's.
        prompt_language: of the daemon's prompt: that of the conversation's first turn. Empty: that
            of the turn that is answered.
        voice: a name of the engine's; None for its default.
        speed: pace of the voice.
        speak: False: it is read, and no audio is made.
        temperature: of the LLM.
        max_tokens: bound of the answer.
        tools: functions that the LLM may ask for.
        tool_choice: whether it may, must, or which.
        messages: what it is asked from in place of the conversation, in OpenAI's chat format.
        remember: False: the conversation's context gets nothing of it.
        ask: `services.face.AnswerOptions.ask`.
        text: is spoken as it is, and nobody is asked.
        daemon_tools: those of the tools that the daemon runs itself.
        options: what was asked of it.
    """

    instructions: str = ""
    prompt_language: str = ""
    voice: str | None = None
    speed: float = 1.0
    speak: bool = True
    temperature: float
    max_tokens: int
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = "auto"
    messages: tuple[dict[str, Any], ...] | None = None
    remember: bool = True
    ask: int | None = None
    text: str | None = None
    daemon_tools: tuple[DaemonTool, ...] = ()
    options: AnswerOptions = field(default_factory=AnswerOptions)

    def daemon_tool(self, name: str) -> DaemonTool | None:
        """The tool of this name, if the daemon runs it."""
        return next((each for each in self.daemon_tools if each.tool.name == name), None)


class AnswerPlans:
    """The plans of a conversation's answers: those that live, as dead ones need none."""

    def __init__(self) -> None:
        self._live: tuple[int, AnswerPlan] | None = None

    def open(self, revision: int, plan: AnswerPlan) -> None:
        """A revision becomes the live one."""
        self._live = revision, plan

    def close(self) -> None:
        """No revision is live any more."""
        self._live = None

    def of(self, revision: int) -> AnswerPlan | None:
        """The plan of a revision; None if it is not the live one."""
        return self._live[1] if self._live is not None and self._live[0] == revision else None


class AnswerEvents:
    """What the services of an answer tell its conversation; the defaults do nothing."""

    def on_stamp(self, revision: int, name: str, at: float) -> None:
        """A latency stamp by its name in `pipeline.latency`, monotonic seconds."""

    def on_failure(self, revision: int, error: DuplexdError) -> None:
        """The answer cannot be finished as it should; what there is of it goes on."""

    def on_call_begun(self, revision: int, call_id: str, name: str) -> None:
        """The language model starts to write a function call."""

    def on_call_arguments(self, revision: int, call_id: str, delta: str) -> None:
        """A piece of its arguments."""

    def on_call_done(self, revision: int, call: FunctionCall) -> None:
        """The call is whole."""

    def on_usage(self, revision: int, usage: Usage) -> None:
        """The server has counted the answer's tokens."""

    def on_cut(self, revision: int, cut: Cut) -> None:
        """The answer ends early: what was made of it is played to its end."""

    def on_shortened(self, revision: int, dropped: Sequence[Any]) -> None:
        """The answer's request holds less of its context: these messages were dropped from it."""


def by_language(texts: Mapping[str, str], language: str) -> str:
    """The text of a language, or the first one where the language is unknown."""
    return texts.get(language) or next(iter(texts.values()), "")


def apology(text: str) -> AggregatedTextFrame:
    """A sentence of the daemon's own: spoken, and no part of the answer that the context gets."""
    return _sentence(Clause(text=text, raw="", ends=(0,) * len(text)))


def statement(text: str) -> AggregatedTextFrame:
    """A sentence that somebody wants spoken as it is: it is the answer."""
    return _sentence(Clause(text=text, raw=text, ends=tuple(range(1, len(text) + 1))))


def _sentence(clause: Clause) -> AggregatedTextFrame:
    frame = AggregatedTextFrame(clause.text, TextType.SENTENCE, raw_text=clause.text)
    frame.metadata[CLAUSE] = clause
    return frame
