"""What travels with an answer through the pipeline, and what its makers tell the conversation."""

from __future__ import annotations

from tts_engine.errors import DuplexdError

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


class AnswerEvents:
    """What the services of an answer tell its conversation; the defaults do nothing."""

    def on_stamp(self, revision: int, name: str, at: float) -> None:
        """A latency stamp by its name in `pipeline.latency`, monotonic seconds."""

    def on_failure(self, revision: int, error: DuplexdError) -> None:
        """The answer cannot be finished as it should; what there is of it goes on."""
