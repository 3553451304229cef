# pyright: strict
"""What TensorRT is asked for, and whether it can be: all that is decided without a GPU.

Two engines can take the place of the flow's estimator, by far the most of its work:

    estimator   upstream's own export, which its users run: whole mels, no caches
    block       our export of one block of the incremental flow: fixed shapes, caches in and out
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from tts_engine.cosyvoice.kind import Kind
from tts_engine.errors import ConfigError, EngineFailed, ModelMissing

Mode = Literal["off", "estimator", "block"]
Shape: TypeAlias = tuple[int, ...]

#: upstream's file, which is in the published model directories
ESTIMATOR = "flow.decoder.estimator.fp32.onnx"
ESTIMATOR_INPUTS = ("x", "mask", "mu", "t", "spks", "cond")
ESTIMATOR_OUTPUT = "estimator_out"
#: mel frames that the estimator's engine takes: at least, as a rule, at most
ESTIMATOR_FRAMES = (4, 500, 3000)
#: values of a mel frame
_MEL = 80

#: how to come by TensorRT
INSTALL = "Run `pip install 'tensorrt-cu13>=10.1,<12'`, or tensorrt-cu12 if torch is for CUDA 12"
#: versions of the package `tensorrt` whose interface is the one that is used here
_FIRST, _LAST = (10, 1), (11,)
#: from here on the types of a network are those of its file, and no flag lowers them
_STRONGLY_TYPED = (11,)
#: the precisions that a flag allows beside those of the file
_FLAGS = {"fp16": "FP16", "bf16": "BF16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An engine that is to be had.

    Parameters:
        name: what it is.
        onnx: what it is made of.
        precision: fp32, fp16 or bf16.
        typed: the file has the precision already, and every layer is to keep to it; otherwise the
            file is in fp32, and layers may be computed in the precision where that is faster.
        shapes: least, usual and greatest shape of each input that has no fixed one.
    """

    name: str
    onnx: Path
    precision: str
    typed: bool
    shapes: Mapping[str, tuple[Shape, Shape, Shape]] = field(
        default_factory=dict[str, tuple[Shape, Shape, Shape]]
    )

    @property
    def flag(self) -> str | None:
        """The builder flag that allows the precision; None where none is needed."""
        return None if self.typed else _FLAGS.get(self.precision)


def check_fit(mode: Mode, *, kind: Kind, device: str, dtype: str, cache: str) -> None:
    """Refuses what can never work, before anything is loaded.

    Args:
        mode: what is wanted.
        kind: of the model.
        device, dtype: as for `loader.load`.
        cache: of the flow.

    Raises:
        ConfigError: one sentence says why.
    """
    if mode == "off":
        return
    if not device.startswith("cuda"):
        raise ConfigError(
            f"TensorRT needs a GPU, and CosyVoice's device is {device}",
            mend="Set tts.cosyvoice.tensorrt to off, or tts.cosyvoice.device to cuda.",
        )
    if kind == "cosyvoice3" and dtype == "fp16":
        raise ConfigError(
            "CosyVoice 3 in fp16 gives no sound with TensorRT, only NaN",
            mend="Set tts.cosyvoice.dtype to fp32, or tts.cosyvoice.tensorrt to off.",
        )
    if mode == "block" and kind == "cosyvoice3":
        raise ConfigError(
            "the block is one of CosyVoice 2's flow, and this model is CosyVoice 3",
            mend="Set tts.cosyvoice.tensorrt to estimator or off.",
        )
    if mode == "block" and cache != "kv":
        raise ConfigError(
            f"the block takes keys and values, and tts.cosyvoice.cache is {cache}",
            mend="Set tts.cosyvoice.cache to kv, or tts.cosyvoice.tensorrt to off.",
        )


def check_version(version: str, plan: Plan) -> None:
    """Refuses a TensorRT that cannot make an engine as it is wanted.

    Raises:
        EngineFailed: one sentence says why.
    """
    numbers = tuple(int(each) for each in re.findall(r"\d+", version)[:2])
    if numbers < _FIRST or numbers[:1] > _LAST:
        raise EngineFailed(
            f"TensorRT {version} does not fit: this is made for {_FIRST[0]}.{_FIRST[1]} to "
            f"{_LAST[0]}",
            mend=INSTALL + ".",
        )
    if plan.flag and numbers[:1] >= _STRONGLY_TYPED:
        raise EngineFailed(
            f"TensorRT {version} does not fit: from {_STRONGLY_TYPED[0]} on it computes "
            f"{plan.onnx.name} in no other precision than its own, fp32",
            mend="Run `pip install 'tensorrt-cu13>=10.1,<11'`, or set tts.cosyvoice.dtype to fp32, "
            "or tts.cosyvoice.tensorrt to block.",
        )


def estimator_plan(model_dir: Path, precision: str) -> Plan:
    """The engine of upstream's estimator: two rows, any length, single precision in and out.

    Args:
        model_dir: where its file lies.
        precision: fp32, fp16 or bf16.

    Raises:
        ModelMissing: the file is not there.
    """
    onnx = model_dir / ESTIMATOR
    if not onnx.is_file():
        raise ModelMissing(
            f"TensorRT makes its engine of {ESTIMATOR}, and {model_dir} has none",
            mend="Take it from where the model came from, or set tts.cosyvoice.tensorrt to block.",
        )

    def long(channels: int) -> tuple[Shape, Shape, Shape]:
        least, usual, greatest = ((2, channels, frames) for frames in ESTIMATOR_FRAMES)
        return least, usual, greatest

    channels = {"x": _MEL, "mask": 1, "mu": _MEL, "cond": _MEL}
    return Plan(
        name="estimator",
        onnx=onnx,
        precision=precision,
        typed=False,
        shapes={name: long(count) for name, count in channels.items()},
    )


def block_plan(onnx: Path, precision: str) -> Plan:
    """The engine of an exported block: every shape is fixed, and every type is in the file."""
    return Plan(name="block", onnx=onnx, precision=precision, typed=True)


def engine_name(plan: Plan, *, gpu: str, version: str, onnx_sha256: str) -> str:
    """The name of an engine's file: another one for whatever it depends on.

    Args:
        plan: what it is.
        gpu: what the GPU is called.
        version: of TensorRT.
        onnx_sha256: of the ONNX file.
    """
    asked = (onnx_sha256, plan.typed, sorted(plan.shapes.items()))
    digest = hashlib.sha256(repr(asked).encode()).hexdigest()[:16]
    card = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
    return f"{plan.name}-{card}-trt{version}-{plan.precision}-{digest}.engine"
