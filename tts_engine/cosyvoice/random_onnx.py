"""Small ONNX models in the place of the two that describe a reference voice.

They have the real ones' inputs, outputs and lengths, and what they give depends on the audio.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

_SPEECH_TOKENS = 6561
_OPSET = 17
_IR_VERSION = 8


def write_speaker_model(path: Path, *, seed: int) -> None:
    """Writes a campplus.onnx: `input` float32 [B, T, 80] -> `output` float32 [B, 192]."""
    weights = np.random.default_rng(seed).standard_normal((80, 192)).astype(np.float32)
    nodes = [
        helper.make_node("ReduceMean", ["input"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("Abs", ["input"], ["size"]),
        helper.make_node("ReduceMean", ["size"], ["level"], axes=[1], keepdims=0),
        helper.make_node("Add", ["mean", "level"], ["features"]),
        helper.make_node("MatMul", ["features", "weights"], ["output"]),
    ]
    _write(
        path,
        helper.make_graph(
            nodes,
            "speaker",
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["B", "T", 80])],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["B", 192])],
            [numpy_helper.from_array(weights, "weights")],
        ),
    )


def write_speech_tokenizer(path: Path) -> None:
    """Writes a speech_tokenizer: `feats` float32 [1, 128, T], `feats_length` int32 [1] ->
    `indices` int32 [1, T / 4].
    """
    constants = {
        "start": np.array([3]),
        "end": np.array([2**31]),
        "axis": np.array([2]),
        "step": np.array([4]),
        "tokens": np.array(_SPEECH_TOKENS),
        "spread": np.float32(9973),
    }
    nodes = [
        helper.make_node("Slice", ["feats", "start", "end", "axis", "step"], ["quarter"]),
        helper.make_node("ReduceMean", ["quarter"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("Abs", ["mean"], ["size"]),
        helper.make_node("Mul", ["size", "spread"], ["spread_out"]),
        helper.make_node("Cast", ["spread_out"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Mod", ["whole", "tokens"], ["token"]),
        helper.make_node("Cast", ["token"], ["indices"], to=TensorProto.INT32),
    ]
    _write(
        path,
        helper.make_graph(
            nodes,
            "speech_tokenizer",
            [
                helper.make_tensor_value_info("feats", TensorProto.FLOAT, [1, 128, "T"]),
                helper.make_tensor_value_info("feats_length", TensorProto.INT32, [1]),
            ],
            [helper.make_tensor_value_info("indices", TensorProto.INT32, [1, "T4"])],
            [numpy_helper.from_array(_int64(value), name) for name, value in constants.items()],
        ),
    )


def _int64(value: NDArray[np.generic] | np.float32) -> NDArray[np.generic]:
    array = np.asarray(value)
    return array if array.dtype == np.float32 else array.astype(np.int64)


def _write(path: Path, graph: onnx.GraphProto) -> None:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = _IR_VERSION
    onnx.checker.check_model(model)
    onnx.save(model, path)
