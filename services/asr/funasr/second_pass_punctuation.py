"""CT-Transformer: puts punctuation into the text of a recogniser that writes none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from services.asr.funasr.loader import Model
from tts_engine.errors import ConfigError

#: tokens that are looked at together; longer texts are cut there
_WINDOW = 200
#: what ends a text that ended in a pause
_PAUSES = {"，": "。", "、": "。", ",": "."}
_LATIN = {"，": ",", "。": ".", "？": "?", "、": ","}
_ENDS = "。？.?！!"


class Punctuation:
    """A loaded CT-Transformer."""

    def __init__(self, model: Model) -> None:
        """Takes a model of the kind punctuation.

        Raises:
            ConfigError: it is of another kind.
        """
        if model.kind != "punctuation":
            raise ConfigError(
                f"the model in {model.model_dir} is a {model.kind}, which is no punctuation model",
                mend="Name a CT-Transformer.",
            )
        self._model = model
        self._network: Any = model.network

    def punctuate(self, texts: Sequence[str]) -> list[str]:
        """The texts with punctuation, all in one forward; an empty one stays empty."""
        from funasr.models.ct_transformer.utils import split_words

        cut = [split_words(text, jieba_usr_dict=self._network.jieba_usr_dict) for text in texts]
        windows = [
            words[first : first + _WINDOW]
            for words in cut
            for first in range(0, len(words), _WINDOW)
        ]
        signs = iter(self._signs(windows))
        out: list[str] = []
        for words in cut:
            said = [sign for _ in range(0, len(words), _WINDOW) for sign in next(signs)]
            out.append(_written(words, said))
        return out

    def _signs(self, windows: Sequence[Sequence[str]]) -> list[list[str]]:
        """The sign after each word of each window; empty where there is none."""
        if not windows:
            return []
        ids = [torch.tensor(self._model.tokenizer.tokens2ids(words)) for words in windows]
        lengths = torch.tensor([len(each) for each in ids], device=self._model.device)
        scores, _ = self._network.punc_forward(
            pad_sequence(ids, batch_first=True).to(self._model.device), lengths
        )
        names = ["" if name in ("_", "<unk>") else name for name in self._network.punc_list]
        best = scores.argmax(dim=-1).tolist()
        return [
            [names[sign] for sign in row[: len(words)]]
            for row, words in zip(best, windows, strict=True)
        ]


def _written(words: Sequence[str], signs: Sequence[str]) -> str:
    """Words and signs as text: Latin words have spaces, Latin signs and sentences begin large."""
    text = ""
    for word, sign in zip(words, signs, strict=True):
        latin = word.isascii()
        if latin:
            if not text or text[-1] in _ENDS:
                word = word[0].upper() + word[1:]
            if text and text[-1].isascii():
                text += " "
        text += word + (_LATIN.get(sign, sign) if latin else sign)
    if not text:
        return ""
    text = text[:-1] + _PAUSES.get(text[-1], text[-1])
    return text if text[-1] in _ENDS else text + ("." if text[-1].isascii() else "。")
