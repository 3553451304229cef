"""A final that the offline model makes: the turn in pieces, each of which is recognised once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

from services.asr.base import SAMPLE_RATE, Samples, Word
from services.asr.funasr.joining import join
from services.asr.funasr.recognised import Recognised
from services.asr.funasr.schedule import PieceNeed
from services.asr.funasr.wire import Final, Finished
from services.asr.turn_audio import is_silent, pieces
from services.language import language_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What the text of a piece depends on.

    Parameters:
        start, end: samples from the start of the turn.
        languages, hotwords: as they were asked for.
    """

    start: int
    end: int
    languages: tuple[str, ...] | None
    hotwords: tuple[str, ...]


#: what was recognised of a turn
Known = dict[Key, Recognised]


class OfflineFinal:
    """A turn's text in the making."""

    def __init__(
        self,
        order: Final,
        samples: Samples,
        *,
        at: int,
        known: Known,
        segment_s: float,
        min_log_prob: float | None,
    ) -> None:
        """Cuts the turn into pieces.

        Args:
            order: asks for it.
            samples: the turn so far.
            at: position of the first of them in the turn.
            known: what was recognised of the turn before; grows.
            segment_s: the longest piece.
            min_log_prob: a piece's text of a lower one is noise.
        """
        self.order = order
        self.waited_s: float | None = None
        self.compute_s = 0.0
        self._known = known
        self._min_log_prob = min_log_prob
        self._found: list[Recognised | None] = []
        self._samples: list[Samples] = []
        self._keys: list[Key] = []
        languages = None if order.languages is None else tuple(order.languages)
        for start, end in pieces(samples, longest_s=segment_s):
            key = Key(
                start=at + start, end=at + end, languages=languages, hotwords=tuple(order.hotwords)
            )
            piece = samples[start:end]
            self._keys.append(key)
            self._samples.append(piece)
            self._found.append(known.get(key) or (Recognised() if is_silent(piece) else None))

    @property
    def id(self) -> int:
        """Of the order."""
        return self.order.id

    @property
    def done(self) -> bool:
        """Everything is recognised."""
        return None not in self._found

    def needs(self) -> list[PieceNeed]:
        """The pieces that are to be recognised."""
        places = [place for place, found in enumerate(self._found) if found is None]
        lengths = [self._samples[place].size / SAMPLE_RATE for place in places]
        return [
            PieceNeed(
                job=self.id,
                place=place,
                came=self.order.came,
                before_s=behind - length,
                seconds=length,
            )
            for place, length, behind in zip(places, lengths, accumulate(lengths), strict=True)
        ]

    def piece(self, place: int) -> tuple[Samples, Key]:
        """The audio of a piece, and what its text depends on."""
        return self._samples[place], self._keys[place]

    def take(self, place: int, found: Recognised) -> None:
        """Takes what was recognised in a piece."""
        if self._is_noise(found):
            found = replace(found, text="", language="", words=())
        self._found[place] = found
        # The last one ends where the turn does so far: it will be another one when that goes on.
        if place < len(self._keys) - 1:
            self._known[self._keys[place]] = found

    def _is_noise(self, found: Recognised) -> bool:
        least, score = self._min_log_prob, found.log_prob
        return least is not None and score is not None and score < least

    def report(self) -> Finished:
        """The text, of all pieces that are recognised."""
        found = [each for each in self._found if each is not None]
        said = [each for each in found if each.text]
        scores = [each.log_prob for each in said if each.log_prob is not None]
        text = join(each.text for each in said)
        return Finished(
            id=self.id,
            text=text,
            language=next((each.language for each in said if each.language), language_of(text)),
            # As the turn ended is how its speaker feels.
            emotion=next((each.emotion for each in reversed(found) if each.emotion), ""),
            events=list(dict.fromkeys(event for each in found for event in each.events)),
            words=[
                _placed(word, key.start)
                for key, each in zip(self._keys, self._found, strict=True)
                if each is not None
                for word in each.words
            ],
            log_prob=sum(scores) / len(scores) if scores else None,
            waited_s=self.waited_s or 0.0,
            compute_s=self.compute_s,
        )


def _placed(word: Word, start: int) -> tuple[str, float, float]:
    offset = start / SAMPLE_RATE
    return word.text, round(word.start_s + offset, 3), round(word.end_s + offset, 3)
