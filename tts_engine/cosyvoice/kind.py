# pyright: strict
"""The generations of the model, and what tells them apart without loading anything."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tts_engine.errors import ModelCorrupt, ModelMissing

Kind = Literal["cosyvoice2", "cosyvoice3"]

#: the parts that have a checkpoint each
PARTS = ("llm", "flow", "hift")
#: the directory of the language model's configuration and of the text tokenizer
BACKBONE = "CosyVoice-BlankEN"
#: the speech tokenizer of each kind; their tokens mean different sounds
SPEECH_TOKENIZERS: dict[Kind, str] = {
    "cosyvoice2": "speech_tokenizer_v2.onnx",
    "cosyvoice3": "speech_tokenizer_v3.onnx",
}


def kind_of(model_dir: Path) -> Kind:
    """Which model a directory holds, by its configuration file; every file must be there.

    Raises:
        ModelMissing: there is no such directory, or files are missing; all of them are named.
        ModelCorrupt: it is the directory of another model.
    """
    if not model_dir.is_dir():
        raise ModelMissing(
            f"there is no CosyVoice model in {model_dir}",
            mend="Name its directory with tts.cosyvoice.model_dir; docs/cosyvoice.md says where "
            "models come from.",
        )
    found: list[Kind] = [
        each for each in SPEECH_TOKENIZERS if (model_dir / f"{each}.yaml").exists()
    ]
    if not found:
        if (model_dir / "cosyvoice.yaml").exists():
            raise ModelCorrupt(
                f"{model_dir} holds a CosyVoice 1 model",
                mend="Use CosyVoice2-0.5B or Fun-CosyVoice3.",
            )
        raise ModelMissing(f"{model_dir} has neither cosyvoice2.yaml nor cosyvoice3.yaml")
    kind = found[0]
    files = [f"{name}.pt" for name in PARTS]
    files += ["campplus.onnx", SPEECH_TOKENIZERS[kind], f"{BACKBONE}/config.json"]
    if absent := [each for each in files if not (model_dir / each).is_file()]:
        raise ModelMissing(f"{model_dir} is not complete: {', '.join(absent)} missing")
    return kind
