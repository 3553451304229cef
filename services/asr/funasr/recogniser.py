"""A conversation's handle on FunASR: the turn's audio, and the texts that were asked for."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from loguru import logger

from services.asr.asked import Answer, Asked
from services.asr.base import SAMPLE_RATE, OnPartial, Recogniser, Samples, Transcript, Word
from services.asr.funasr.wire import Feed, Finished, Partial
from services.asr.turn_audio import TurnAudio
from services.language import language_of
from tts_engine.errors import EngineFailed

if TYPE_CHECKING:
    from services.asr.funasr.engine import FunAsrEngine

#: audio is sent when a chunk is whole, or this part of one waits
_SENT_PARTS = 5
#: what a text depends on: samples of the turn, languages, hotwords
_Question: TypeAlias = tuple[int, tuple[str, ...], tuple[str, ...]]


class FunAsrRecogniser(Recogniser):
    """Made by `FunAsrEngine.open`."""

    def __init__(self, *, engine: FunAsrEngine, session: str, on_partial: OnPartial | None) -> None:
        self._engine = engine
        self._session = session
        self._on_partial = on_partial if engine.partials else None
        self._languages = engine.languages
        self._hints: tuple[str, ...] = ()
        self._asked: Asked[_Question, Finished] = Asked()
        self._turn: int | None = None
        self._closed = False
        self._forget()

    def _forget(self) -> None:
        if self._turn is not None:
            self._engine.forget(self._turn)
        self._turn = None
        self._audio = TurnAudio(limit_s=self._engine.max_turn_s)
        self._unsent: list[bytes] = []
        self._sent = 0
        #: where the audio of the last text ends, partial or final
        self._told_end = 0
        self._told = ""
        self._result: tuple[_Question, Transcript] | None = None

    def restrict(self, languages: tuple[str, ...] | None) -> None:
        """See Recogniser."""
        known = self._engine.languages
        chosen = tuple(code for code in known if languages is None or code in languages)
        self._languages = chosen or known

    def hint(self, words: tuple[str, ...]) -> None:
        """See Recogniser."""
        self._hints = words

    def feed(self, samples: Samples) -> None:
        """See Recogniser."""
        if self._turn is None:
            self._turn = self._engine.begin(self)
        self._audio.append(samples)
        self._unsent.append(np.asarray(samples, np.float32).tobytes())
        chunk, end = self._engine.chunk, self._audio.end
        if end // chunk > self._sent // chunk or end - self._sent >= chunk // _SENT_PARTS:
            self._send()

    def feed_again(self) -> None:
        """There is a new worker, which knows nothing of the turn."""
        kept = self._audio.snapshot()
        self._unsent = [kept.join().tobytes()]
        self._sent = kept.start
        self._send()

    def _send(self) -> None:
        """Gives the worker what it has not; where there is none, its successor will have it all."""
        if self._turn is None or not self._unsent:
            return
        order = Feed(
            turn=self._turn,
            at=self._sent,
            came=time.monotonic(),
            partials=self._on_partial is not None,
            payload=b"".join(self._unsent),
        )
        self._unsent = []
        self._sent = self._audio.end
        self._engine.feed(order)

    async def finalise(self) -> Transcript:
        """See Recogniser."""
        if self._closed:
            raise EngineFailed(f"The recogniser's handle of session {self._session} is closed")
        if self._turn is None:
            return Transcript(text="")
        hotwords = tuple(dict.fromkeys((*self._engine.hotwords, *self._hints)))
        question: _Question = (self._audio.end, self._languages, hotwords)
        if self._result is not None and self._result[0] == question:
            return self._result[1]
        try:
            finished = await self._asked.answer(
                question, partial(self._ask, self._turn, question), timeout_s=self._engine.timeout_s
            )
        except TimeoutError:
            raise self._engine.timed_out() from None
        end, result = question[0], _transcript(finished, question[0])
        if self._result is None or end >= self._result[0][0]:
            self._result = question, result
        self._told_end = max(self._told_end, end)
        return result

    def _ask(self, turn: int, question: _Question) -> Answer[Finished]:
        self._send()
        _, languages, hotwords = question
        id, future = self._engine.ask(turn, languages=languages, hotwords=hotwords)
        return Answer(future, partial(self._engine.settle, id))

    def on_partial(self, heard: Partial) -> None:
        """Takes what the worker has heard so far; what is behind the last text is dropped."""
        if heard.end <= self._told_end or self._on_partial is None:
            return
        self._told_end = heard.end
        if heard.text and heard.text != self._told:
            self._told = heard.text
            transcript = Transcript(
                text=heard.text,
                language=language_of(heard.text),
                final=False,
                audio_s=heard.end / SAMPLE_RATE,
            )
            try:
                self._on_partial(transcript)
            except Exception:  # it is this conversation's own, and must not end the reports to all
                logger.exception("session {}: a partial text could not be told", self._session)

    def cancel(self) -> None:
        """See Recogniser."""
        self._asked.withdraw()

    def reset(self) -> None:
        """See Recogniser."""
        self.cancel()
        self._forget()

    def close(self) -> None:
        """See Recogniser."""
        self._closed = True
        self._on_partial = None
        self.reset()


def _transcript(finished: Finished, end: int) -> Transcript:
    return Transcript(
        text=finished.text,
        language=finished.language,
        log_prob=finished.log_prob,
        audio_s=end / SAMPLE_RATE,
        compute_s=finished.compute_s,
        words=tuple(
            Word(text=text, start_s=start, end_s=stop) for text, start, stop in finished.words
        ),
        emotion=finished.emotion,
        events=tuple(finished.events),
    )
