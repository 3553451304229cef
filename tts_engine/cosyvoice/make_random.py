"""Makes model directories with the real architecture and random weights, from nothing.

Tests and benchmarks run the real classes with them where no published weights can be had: how fast
a model is, and whether two ways to compute it agree, does not depend on what its weights are. What
it says is noise.
"""

from __future__ import annotations

import json
from pathlib import Path
from string import Template
from typing import Any, Literal

import torch
from safetensors.torch import save_model

from tts_engine.cosyvoice.architecture import read_architecture
from tts_engine.cosyvoice.kind import BACKBONE, PARTS, SPEECH_TOKENIZERS, Kind
from tts_engine.cosyvoice.loader import backbone_of, build_part
from tts_engine.cosyvoice.modules import contained, import_modules, knows_cosyvoice3
from tts_engine.cosyvoice.random_onnx import write_speaker_model, write_speech_tokenizer
from tts_engine.cosyvoice.random_text import QWEN_TOKENS, write_tokenizer
from tts_engine.errors import EngineFailed
from tts_engine.random_model import appearing, check_empty, recipe_of

Size = Literal["tiny", "full"]

# The numbers in which the sizes differ; `full` is as published. The width of the encoder (512) is
# fixed in its code. The first block is of the language model, which has two key-value heads.
_SHAPES: dict[Size, dict[str, int]] = {
    "tiny": {
        "hidden": 64,
        "layers": 2,
        "heads": 4,
        "inner": 128,
        # the encoder and the estimator of CosyVoice 2's flow
        "encoder_heads": 2,
        "encoder_inner": 32,
        "encoder_blocks": 1,
        "channels": 32,
        "head": 8,
        "blocks": 1,
        "middle": 1,
        "estimator_heads": 2,
        # the flow of CosyVoice 3
        "transformer": 64,
        "depth": 2,
        "transformer_heads": 1,
        "lookahead": 32,
        "vocoder": 32,
    },
    "full": {
        "hidden": 896,
        "layers": 24,
        "heads": 14,
        "inner": 4864,
        "encoder_heads": 8,
        "encoder_inner": 2048,
        "encoder_blocks": 6,
        "channels": 256,
        "head": 64,
        "blocks": 4,
        "middle": 12,
        "estimator_heads": 8,
        "transformer": 1024,
        "depth": 22,
        "transformer_heads": 16,
        "lookahead": 1024,
        "vocoder": 512,
    },
}
#: base of the language model's rotary positions
ROPE_THETA = 1_000_000.0

_FULL_VOCABULARY = 151_936
#: ids beyond the text tokenizer's own, for CosyVoice's special tokens
_SPECIAL_TOKENS = 512


def make_random(
    kind: Kind, size: Size, out: Path, *, seed: int = 0, home: Path | None = None
) -> None:
    """Writes a complete model directory: seconds and 60 MB (tiny), a minute and 3.6 GB (full).

    The same arguments give the same weights with the same torch.

    Args:
        kind: cosyvoice2, or cosyvoice3 from a checkout.
        size: `full` has the shapes of the published models; `tiny` is for tests.
        out: the directory to make; must not exist, or be empty. It appears when it is complete.
        seed: of the weights.
        home: a git checkout of CosyVoice; None takes the installed modules.

    Raises:
        BadRequest: `out` holds something.
        EngineFailed: the modules are not there, or cannot build this kind.
        OSError: the disk is full or cannot be written.
    """
    check_empty(out)
    import_modules(home)
    if kind == "cosyvoice3" and not knows_cosyvoice3():
        raise EngineFailed(
            "the installed modules are CosyVoice 2's and cannot build CosyVoice 3",
            mend="Clone CosyVoice with its submodules and name it with COSYVOICE_HOME.",
        )
    with appearing(out) as making:
        _fill(making, kind, size, seed)


def recipe() -> str:
    """Twelve characters that change with whatever a model is made from: name what is kept so."""
    return recipe_of(Path(__file__).parent)


def configuration(kind: Kind, size: Size) -> str:
    """What describes the architecture, as it lies beside the checkpoints."""
    template = Path(__file__).with_name("random") / f"{kind}.yaml"
    return Template(template.read_text(encoding="utf-8")).substitute(_SHAPES[size])


def _fill(directory: Path, kind: Kind, size: Size, seed: int) -> None:
    shape = _SHAPES[size]
    described = directory / f"{kind}.yaml"
    described.write_text(configuration(kind, size), encoding="utf-8")
    backbone = directory / BACKBONE
    backbone.mkdir()
    first_special = write_tokenizer(backbone, tokens=QWEN_TOKENS if size == "full" else None)
    vocabulary = _FULL_VOCABULARY if size == "full" else first_special + _SPECIAL_TOKENS
    _write_backbone_config(backbone, shape, vocabulary, first_special)
    architecture = read_architecture(described, qwen_pretrain_path=str(backbone))
    with contained():
        for name in PARTS:
            _write_weights(name, architecture, directory, seed)
    write_speaker_model(directory / "campplus.onnx", seed=seed)
    write_speech_tokenizer(directory / SPEECH_TOKENIZERS[kind])


def _write_backbone_config(
    directory: Path, shape: dict[str, int], vocabulary: int, end_of_text: int
) -> None:
    """Writes the language model's configuration with the keys that the published one has."""
    configuration = {
        "architectures": ["Qwen2ForCausalLM"],
        "attention_dropout": 0.0,
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
        "hidden_act": "silu",
        "hidden_size": shape["hidden"],
        "initializer_range": 0.02,
        "intermediate_size": shape["inner"],
        "max_position_embeddings": 32768,
        "model_type": "qwen2",
        "num_attention_heads": shape["heads"],
        "num_hidden_layers": shape["layers"],
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06,
        "rope_theta": ROPE_THETA,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": vocabulary,
    }
    (directory / "config.json").write_text(json.dumps(configuration, indent=2), encoding="utf-8")


def _write_weights(name: str, architecture: dict[str, Any], directory: Path, seed: int) -> None:
    part = build_part(name, architecture, seed=seed)
    torch.save(part.state_dict(), directory / f"{name}.pt")
    if name == "llm":
        # Upstream's own loader wants these, although it then loads llm.pt over them.
        weights = directory / BACKBONE / "model.safetensors"
        save_model(backbone_of(part).to(torch.bfloat16), str(weights), metadata={"format": "pt"})
