"""Makes a FunASR model directory of the embedded Whisper weights, which are CTranslate2's."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import torch
import yaml

_DTYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
_DIMS = {
    "n_mels": 80,
    "n_audio_ctx": 1500,
    "n_audio_state": 512,
    "n_audio_head": 8,
    "n_audio_layer": 6,
    "n_vocab": 51865,
    "n_text_ctx": 448,
    "n_text_state": 512,
    "n_text_head": 8,
    "n_text_layer": 6,
}
#: of a layer, theirs to ours
_NORMS = {
    "self_attention/layer_norm": "attn_ln",
    "attention/layer_norm": "cross_attn_ln",
    "ffn/layer_norm": "mlp_ln",
}
_LINEARS = {
    "self_attention/linear_1": "attn.out",
    "attention/linear_0": "cross_attn.query",
    "attention/linear_2": "cross_attn.out",
    "ffn/linear_0": "mlp.0",
    "ffn/linear_1": "mlp.2",
}
#: several of ours in one of theirs
_FUSED = {
    "self_attention/linear_0": ("attn.query", "attn.key", "attn.value"),
    "attention/linear_1": ("cross_attn.key", "cross_attn.value"),
}


def convert(whisper_base: Path, out: Path) -> None:
    """Writes config.yaml and model.pt for FunASR's WhisperWarp.

    Args:
        whisper_base: the directory of the model of that name.
        out: the directory to make.
    """
    out.mkdir()
    torch.save(_weights(_read(whisper_base / "model.bin")), out / "model.pt")
    config = {
        "model": "WhisperWarp",
        "model_conf": {"hub": "funasr"},
        "dims": _DIMS,
        "frontend": "WhisperFrontend",
        "frontend_conf": {"n_mels": 80, "do_pad_trim": True, "permute": False},
        "scope_map": ["none", "model."],
    }
    (out / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")


def _read(path: Path) -> dict[str, torch.Tensor]:
    """The variables of a CTranslate2 model, version 6 of the format."""
    data, at = path.read_bytes(), 0

    def number(code: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(f"<{code}", data, at)
        at += struct.calcsize(code)
        return value

    def text() -> str:
        nonlocal at
        length = number("H")
        at += length
        return data[at - length : at].rstrip(b"\0").decode()

    assert (number("I"), text(), number("I")) == (6, "WhisperSpec", 3)
    variables: dict[str, torch.Tensor] = {}
    for _ in range(number("I")):
        name = text()
        shape = [number("I") for _ in range(number("B"))]
        dtype, length = _DTYPES[number("B")], number("I")
        values = np.frombuffer(data[at : at + length], dtype).reshape(shape)
        variables[name] = torch.from_numpy(values.astype(np.float32))
        at += length
    return variables


def _weights(theirs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    ours = {
        "decoder.token_embedding.weight": theirs["decoder/embeddings/weight"],
        "decoder.positional_embedding": theirs["decoder/position_encodings/encodings"],
        "encoder.positional_embedding": theirs["encoder/position_encodings/encodings"],
    }
    for conv in ("conv1", "conv2"):
        for part in ("weight", "bias"):
            ours[f"encoder.{conv}.{part}"] = theirs[f"encoder/{conv}/{part}"]
    for side, last in (("encoder", "ln_post"), ("decoder", "ln")):
        _norm(ours, f"{side}.{last}", theirs, f"{side}/layer_norm")
        for layer in range(_DIMS["n_audio_layer"]):
            here, there = f"{side}.blocks.{layer}", f"{side}/layer_{layer}"
            for name, own in _NORMS.items():
                _norm(ours, f"{here}.{own}", theirs, f"{there}/{name}")
            for name, own in _LINEARS.items():
                _linear(ours, (f"{here}.{own}",), theirs, f"{there}/{name}")
            for name, parts in _FUSED.items():
                _linear(ours, tuple(f"{here}.{own}" for own in parts), theirs, f"{there}/{name}")
    return ours


def _norm(
    ours: dict[str, torch.Tensor], own: str, theirs: dict[str, torch.Tensor], name: str
) -> None:
    if f"{name}/gamma" in theirs:
        ours[f"{own}.weight"], ours[f"{own}.bias"] = (
            theirs[f"{name}/gamma"],
            theirs[f"{name}/beta"],
        )


def _linear(
    ours: dict[str, torch.Tensor],
    own: tuple[str, ...],
    theirs: dict[str, torch.Tensor],
    name: str,
) -> None:
    if f"{name}/weight" not in theirs:
        return
    for part in ("weight", "bias"):
        for each, values in zip(own, theirs[f"{name}/{part}"].chunk(len(own)), strict=True):
            if not (each.endswith(".key") and part == "bias"):  # Whisper's keys have none
                ours[f"{each}.{part}"] = values.contiguous()
