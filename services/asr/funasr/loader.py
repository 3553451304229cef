"""Loads a model of FunASR's from a directory, or says in one sentence why it cannot."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import yaml
from torch import nn

from services.asr.funasr.modules import import_modules, quiet
from tts_engine.device import check_room, device_of, dtype_of
from tts_engine.errors import DuplexdError, ModelCorrupt, ModelMissing, first_line

Kind = Literal[
    "paraformer-streaming",
    "paraformer",
    "sensevoice",
    "fun-asr-nano",
    "whisper",
    "punctuation",
    "vad",
]


#: by the class that a config.yaml names as its model
_KINDS: dict[str, Kind] = {
    "ParaformerStreaming": "paraformer-streaming",
    "Paraformer": "paraformer",
    "BiCifParaformer": "paraformer",
    "ContextualParaformer": "paraformer",
    "SeacoParaformer": "paraformer",
    "SenseVoiceSmall": "sensevoice",
    "FunASRNano": "fun-asr-nano",
    "WhisperWarp": "whisper",
    "CTTransformer": "punctuation",
    "FsmnVADStreaming": "vad",
}
#: the keys of a config.yaml whose values are names of classes
_PARTS = (
    "model",
    "encoder",
    "audio_encoder",
    "audio_adaptor",
    "ctc_decoder",
    "decoder",
    "seaco_decoder",
    "predictor",
    "frontend",
    "tokenizer",
    "specaug",
)
#: beside the weights: activations, caches, the libraries' own
_SPARE_BYTES = 300 << 20


@dataclass(frozen=True, kw_only=True)
class Model:
    """A loaded model, in evaluation mode; its weights need no gradients.

    Parameters:
        kind: what it does.
        auto: FunASR's AutoModel around it, whose `generate` is the reference for everything here.
        network: the module.
        tokenizer: between token ids and text; None where the kind has none.
        frontend: samples to features, without dither: the same audio gives the same features.
        config: of the model, as in config.yaml, with the paths of its files.
        device: where the weights are.
        dtype: in which the layers of encoders and decoders compute.
        model_dir: where it came from.
    """

    kind: Kind
    auto: Any
    network: Any
    tokenizer: Any
    frontend: Any
    config: Mapping[str, Any]
    device: torch.device
    dtype: torch.dtype
    model_dir: Path

    def autocast(self) -> AbstractContextManager[Any]:
        """Inside, layers compute in `dtype`; what sums over frames stays float32."""
        return torch.autocast(
            self.device.type, dtype=self.dtype, enabled=self.dtype != torch.float32
        )

    def exact(self) -> AbstractContextManager[Any]:
        """Inside `autocast`, computes in float32 again: for weights that are in float32."""
        return torch.autocast(self.device.type, enabled=False)


def load(model_dir: Path, *, device: str = "cpu", dtype: str = "fp32") -> Model:
    """Loads the model in a directory; nothing is fetched from anywhere.

    Args:
        model_dir: with config.yaml, model.pt and what they name.
        device: cpu, cuda, cuda:1.
        dtype: fp32, fp16 or bf16, of the layers.

    Raises:
        ModelMissing: the directory, or a file that every model has, is not there.
        ModelCorrupt: a file is damaged, or does not fit the others.
        ConfigError: no device or dtype is called so.
        EngineFailed: FunASR is not installed, the device is not here, or memory is short.
    """
    config = read_config(model_dir)
    kind = kind_of(config, model_dir)
    where, number = device_of(device, key="asr.funasr.device"), dtype_of(dtype, device=device)
    check_room(
        (model_dir / "model.pt").stat().st_size,
        device=where,
        dtype=number,
        spare=_SPARE_BYTES,
        mend="Free some, or use a smaller model or another device.",
    )
    import_modules(classes_of(config))
    from funasr.auto import auto_model

    try:
        with quiet(), _strict_weights(auto_model):
            auto: Any = auto_model.AutoModel(
                model=str(model_dir),
                device=device,
                ncpu=torch.get_num_threads(),
                disable_update=True,
                disable_pbar=True,
                # Fun-ASR-Nano runs code of the model's directory where this is not said.
                trust_remote_code=False,
            )
    except DuplexdError:
        raise
    except Exception as error:  # whatever a configuration makes FunASR's classes raise
        raise ModelCorrupt(
            f"FunASR cannot build the model in {model_dir}: {first_line(error)}",
            mend="Take every file of a model from the same place.",
        ) from error
    auto.model.eval().requires_grad_(False)
    _narrow(auto.model, kind, number)
    frontend = auto.kwargs.get("frontend")
    if getattr(frontend, "cmvn", True) is None:  # FunASR goes on without, and understands nothing
        raise ModelMissing(f"{model_dir} has no am.mvn", mend="Fetch the model again.")
    if hasattr(frontend, "dither"):
        frontend.dither = 0.0
    return Model(
        kind=kind,
        auto=auto,
        network=auto.model,
        tokenizer=auto.kwargs.get("tokenizer"),
        frontend=frontend,
        config=auto.kwargs,
        device=where,
        dtype=number,
        model_dir=model_dir,
    )


def read_config(model_dir: Path) -> dict[str, Any]:
    """The configuration in a model's directory.

    Raises:
        ModelMissing: there is no such directory, or a file is not in it.
        ModelCorrupt: config.yaml cannot be read.
    """
    if not model_dir.is_dir():
        raise ModelMissing(
            f"there is no directory {model_dir}", mend="Fetch the model, or name its directory."
        )
    for name in ("config.yaml", "model.pt"):
        if not (model_dir / name).is_file():
            raise ModelMissing(f"{model_dir} has no {name}", mend="Fetch the model again.")
    path = model_dir / "config.yaml"
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ModelCorrupt(f"{path} cannot be read: {first_line(error)}") from error
    if not isinstance(config, dict) or not isinstance(config.get("model"), str):
        raise ModelCorrupt(f"{path} names no model")
    return config


def kind_of(config: Mapping[str, Any], model_dir: Path) -> Kind:
    """What a model is for.

    Raises:
        ModelCorrupt: its class is not one that is used here.
    """
    name = config["model"]
    if name not in _KINDS:
        raise ModelCorrupt(
            f"the model in {model_dir} is a {name}, which is not used here",
            mend=f"Known: {', '.join(_KINDS)}.",
        )
    return _KINDS[name]


def classes_of(config: Mapping[str, Any]) -> list[str]:
    """The names of the classes in a configuration."""
    return [value for part in _PARTS if isinstance(value := config.get(part), str)]


def _narrow(network: nn.Module, kind: Kind, dtype: torch.dtype) -> None:
    """Keeps the weights of the layers in `dtype`, which `autocast` then need not convert.

    Not those that decide when a token is spoken, and which: their sums would be off. Fun-ASR-Nano
    and Whisper convert their own.
    """
    if kind in ("fun-asr-nano", "whisper"):
        return
    for name, part in network.named_modules():
        exact = name.startswith(("predictor", "ctc", "decoder.output_layer"))
        if isinstance(part, nn.Linear | nn.Conv1d) and not exact:
            part.to(dtype)


@contextmanager
def _strict_weights(auto_model: Any) -> Iterator[None]:
    """Has AutoModel read weights by `_load_weights`.

    FunASR's own way leaves what a checkpoint lacks random and prints a line, and holds a second
    copy of all of it meanwhile.
    """
    before = auto_model.load_pretrained_model
    auto_model.load_pretrained_model = _load_weights
    try:
        yield
    finally:
        auto_model.load_pretrained_model = before


def _load_weights(
    *, model: nn.Module, path: str, scope_map: list[str] | str | None = None, **_: object
) -> None:
    state = _read_weights(path)
    scopes = scope_map.split(",") if isinstance(scope_map, str) else list(scope_map or ())
    scopes = ["" if each.lower() == "none" else each for each in [*scopes, "module.", ""]]
    pairs = list(zip(scopes[::2], scopes[1::2], strict=True))
    ours = model.state_dict()
    found = {key: name for key in ours if (name := _name_in(state, key, pairs)) is not None}
    on_loaded = getattr(model, "on_pretrained_model_loaded", None)
    # Fun-ASR-Nano is published without the head that only timestamps need, and does without.
    optional = ("ctc.", "ctc_decoder.") if on_loaded else ()
    missing = {key for key in ours.keys() - found.keys() if not key.startswith(optional)}
    shaped = {key for key, name in found.items() if ours[key].shape != state[name].shape}
    faults = {"missing": missing, "of another shape": shaped}
    if reasons := [
        f"{len(keys)} weights {what} ({min(keys)})" for what, keys in faults.items() if keys
    ]:
        raise ModelCorrupt(
            f"{path} does not fit the configuration beside it: {', '.join(reasons)}",
            mend="Take every file of a model from the same place.",
        )
    model.load_state_dict({key: state[name] for key, name in found.items()}, strict=False)
    if on_loaded:
        on_loaded(frozenset(found))


def _read_weights(path: str) -> dict[str, torch.Tensor]:
    try:
        # Checkpoints of before torch 1.6 are no archives, and cannot be mapped.
        mapped = zipfile.is_zipfile(path)
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        raise ModelCorrupt(f"{path} is no checkpoint: {first_line(error)}") from error
    for around in ("state_dict", "model_state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(around), dict):
            state = state[around]
    if not isinstance(state, dict):
        raise ModelCorrupt(f"{path} holds something other than weights")
    return {key: value for key, value in state.items() if isinstance(value, torch.Tensor)}


def _name_in(
    state: Mapping[str, torch.Tensor], key: str, pairs: list[tuple[str, str]]
) -> str | None:
    """What a checkpoint calls the weight `key`; None where it does not have it."""
    for theirs, ours in pairs:
        if key.startswith(ours) and (name := theirs + key.removeprefix(ours)) in state:
            return name
    return key if key in state else None
