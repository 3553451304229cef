"""Makes model directories with FunASR's real architectures and random weights, from nothing.

Tests and benchmarks run the real classes with them where no published weights can be had. What a
model costs, and whether two ways to compute it agree, does not depend on its weights; what it
recognises is noise.
"""

from __future__ import annotations

import json
from pathlib import Path
from string import Template
from typing import Any, Literal, get_args

import torch
import yaml

from services.asr.funasr.loader import classes_of
from services.asr.funasr.modules import import_modules, quiet
from services.asr.funasr.random_files import (
    write_pieces,
    write_statistics,
    write_tokens,
    write_words,
)
from tts_engine.random_model import appearing, check_empty, recipe_of

Kind = Literal["paraformer-streaming", "paraformer", "sensevoice", "fsmn-vad", "ct-punc"]
Size = Literal["tiny", "full"]

KINDS: tuple[Kind, ...] = get_args(Kind)

# The numbers in which the sizes differ; `full` is as published.
_PARAFORMER = {
    "tiny": {
        "width": 32,
        "heads": 4,
        "inner": 64,
        "seaco_inner": 48,
        "encoder_blocks": 3,
        "decoder_blocks": 3,
        "tokens": 240,
        "no_bias": 230,
    },
    "full": {
        "width": 512,
        "heads": 4,
        "inner": 2048,
        "seaco_inner": 1024,
        "encoder_blocks": 50,
        "decoder_blocks": 16,
        "tokens": 8404,
        "no_bias": 8377,
    },
}
_SHAPES: dict[Kind, dict[str, dict[str, int]]] = {
    "paraformer-streaming": _PARAFORMER,
    "paraformer": _PARAFORMER,
    "sensevoice": {
        "tiny": {"width": 32, "heads": 4, "inner": 64, "encoder_blocks": 3, "tp_blocks": 2},
        "full": {"width": 512, "heads": 4, "inner": 2048, "encoder_blocks": 50, "tp_blocks": 20},
    },
    "fsmn-vad": {
        "tiny": {"width": 16, "affine": 16, "inner": 32, "encoder_blocks": 2},
        "full": {"width": 128, "affine": 140, "inner": 250, "encoder_blocks": 4},
    },
    "ct-punc": {
        "tiny": {"width": 32, "heads": 4, "inner": 64, "encoder_blocks": 2, "tokens": 240},
        "full": {"width": 256, "heads": 8, "inner": 1024, "encoder_blocks": 4, "tokens": 272_727},
    },
}
#: what makes a predictor fire as often as people speak, about five times a second
_FIRING_BIAS = -0.85


def make_random(kind: Kind, size: Size, out: Path, *, seed: int = 0) -> None:
    """Writes a complete model directory: a second and 1 MB (tiny), up to 940 MB (full).

    The same arguments give the same weights with the same torch.

    Args:
        kind: of model; `paraformer` is the offline one that takes hotwords.
        size: `full` has the shapes of the published models; `tiny` is for tests.
        out: the directory to make; must not exist, or be empty. It appears when it is complete.
        seed: of the weights.

    Raises:
        BadRequest: `out` holds something.
        EngineFailed: FunASR is not installed.
        OSError: the disk is full or cannot be written.
    """
    check_empty(out)
    with appearing(out) as making:
        _fill(making, kind, size, seed)


def recipe() -> str:
    """Twelve characters that change with whatever a model is made from: name what is kept so."""
    return recipe_of(Path(__file__).parent)


def _fill(directory: Path, kind: Kind, size: Size, seed: int) -> None:
    shape = _SHAPES[kind][size]
    template = Path(__file__).with_name("random") / f"{kind}.yaml"
    written = Template(template.read_text(encoding="utf-8")).substitute(shape)
    (directory / "config.yaml").write_text(written, encoding="utf-8")
    config: dict[str, Any] = yaml.safe_load(written)
    described: dict[str, Any] = {"init_param": "model.pt", "config": "config.yaml"}
    if "tokens" in shape:
        write_tokens(directory, count=shape["tokens"])
        described["tokenizer_conf"] = {"token_list": "tokens.json"}
        if "predictor" in config:  # a recogniser
            write_words(directory)
            described["tokenizer_conf"]["seg_dict_file"] = "seg_dict"
    elif config.get("tokenizer"):
        write_pieces(directory, full=size == "full")
        described["tokenizer_conf"] = {"bpemodel": "bpe.model"}
    if frontend := config.get("frontend_conf"):
        write_statistics(directory, width=frontend["n_mels"] * frontend["lfr_m"])
        described["frontend_conf"] = {"cmvn_file": "am.mvn"}
    _write_description(directory, described)
    torch.save(_weights(directory, config, seed), directory / "model.pt")


def _write_description(directory: Path, files: dict[str, Any]) -> None:
    """Writes configuration.json: which file is which."""
    description = {
        "framework": "pytorch",
        "model": {"type": "funasr"},
        "pipeline": {"type": "funasr-pipeline"},
        "file_path_metas": files,
    }
    written = json.dumps(description, indent=2)
    (directory / "configuration.json").write_text(written, encoding="utf-8")


def _weights(directory: Path, config: dict[str, Any], seed: int) -> dict[str, torch.Tensor]:
    import_modules(classes_of(config))
    from funasr.auto.auto_model import AutoModel

    places = {"token_list": "tokens.json", "bpemodel": "bpe.model"}
    for key, name in places.items():
        if (directory / name).exists():
            config["tokenizer_conf"][key] = str(directory / name)
    with quiet():
        model, _ = AutoModel.build_model(**config, device="cpu", ncpu=1, seed=seed)
    state = model.state_dict()
    if (bias := state.get("predictor.cif_output.bias")) is not None:
        bias.fill_(_FIRING_BIAS)
    return state
