"""Offline Paraformers: plain, with timestamps (BiCif), and those that take hotwords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import torch
from loguru import logger

from services.asr.base import Word
from services.asr.funasr.joining import join, words_of
from services.asr.funasr.loader import Model
from services.asr.funasr.recognised import Recognised
from services.asr.funasr.second_pass_input import Piece, features
from services.language import language_of

#: SeACo narrows a longer list down by the first row of a batch: then each piece goes alone
_UNFILTERED_HOTWORDS = 50
#: words whose tokens are remembered
_KNOWN_HOTWORDS = 4096
#: its predictor knows times three times as fine as its frames of 60 ms
_UPSAMPLED = 3


class OfflineParaformer:
    """A loaded Paraformer."""

    punctuates = False

    def __init__(self, model: Model) -> None:
        self._model = model
        self._network: Any = model.network
        named: str = model.config["model"]
        self._seaco, self._contextual = named == "SeacoParaformer", named == "ContextualParaformer"
        self._ids = lru_cache(_KNOWN_HOTWORDS)(self._find_ids)
        self._timed = model.config.get("predictor") == "CifPredictorV3"

    def recognise(self, pieces: Sequence[Piece]) -> list[Recognised]:
        """What was said in each piece; pieces with the same hotwords are one forward."""
        out: dict[int, Recognised] = {}
        hotwords = [self._hotwords(piece.hotwords) for piece in pieces]
        order = sorted(range(len(pieces)), key=hotwords.__getitem__)
        for words, same in groupby(order, key=hotwords.__getitem__):
            places = list(same)
            step = 1 if len(words) > _UNFILTERED_HOTWORDS else len(places)
            for first in range(0, len(places), step):
                some = places[first : first + step]
                found = self._forward([pieces[place] for place in some], words)
                out |= dict(zip(some, found, strict=True))
        return [out[place] for place in range(len(pieces))]

    def _hotwords(self, words: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """Token ids of the hotwords; those that the vocabulary cannot write are passed over."""
        if not (self._seaco or self._contextual):
            return ()
        found = (
            self._ids(word) for word in dict.fromkeys(" ".join(each.split()) for each in words)
        )
        return tuple(ids for ids in found if ids)

    def _find_ids(self, word: str) -> tuple[int, ...]:
        tokenizer = self._model.tokenizer
        ids = tuple(tokenizer.tokens2ids(tokenizer.text2tokens(word))) if word else ()
        if tokenizer.unk_id not in ids:
            return ids
        logger.warning("the recogniser cannot write the hotword {!r}: it goes without", word)
        return ()

    def _forward(
        self, pieces: Sequence[Piece], hotwords: tuple[tuple[int, ...], ...]
    ) -> list[Recognised]:
        network = self._network
        speech, lengths = features(self._model, pieces)
        encoded, lengths = network.encode(speech, lengths)
        # The predictor looks a frame ahead, and past the end of a short row it would see padding.
        frames = torch.arange(encoded.shape[1], device=encoded.device)
        encoded = encoded * (frames < lengths[:, None])[:, :, None]
        with self._model.exact():
            embedded, counts = network.calc_predictor(encoded.float(), lengths)[:2]
        counts = counts.round().long()
        if int(counts.max()) < 1:
            return [Recognised() for _ in pieces]
        likely = self._decode(encoded, lengths, embedded, counts, hotwords)
        out: list[Recognised] = []
        for row, length, count in zip(range(len(pieces)), lengths, counts, strict=True):
            best, ids = likely[row, : int(count)].max(dim=-1)
            silent = (network.sos, network.eos, network.blank_id)
            kept = [place for place, each in enumerate(ids.tolist()) if each not in silent]
            alone = encoded[row : row + 1, : int(length)]
            times = self._times(alone, count, len(kept)) if self._timed else {}
            tokens = self._model.tokenizer.ids2tokens(ids[kept].tolist())
            log_prob = float(best[kept].mean()) if kept else None
            out.append(_recognised(tokens, times, log_prob))
        return out

    def _decode(
        self,
        encoded: torch.Tensor,
        lengths: torch.Tensor,
        embedded: torch.Tensor,
        counts: torch.Tensor,
        hotwords: tuple[tuple[int, ...], ...],
    ) -> torch.Tensor:
        """Log probabilities of the tokens of each row: (rows, tokens, vocabulary)."""
        network = self._network
        listed = [*map(list, hotwords), [network.sos]] if hotwords else None
        if self._seaco:
            return network._seaco_decode_with_ASF(
                encoded, lengths, embedded, counts, hw_list=listed, nfilter=_UNFILTERED_HOTWORDS
            )
        context = {"hw_list": listed} if self._contextual else {}
        return network.cal_decoder_with_predictor(encoded, lengths, embedded, counts, **context)[0]

    def _times(
        self, frames: torch.Tensor, count: torch.Tensor, tokens: int
    ) -> Mapping[int, tuple[float, float]]:
        """Seconds from the start at which each of a row's tokens begins and ends.

        A row at a time: the recurrent layer of the predictor would hear the padding of a batch.
        """
        from funasr.utils.timestamp_tools import ts_prediction_lfr6_standard

        lengths = torch.tensor([frames.shape[1]], device=frames.device)
        with self._model.exact():
            *_, alphas, peaks = self._network.calc_predictor_timestamp(
                frames.float(), lengths, count[None]
            )
        kept = frames.shape[1] * _UPSAMPLED
        # What it is given stands for the tokens; it puts silences of its own between them.
        names = [str(place) for place in range(tokens)]
        _, spans = ts_prediction_lfr6_standard(alphas[0][:kept], peaks[0][:kept], names)
        return {
            place: (first / 1000, last / 1000) for place, (first, last) in enumerate(spans[:tokens])
        }


def _recognised(
    tokens: Sequence[str], times: Mapping[int, tuple[float, float]], log_prob: float | None
) -> Recognised:
    spans = words_of(tokens)
    text = join(span.text for span in spans)
    if not text:
        return Recognised()
    words = tuple(
        Word(text=span.text, start_s=times[span.first][0], end_s=times[span.last][1])
        for span in spans
        if span.first in times and span.last in times
    )
    return Recognised(text=text, language=language_of(text), words=words, log_prob=log_prob)
