"""A turn as a row of utterances: what is sent next, and what the turn's text is.

The protocol knows utterances that end, our contract turns that are asked for their text now and may
go on. So asking ends the utterance at hand, and what is fed after it is another one: every sample
is in exactly one, and their texts are joined. An utterance counts once the server has finished it;
until then it may be sent again, from its first sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from services.asr.base import SAMPLE_RATE, Samples, Transcript, Word
from services.asr.funasr import tags
from services.asr.funasr.joining import join
from services.asr.funasr_remote.protocol import FRAME, Mode, Utterance
from services.asr.turn_audio import BLOCK, Snapshot, TurnAudio, is_silent
from services.language import language_of


@dataclass(frozen=True, slots=True)
class Begin:
    """The utterance is to be begun."""

    utterance: Utterance


@dataclass(frozen=True, slots=True)
class Audio:
    """Samples of the utterance at hand are to be sent."""

    samples: Samples


@dataclass(frozen=True, slots=True)
class End:
    """The utterance at hand is to be ended, at this position."""

    at: int


Step = Begin | Audio | End


@dataclass(frozen=True, slots=True)
class _Part:
    """An utterance that the server has finished."""

    text: str
    language: str
    emotion: str
    events: tuple[str, ...]
    words: tuple[Word, ...]
    compute_s: float


class Turn:
    """One turn. Positions are samples since its start.

    Parameters:
        limit_s: a longer turn keeps at least its last `limit_s`.
        mode: of its utterances.
        name: makes the name of the next utterance.
    """

    def __init__(self, *, limit_s: float, mode: Mode, name: Callable[[], str]) -> None:
        self._audio = TurnAudio(limit_s=limit_s)
        self._mode: Mode = mode
        self._name = name
        self._parts: list[_Part] = []
        self._asked: set[int] = set()
        self._utterance: Utterance | None = None
        #: where the utterance at hand begins, how far it was sent, and where it was ended
        self._start = self._sent = 0
        self._end: int | None = None
        self._shown = Transcript(text="", final=False)
        self._again = False

    @property
    def end(self) -> int:
        """Samples fed."""
        return self._audio.end

    @property
    def utterance(self) -> Utterance | None:
        """The one that was begun and is not finished."""
        return self._utterance

    @property
    def unfinished(self) -> bool:
        """Whether it holds audio that is in no finished utterance."""
        return self._audio.end > self._start

    def feed(self, samples: Samples) -> None:
        """Adds audio."""
        self._audio.append(samples)

    def ask(self, end: int) -> None:
        """The text up to `end`, where the turn ends now, is wanted."""
        self._asked.add(end)

    def withdraw(self, end: int) -> None:
        """It is not wanted any more: where nothing was ended for it, nothing will be."""
        self._asked.discard(end)

    def next(self) -> Step | None:
        """What is to be sent next; takes it for sent. None: nothing, for now."""
        if self._end is not None:
            return None
        cut = min((end for end in self._asked if end > self._start), default=None)
        limit = self._audio.end if cut is None else cut
        if self._utterance is None:
            if limit == self._start:
                return None
            self._utterance = Utterance(self._name(), self._mode)
            return Begin(self._utterance)
        if limit - self._sent >= FRAME or (cut is not None and self._sent < cut):
            return self._send(limit)
        if cut is None:
            return None
        self._end = cut
        return End(cut)

    def _send(self, limit: int) -> Audio:
        audio = self._audio.snapshot()
        # Behind by more than a turn's limit, what was dropped cannot be sent any more.
        start = min(max(self._sent, audio.start), limit)
        self._sent = min(limit, start + FRAME)
        return Audio(_read(audio, start, self._sent))

    def lost(self) -> None:
        """What was sent of the utterance at hand is lost, or failed: it is sent again."""
        if self._utterance is not None:
            self._again = True
        self._utterance, self._end, self._sent = None, None, self._start

    def finish(self, *, compute_s: float) -> int:
        """The server has finished the utterance at hand.

        Returns:
            Where it ended; `result` has the text up to there.
        """
        assert self._utterance is not None, "only what was begun can be finished"
        assert self._end is not None, "only what was ended can be finished"
        end = self._end
        self._parts.append(_part(self._utterance, self._start, compute_s))
        self._asked.discard(end)
        self._utterance, self._end, self._start, self._sent = None, None, end, end
        self._again = False
        return end

    def result(self, end: int) -> Transcript | None:
        """The final text up to `end`; None if the server has yet to be asked."""
        if end != self._start and not self._nothing_since(end):
            return None
        text = join([part.text for part in self._parts])
        if not text:
            return Transcript(text="", audio_s=end / SAMPLE_RATE, events=self._events())
        languages = {part.language for part in self._parts if part.language}
        emotions = [part.emotion for part in self._parts if part.emotion]
        return Transcript(
            text=text,
            language=languages.pop() if len(languages) == 1 else language_of(text),
            audio_s=end / SAMPLE_RATE,
            compute_s=self._parts[-1].compute_s,
            words=tuple(word for part in self._parts for word in part.words),
            emotion=emotions[-1] if emotions else "",
            events=self._events(),
        )

    def _events(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(event for part in self._parts for event in part.events))

    def _nothing_since(self, end: int) -> bool:
        """Whether what came after the last finished utterance cannot hold a word."""
        if self._end is not None:
            return False
        audio = self._audio.snapshot()
        return is_silent(_read(audio, max(self._start, audio.start), end))

    def partial(self) -> Transcript | None:
        """The text so far, if it is news; never while the final is made.

        How far the server has come is not told: it is what was sent, at most.
        """
        utterance = self._utterance
        if utterance is None or self._end is not None or self._sent < self._shown_end:
            return None
        stretches = [tags.parse(text).text for text in utterance.stretches]
        texts = [*(part.text for part in self._parts), *stretches, join(utterance.increments)]
        text, shown = join(texts), self._shown.text
        # What is heard again grows again, up to what was shown.
        if not text or text == shown or (self._again and len(text) < len(shown)):
            return None
        self._again = False
        self._shown = Transcript(
            text=text,
            language=language_of(text),
            final=False,
            audio_s=self._sent / SAMPLE_RATE,
        )
        return self._shown

    @property
    def _shown_end(self) -> int:
        return round(self._shown.audio_s * SAMPLE_RATE)


def _part(utterance: Utterance, start: int, compute_s: float) -> _Part:
    """What a finished utterance said."""
    tagged = [tags.parse(text) for text in utterance.stretches]
    texts = [each.text for each in tagged] + [join(utterance.increments)]
    first_ms = start * 1000 / SAMPLE_RATE
    return _Part(
        text=join(texts),
        language=next((each.language for each in tagged if each.language), ""),
        emotion=next((each.emotion for each in reversed(tagged) if each.emotion), ""),
        events=tuple(event for each in tagged for event in each.events),
        words=tuple(
            Word(
                text=word.text,
                start_s=(first_ms + word.start_ms) / 1000,
                end_s=(first_ms + word.end_ms) / 1000,
            )
            for word in utterance.words
        ),
        compute_s=compute_s,
    )


def _read(audio: Snapshot, start: int, stop: int) -> Samples:
    """Samples `start` to `stop` of the turn, all of which are kept."""
    first, last = start - audio.start, stop - audio.start
    blocks = audio.blocks[first // BLOCK : -(-last // BLOCK)]
    if not blocks:
        return np.empty(0, dtype=np.float32)
    skipped = first // BLOCK * BLOCK
    return np.concatenate(blocks)[first - skipped : last - skipped]
