"""The offline models that are asked through FunASR's AutoModel, a piece at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from services.asr.base import SAMPLE_RATE, Word
from services.asr.funasr.joining import join
from services.asr.funasr.loader import Model
from services.asr.funasr.modules import quiet
from services.asr.funasr.recognised import Recognised
from services.asr.funasr.second_pass_input import Piece
from services.language import language_of
from tts_engine.device import dtype_name

#: what Fun-ASR-Nano is asked to write, in the words of its prompt
_ASKED_FOR = {"zh": "中文", "en": "英文", "ja": "日文"}
#: tokens of text that nobody says more of in a second, and to begin with
_TOKENS_PER_S, _LEAST_TOKENS = 12, 24


class FunAsrNano:
    """A loaded Fun-ASR-Nano: its language model writes text with punctuation and numerals."""

    punctuates = True

    def __init__(self, model: Model) -> None:
        self._auto: Any = model.auto
        self._dtype = dtype_name(model.dtype)

    def recognise(self, pieces: Sequence[Piece]) -> list[Recognised]:
        """What was said in each piece, one after the other."""
        return [self._one(piece) for piece in pieces]

    def _one(self, piece: Piece) -> Recognised:
        named = piece.languages or ()
        asked = _ASKED_FOR.get(named[0]) if len(named) == 1 else None
        seconds = piece.samples.size / SAMPLE_RATE
        # The words go into a prompt: nothing of them may end a line.
        words = [word for each in piece.hotwords if (word := " ".join(each.split()))]
        with quiet():
            found = self._auto.generate(
                input=[torch.from_numpy(np.ascontiguousarray(piece.samples))],
                language=asked,
                hotwords=words,
                itn=True,
                max_length=_LEAST_TOKENS + int(seconds * _TOKENS_PER_S),
                llm_dtype=self._dtype,
                llm_kwargs={"do_sample": False},
            )[0]
        text = str(found["text"]).strip()
        if not any(letter.isalnum() for letter in text):
            return Recognised()
        return Recognised(
            text=text, language=language_of(text), words=_words(found.get("timestamps") or [])
        )


class Whisper:
    """A loaded Whisper."""

    punctuates = True

    def __init__(self, model: Model) -> None:
        from services.asr.whisper import load_simplifier  # loads the embedded Whisper's library

        self._auto: Any = model.auto
        self._model = model
        self._simplify = load_simplifier()

    def recognise(self, pieces: Sequence[Piece]) -> list[Recognised]:
        """What was said in each piece, one after the other."""
        return [self._one(piece) for piece in pieces]

    def _one(self, piece: Piece) -> Recognised:
        named = piece.languages or ()
        options: dict[str, Any] = {
            "without_timestamps": True,
            "fp16": self._model.dtype == torch.float16,
            "language": named[0] if len(named) == 1 else None,
        }
        if piece.hotwords:
            options["prompt"] = join(piece.hotwords)
        with quiet():
            found = self._auto.generate(input=[piece.samples], DecodingOptions=options)[0]
        text = self._simplify(str(found["text"]).strip())
        return Recognised(text=text, language=language_of(text)) if text else Recognised()


def _words(timestamps: Sequence[dict[str, Any]]) -> tuple[Word, ...]:
    words: list[Word] = []
    for each in timestamps:
        text = str(each["token"])
        start, end = float(each["start_time"]), float(each["end_time"])
        if not any(letter.isalnum() for letter in text):
            continue
        if words and text.isascii() and words[-1].text.isascii() and not text.startswith(" "):
            start, text = words[-1].start_s, words.pop().text + text
        words.append(Word(text=text.strip(), start_s=start, end_s=end))
    return tuple(words)
