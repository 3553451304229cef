"""The generations of the model, and what tells them apart without loading anything."""

from __future__ import annotations

from typing import Literal

Kind = Literal["cosyvoice2", "cosyvoice3"]

#: the speech tokenizer of each kind; their tokens mean different sounds
SPEECH_TOKENIZERS: dict[Kind, str] = {
    "cosyvoice2": "speech_tokenizer_v2.onnx",
    "cosyvoice3": "speech_tokenizer_v3.onnx",
}
