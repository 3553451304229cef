"""The second pass: whole pieces of audio to their final text, by any of FunASR's offline models.

Several pieces are one forward of the model where it allows that, and each gets what it would have
got alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from services.asr.base import SAMPLE_RATE
from services.asr.funasr.loader import Model
from services.asr.funasr.recognised import Recognised
from services.asr.funasr.second_pass_generate import FunAsrNano, Whisper
from services.asr.funasr.second_pass_input import Piece
from services.asr.funasr.second_pass_paraformer import OfflineParaformer
from services.asr.funasr.second_pass_punctuation import Punctuation
from services.asr.funasr.second_pass_sensevoice import SenseVoice
from tts_engine.errors import ConfigError

#: samples in which the models find one frame; less than that says nothing
_SHORTEST = SAMPLE_RATE * 25 // 1000


class OfflineRecogniser(Protocol):
    """One kind of model."""

    punctuates: bool

    def recognise(self, pieces: Sequence[Piece]) -> list[Recognised]:
        """What was said in each, in their order."""
        ...


class SecondPass:
    """Transcribes with one loaded model."""

    def __init__(self, model: Model, punctuation: Model | None = None) -> None:
        """Takes a model of a kind that is known here.

        Args:
            model: offline: sensevoice, paraformer, fun-asr-nano or whisper.
            punctuation: for a model that does not punctuate; others do without.

        Raises:
            ConfigError: a model is not of these kinds.
        """
        self._model = model
        self._recogniser = _recogniser(model)
        self._punctuation: Punctuation | None = None
        if punctuation is not None and not self._recogniser.punctuates:
            self._punctuation = Punctuation(punctuation)

    def transcribe(
        self,
        audio: Sequence[NDArray[np.float32]],
        *,
        languages: Sequence[tuple[str, ...] | None] = (),
        hotwords: Sequence[tuple[str, ...]] = (),
    ) -> list[Recognised]:
        """Recognises pieces of audio, all of them at once.

        Args:
            audio: mono float32 in [-1, 1] at 16 kHz, any lengths.
            languages: that each may be in; None means all. Empty: all of them may be in all.
            hotwords: names and terms that are likely in each, where the model can use them.

        Returns:
            What was said in each, in their order.
        """
        pieces = [
            Piece(
                samples=samples,
                languages=languages[place] if languages else None,
                hotwords=hotwords[place] if hotwords else (),
            )
            for place, samples in enumerate(audio)
        ]
        heard = [place for place, piece in enumerate(pieces) if piece.samples.size >= _SHORTEST]
        out = [Recognised() for _ in pieces]
        if not heard:
            return out
        with torch.inference_mode(), self._model.autocast():
            found = self._recogniser.recognise([pieces[place] for place in heard])
            if self._punctuation is not None:
                texts = self._punctuation.punctuate([each.text for each in found])
                found = [replace(each, text=text) for each, text in zip(found, texts, strict=True)]
        for place, each in zip(heard, found, strict=True):
            out[place] = each
        return out


def _recogniser(model: Model) -> OfflineRecogniser:
    match model.kind:
        case "sensevoice":
            return SenseVoice(model)
        case "paraformer":
            return OfflineParaformer(model)
        case "fun-asr-nano":
            return FunAsrNano(model)
        case "whisper":
            return Whisper(model)
        case kind:
            raise ConfigError(
                f"the model in {model.model_dir} is of the kind {kind}, which recognises no"
                " whole turns",
                mend="Name SenseVoice, an offline Paraformer, Fun-ASR-Nano or Whisper.",
            )
