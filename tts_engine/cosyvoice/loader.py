"""Loads a CosyVoice model directory: the real modules, strictly, built from its configuration.

A directory holds, as it is published:

    cosyvoice2.yaml or cosyvoice3.yaml      the architecture
    llm.pt, flow.pt, hift.pt                the three checkpoints
    campplus.onnx, speech_tokenizer_v*.onnx what describes a reference voice
    CosyVoice-BlankEN/                      the language model's shape and the text tokenizer

The weights that lie in CosyVoice-BlankEN are not read: llm.pt has every one of them.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn
from torch.nn.utils import parametrize

from tts_engine.cosyvoice.architecture import build, read_architecture
from tts_engine.cosyvoice.kind import BACKBONE, PARTS, Kind, kind_of
from tts_engine.cosyvoice.modules import contained, import_modules, knows_cosyvoice3
from tts_engine.device import check_room, device_of, dtype_of
from tts_engine.errors import EngineFailed, ModelCorrupt, first_line

if TYPE_CHECKING:
    from collections.abc import Mapping

#: of the configuration
DEVICE_KEY = "tts.cosyvoice.device"

#: beside the weights: activations, caches of one short request, the libraries' own
_SPARE_BYTES = 400 << 20


class Tokenizer(Protocol):
    """Text to the ids that the language model reads."""

    def encode(self, text: str, **options: Any) -> list[int]:
        """Ids of `text`; words in square brackets and `<|...|>` that the model knows are one."""
        ...


@dataclass(frozen=True, kw_only=True)
class CosyVoice:
    """A loaded model: modules in evaluation mode whose weights need no gradients.

    Parameters:
        kind: which generation.
        llm: Qwen2LM or CosyVoice3LM: text and earlier speech tokens -> next one; in `dtype`.
        flow: CausalMaskedDiffWithXvec or CausalMaskedDiffWithDiT: speech tokens -> mel; in `dtype`.
        hift: HiFTGenerator or CausalHiFTGenerator: mel -> samples; always float32, its weight norms
            folded into weights.
        tokenizer: of the text.
        sample_rate: samples per second of what `hift` gives.
        token_rate: speech tokens per second.
        mel_ratio: mel frames per speech token.
        device: where the modules are.
        dtype: of `llm` and `flow`.
        model_dir: where they came from; the voice frontend reads its own models there.
    """

    kind: Kind
    llm: nn.Module
    flow: nn.Module
    hift: nn.Module
    tokenizer: Tokenizer
    sample_rate: int
    token_rate: int
    mel_ratio: int
    device: torch.device
    dtype: torch.dtype
    model_dir: Path


def load(
    model_dir: Path, *, home: Path | None = None, device: str = "cpu", dtype: str = "fp32"
) -> CosyVoice:
    """Loads a model directory. Takes seconds with random weights, half a minute at full size.

    Args:
        model_dir: the directory.
        home: a git checkout of CosyVoice; None takes the installed modules (CosyVoice 2 only).
        device: as torch names them: cpu, cuda, cuda:1.
        dtype: fp32, fp16 (GPU only) or bf16.

    Raises:
        ModelMissing: a file is not there; all that lack are named.
        ModelCorrupt: a file is not what it should be, or does not fit the configuration.
        EngineFailed: the modules are not there, or the device cannot run the model.
        ConfigError: an argument that is never right.
    """
    kind = kind_of(model_dir)
    where, number = device_of(device, key=DEVICE_KEY), dtype_of(dtype, device=device)
    check_room(
        sum((model_dir / f"{name}.pt").stat().st_size for name in PARTS),
        device=where,
        dtype=number,
        spare=_SPARE_BYTES,
        mend="Free some, or use a smaller dtype or another device.",
    )
    import_modules(home)
    if kind == "cosyvoice3" and not knows_cosyvoice3():
        raise EngineFailed(
            "the installed modules are CosyVoice 2's and cannot load a CosyVoice 3 model",
            mend="Clone CosyVoice with its submodules and name it with tts.cosyvoice.home.",
        )
    with contained():
        architecture = read_architecture(
            model_dir / f"{kind}.yaml", qwen_pretrain_path=str(model_dir / BACKBONE)
        )
        parts = {name: _part(name, architecture, model_dir) for name in PARTS}
        tokenizer = build_tokenizer(architecture)
    _fold_weight_norms(parts["hift"])
    for name in ("llm", "flow"):
        parts[name].to(number)
    for part in parts.values():
        part.to(where).eval().requires_grad_(False)
    return CosyVoice(
        kind=kind,
        llm=parts["llm"],
        flow=parts["flow"],
        hift=parts["hift"],
        tokenizer=tokenizer,
        sample_rate=architecture["sample_rate"],
        token_rate=architecture["token_frame_rate"],
        mel_ratio=architecture["token_mel_ratio"],
        device=where,
        dtype=number,
        model_dir=model_dir,
    )


def build_part(name: str, architecture: Mapping[str, Any], *, seed: int = 0) -> nn.Module:
    """Builds one of llm, flow and hift with the weights that its constructors draw.

    Args:
        name: which.
        architecture: of the model.
        seed: of these weights. What a module draws and does not keep in its checkpoint, as the
            flow its noise, is the model's own only with 0.

    Raises:
        ModelCorrupt: the configuration does not describe it.
    """
    if name not in architecture:
        raise ModelCorrupt(f"the configuration describes no {name}")
    torch.manual_seed(seed)
    return build(architecture[name], {"cosyvoice.llm.llm.Qwen2Encoder": _backbone})


def build_tokenizer(architecture: Mapping[str, Any]) -> Tokenizer:
    """Builds the text tokenizer.

    Raises:
        ModelCorrupt: its files are missing or damaged.
    """
    try:
        return build(architecture["get_tokenizer"], {})()
    except Exception as error:  # the library that reads them raises nothing narrower
        raise ModelCorrupt(
            f"the text tokenizer in {BACKBONE} cannot be read: {first_line(error)}"
        ) from error


def backbone_of(llm: nn.Module) -> nn.Module:
    """The Qwen2ForCausalLM in a Qwen2LM; its `model` is the transformer without the text head."""
    return llm.get_submodule("llm.model")


def _backbone(pretrain_path: str) -> nn.Module:
    """The Qwen2 that CosyVoice wraps, from its configuration: the checkpoint has its weights."""
    from cosyvoice.llm.llm import Qwen2Encoder
    from transformers import Qwen2Config, Qwen2ForCausalLM

    try:
        config = Qwen2Config.from_pretrained(pretrain_path)
    except (OSError, ValueError) as error:
        raise ModelCorrupt(f"{BACKBONE}/config.json cannot be read: {first_line(error)}") from error
    encoder = Qwen2Encoder.__new__(Qwen2Encoder)
    nn.Module.__init__(encoder)
    encoder.model = Qwen2ForCausalLM(config)
    return encoder


def _part(name: str, architecture: Mapping[str, Any], model_dir: Path) -> nn.Module:
    part = build_part(name, architecture)
    path = model_dir / f"{name}.pt"
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        raise ModelCorrupt(f"{path} is no checkpoint: {first_line(error)}") from error
    if not isinstance(state, dict) or not all(
        isinstance(value, torch.Tensor) for value in state.values()
    ):
        raise ModelCorrupt(f"{path} holds something other than weights")
    # A vocoder that was trained with its discriminators names its weights so.
    state = {key.removeprefix("generator."): value for key, value in state.items()}
    _check_fit(path, part.state_dict(), state)
    part.load_state_dict(state, strict=True)
    return part


def _check_fit(
    path: Path, ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]
) -> None:
    """Raises ModelCorrupt when a checkpoint belongs to another architecture."""
    missing, unknown = ours.keys() - theirs.keys(), theirs.keys() - ours.keys()
    shaped = {key for key in ours.keys() & theirs.keys() if ours[key].shape != theirs[key].shape}
    found = {"missing": missing, "unknown": unknown, "of another shape": shaped}
    if reasons := [
        f"{len(keys)} weights {what} ({min(keys)})" for what, keys in found.items() if keys
    ]:
        raise ModelCorrupt(
            f"{path} does not fit the configuration beside it: {', '.join(reasons)}",
            mend="Take every file of a model from the same place.",
        )


def _fold_weight_norms(part: nn.Module) -> None:
    """Replaces normed weights by the weights that they stand for: the same output, sooner."""
    for module in part.modules():
        if parametrize.is_parametrized(module):
            for name in list(module.parametrizations):  # pyright: ignore[reportArgumentType]
                parametrize.remove_parametrizations(module, name)
