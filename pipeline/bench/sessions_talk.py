"""What every conversation of `bench sessions` does, again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.bench.wire import MICROPHONE_RATE
from services.scripted.tts import char_times
from tts_engine.text.stream import segment

if TYPE_CHECKING:
    from pipeline.config import Config

SPEECH_S, ANSWER_S, CYCLE_S = 3.0, 4.0, 9.0
#: what is said, about SPEECH_S of it
_SPEECH = "明天早上从北京去上海的火车有哪些"
#: what is answered, up to where it is about ANSWER_S; plain words
_ANSWER = "明天早上有好几趟火车，最早的一趟天刚亮就出发，中午以前就能到上海，车票还有很多"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Talk:
    """One cycle.

    Parameters:
        speech: what is said at its start, int16 at MICROPHONE_RATE; it ends with a sound.
        answer: what the scripted voice answers.
        cycle_s: length of the cycle.
        detector: of the server.
    """

    speech: NDArray[np.int16]
    answer: str
    cycle_s: float = CYCLE_S
    detector: str = "silero"

    @property
    def speech_s(self) -> float:
        """Where the speech ends."""
        return len(self.speech) / MICROPHONE_RATE

    @property
    def answer_s(self) -> float:
        """How long the answer is."""
        return _spoken_s(self.answer)

    @property
    def sets(self) -> dict[str, str]:
        """What a server is told."""
        return {"vad.provider": self.detector, "scripted.replies": f'["{self.answer}"]'}

    def microphone(self) -> bytes:
        """The whole cycle."""
        cycle = np.zeros(round(self.cycle_s * MICROPHONE_RATE), np.int16)
        cycle[: len(self.speech)] = self.speech
        return cycle.tobytes()


def spoken_talk(config: Config) -> Talk:
    """The cycle of the bench, in an embedded voice."""
    from pipeline.bench.speech import Line, synthesise

    [clip] = synthesise([Line(text=_SPEECH)], config)
    speech = clip.samples[: round(clip.end * MICROPHONE_RATE)]
    return Talk(speech=speech, answer=answer_of(ANSWER_S))


def answer_of(seconds: float) -> str:
    """As much of the answer as the scripted voice says in about so much time."""
    return min(
        (_ANSWER[:end] + "。" for end in range(1, len(_ANSWER))),
        key=lambda text: abs(_spoken_s(text) - seconds),
    )


def _spoken_s(text: str) -> float:
    return sum(char_times(clause.text)[-1] for clause in segment(text))
