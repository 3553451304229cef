"""What travels with an answer through the pipeline, and what its makers tell the conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipecat.frames.frames import AggregatedTextFrame
from pipecat.utils.text.base_text_aggregator import TextType

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


def by_language(texts: Mapping[str, str], language: str) -> str:
    """The text of a language, or the first one where the language is unknown."""
    return texts.get(language) or next(iter(texts.values()), "")


def apology(text: str) -> AggregatedTextFrame:
    """A sentence of the daemon's own: spoken, and no part of the answer that the context gets."""
    frame = AggregatedTextFrame(text, TextType.SENTENCE, raw_text=text)
    frame.metadata[CLAUSE] = Clause(text=text, raw="", ends=(0,) * len(text))
    return frame
