"""What travels with an answer through the pipeline, and what its makers tell the conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipecat.frames.frames import AggregatedTextFrame
from pipecat.utils.text.base_text_aggregator import TextType

from services.face import Cut, Usage
from services.items import FunctionCall
from tts_engine.errors import DuplexdError
from tts_engine.text.clause import Clause

# Keys of `Frame.metadata`, the only place where a frame of pipecat's can carry something of ours.
#: revision of the answer that the frame belongs to: int
REVISION = "revision"
#: language of the turn that is answered: "zh", "en" or ""
LANGUAGE = "language"
#: instructions for this answer alone: str
INSTRUCTIONS = "instructions"
#: the clause that a text or a chunk of audio belongs to: Clause
CLAUSE = "clause"
#: alignment of a chunk of audio: tuple[Mark, ...]
MARKS = "marks"
#: on the answer's end: text after the last clause that nobody speaks, a code block say: str
TAIL = "tail"
#: on the answer's end: what is said if nothing of the answer can be: Fallback
FALLBACK = "fallback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """An answer of which nothing can be spoken has failed; this is said instead.

    Parameters:
        text: the apology; empty for none.
        error: why.
    """

    text: str
    error: DuplexdError


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


def by_language(texts: Mapping[str, str], language: str) -> str:
    """The text of a language, or the first one where the language is unknown."""
    return texts.get(language) or next(iter(texts.values()), "")


def apology(text: str) -> AggregatedTextFrame:
    """A sentence of the daemon's own: spoken, and no part of the answer that the context gets."""
    frame = AggregatedTextFrame(text, TextType.SENTENCE, raw_text=text)
    frame.metadata[CLAUSE] = Clause(text=text, raw="", ends=(0,) * len(text))
    return frame
