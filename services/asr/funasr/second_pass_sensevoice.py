"""SenseVoiceSmall: text with punctuation and numerals, language, emotion and events.

Four queries go before the features: which language, which event, which emotion, how to write.
What the model answers is read off its most likely tokens, a frame each; the first four are tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch

from services.asr.base import Word
from services.asr.funasr.loader import Model
from services.asr.funasr.recognised import Recognised
from services.asr.funasr.second_pass_input import Piece, features
from services.asr.funasr.tags import parse

#: frames of the four queries
_QUERIES = 4
#: seconds that a frame of the encoder covers
_FRAME_S = 0.06
#: what asks for any language, for the event, for the emotion: rows of the model's embedding
_ANY, _EVENT, _EMOTION = 0, 1, 2
#: the language of what nobody said
_NOTHING_SAID = "nospeech"
#: marks a piece that begins a word
_BEGINS = "\u2581"


class SenseVoice:
    """A loaded SenseVoiceSmall."""

    punctuates = True

    def __init__(self, model: Model) -> None:
        self._model = model
        self._network: Any = model.network
        self._pieces: Any = model.tokenizer.sp
        self._tags = {
            name: self._pieces.PieceToId(f"<|{name}|>")
            for name in self._network.lid_dict
            if name not in ("auto", _NOTHING_SAID)
        }

    def recognise(self, pieces: Sequence[Piece]) -> list[Recognised]:
        """What was said in each piece, in one forward; another for those of a wrong language.

        Where several languages are allowed the model chooses among all of its own; a piece for
        which it chose another one is asked again for the likeliest that is allowed.
        """
        speech, lengths = features(self._model, pieces)
        asked = [self._asked(piece) for piece in pieces]
        likely = self._forward(speech, lengths, asked)
        wrong = {
            place: language
            for place, piece in enumerate(pieces)
            if (language := self._likeliest(likely[place], piece, asked[place])) is not None
        }
        if wrong:
            rows = torch.tensor(list(wrong), device=speech.device)
            again = self._forward(speech[rows], lengths[rows], list(wrong.values()))
            for place, row in zip(wrong, again, strict=True):
                likely[place] = row
        return [self._read(row) for row in likely]

    def _asked(self, piece: Piece) -> int:
        """The query for a piece's language."""
        allowed = self._allowed(piece)
        return self._network.lid_dict[allowed[0]] if len(allowed) == 1 else _ANY

    def _allowed(self, piece: Piece) -> list[str]:
        """The languages that a piece may be in, of those that the model tells; none: any."""
        return [name for name in piece.languages or () if name in self._tags]

    def _likeliest(self, likely: torch.Tensor, piece: Piece, asked: int) -> int | None:
        """The query to ask again with, where the model chose a language that is not allowed."""
        allowed = self._allowed(piece)
        if asked != _ANY or not allowed:
            return None
        scores = {name: float(likely[0, tag]) for name, tag in self._tags.items()}
        chosen = max(scores, key=scores.__getitem__)
        nothing = float(likely[0, self._pieces.PieceToId(f"<|{_NOTHING_SAID}|>")])
        if chosen in allowed or nothing > scores[chosen]:
            return None
        return self._network.lid_dict[max(allowed, key=scores.__getitem__)]

    def _forward(
        self, speech: torch.Tensor, lengths: torch.Tensor, languages: Sequence[int]
    ) -> list[torch.Tensor]:
        """Log probabilities of each row's frames: (queries and frames, pieces of text)."""
        network = self._network
        style = network.textnorm_dict["withitn"]
        rows = [[language, _EVENT, _EMOTION, style] for language in languages]
        asked = network.embed(torch.tensor(rows, device=speech.device))
        # The encoder scales what it is given in its place; `cat` has made that a copy.
        encoded, counts = network.encoder(torch.cat((asked, speech), dim=1), lengths + _QUERIES)
        with self._model.exact():
            scores = network.ctc.log_softmax(encoded.float())
        return [row[: int(count)] for row, count in zip(scores, counts, strict=True)]

    def _read(self, likely: torch.Tensor) -> Recognised:
        best, tokens = likely.max(dim=-1)
        runs: list[tuple[int, int, int]] = []
        at = 0
        for token, frames in groupby(tokens.tolist()):
            count = len(list(frames))
            if token != self._network.blank_id:
                runs.append((token, at, at + count))
            at += count
        tagged = parse(self._model.tokenizer.decode([token for token, _, _ in runs]))
        if not tagged.text:
            return Recognised(emotion=tagged.emotion, events=tagged.events)
        said = [first for _, first, _ in runs if first >= _QUERIES]
        return Recognised(
            text=tagged.text,
            language=tagged.language,
            emotion=tagged.emotion,
            events=tagged.events,
            words=self._words(run for run in runs if run[1] >= _QUERIES),
            log_prob=float(best[said].mean()) if said else None,
        )

    def _words(self, runs: Any) -> tuple[Word, ...]:
        """The words of runs of tokens: (token, first frame, the frame after the last)."""
        words: list[Word] = []
        for token, first, after in runs:
            piece: str = self._pieces.IdToPiece(token)
            text = piece.removeprefix(_BEGINS)
            if piece.startswith("<|") or not any(letter.isalnum() for letter in text):
                continue
            start, end = (first - _QUERIES) * _FRAME_S, (after - _QUERIES) * _FRAME_S
            if words and text.isascii() and words[-1].text.isascii() and piece == text:
                start, text = words[-1].start_s, words.pop().text + text
            words.append(Word(text=text, start_s=round(start, 3), end_s=round(end, 3)))
        return tuple(words)
