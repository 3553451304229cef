"""Weight-only precision of the language model: its layers' matrices in 8 or 4 bits, by torchao.

    int8    a scale for each row of a matrix
    int4    a scale and an offset for each 128 values of a row; with bf16 only

What is computed with them stays in the model's precision. Embeddings, norms and the head stay as
they are. Memory is all that this saves by itself: torchao gives a matrix back to the model's
precision whenever it is used (int8), which `compile` makes one with the product.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from tts_engine.cosyvoice.wire import Quantize
from tts_engine.errors import ConfigError, EngineFailed
from tts_engine.foreign import contained

#: values that share a scale in 4 bits
GROUP = 128
INSTALL = "Run `pip install torchao==0.18.0`, or set tts.cosyvoice.quantize to none."


def check_quantize(mode: Quantize, *, dtype: str) -> None:
    """Refuses what can never work, before anything is loaded.

    Args:
        mode: what is wanted.
        dtype: as for `loader.load`.

    Raises:
        ConfigError: int4 in another precision than bf16.
        EngineFailed: torchao is not installed.
    """
    if mode == "none":
        return
    if find_spec("torchao") is None:
        raise EngineFailed(f"{mode} weights need torchao, which is not installed", mend=INSTALL)
    if mode == "int4" and dtype != "bf16":
        raise ConfigError(
            f"int4 weights need bf16, and CosyVoice's dtype is {dtype}",
            mend="Set tts.cosyvoice.dtype to bf16, or tts.cosyvoice.quantize to int8 or none.",
        )


def quantize(layers: nn.Module, mode: Quantize) -> None:
    """Replaces the matrices of some layers in place, one after another.

    Args:
        layers: the language model's, on their device.
        mode: to what.

    Raises:
        EngineFailed: torchao is not there, does not fit torch, or cannot do it here.
    """
    if mode == "none":
        return
    try:
        with contained(), torch.inference_mode():
            config = _config(mode, on_gpu=next(layers.parameters()).device.type == "cuda")
            import_module("torchao.quantization").quantize_(layers, config)
    except ImportError as error:
        raise EngineFailed(f"{mode} weights need torchao: {error}", mend=INSTALL) from error
    except Exception as error:  # what a version that fits torch less well may raise
        raise EngineFailed(
            f"torchao cannot make {mode} weights here: {error}",
            mend="Set tts.cosyvoice.quantize to none.",
        ) from error


def _config(mode: Quantize, *, on_gpu: bool) -> Any:
    """What torchao calls it."""
    if mode == "int8":
        module = import_module("torchao.quantization")
        return module.Int8WeightOnlyConfig(set_inductor_config=False)
    if on_gpu:
        return import_module("torchao.quantization").Int4WeightOnlyConfig(
            group_size=GROUP, int4_packing_format="tile_packed_to_4d", set_inductor_config=False
        )
    module = import_module("torchao.prototype.quantization.int4.inference_workflow")
    return module.PrototypeInt4WeightOnlyConfig(group_size=GROUP, set_inductor_config=False)
