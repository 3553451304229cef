"""Edits of the Kokoro graph, made in memory when the model is loaded.

The published graph is one piece: tokens in, audio out. Three edits make it fit for conversation:

- it is split where the prosody is known: the *planner* turns tokens into frames (durations, pitch,
  energy, text features), the *vocoder* turns frames into audio. Between the two the silence before
  and after the words is cut, so that it is never computed (it is 1.4 s in every clause);
- the planner's inner durations become an output, which aligns audio with characters;
- the integer convolutions become integer matrix products with signed weights, which are computed
  at twice to three times the speed, with the same integers as the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.utils import Extractor

from tts_engine.errors import ModelCorrupt, ModelMissing

#: frames per token, float [1, tokens]
DURATIONS = "/encoder/Clip_output_0"
#: text features per frame, float [1, 512, frames]
FEATURES = "/encoder/MatMul_1_output_0"
#: pitch, Hz, float [1, 2 * frames]
PITCH = "/encoder/Reshape_output_0"
#: energy, float [1, 2 * frames]
ENERGY = "/encoder/Reshape_1_output_0"

#: beyond every length: "to the end" for Slice
_END = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Graphs:
    """The two halves of the model, serialised.

    Parameters:
        planner: tokens int64 [1, n], style float [1, 256], speed float [1] -> DURATIONS, FEATURES,
            PITCH, ENERGY.
        vocoder: FEATURES, PITCH, ENERGY, style -> audio float [samples], 600 a frame.
    """

    planner: bytes
    vocoder: bytes


def load_graphs(path: Path, *, signed: bool) -> Graphs:
    """Reads and edits the model.

    Args:
        path: the published .onnx file.
        signed: products of unsigned activations and signed weights are exact on this processor
            (see `kernels.signed_products_exact`); without it the convolutions stay as they are.

    Raises:
        ModelMissing: there is no such file.
        ModelCorrupt: the file is no ONNX model, or has not the tensors named above.
    """
    if not path.is_file():
        raise ModelMissing(
            f"the voice model {path} is not there",
            mend="Run `run.py models fetch kokoro`",
        )
    try:
        model = onnx.load(path)
        extractor = Extractor(model)
        planner = extractor.extract_model(
            ["tokens", "style", "speed"], [DURATIONS, FEATURES, PITCH, ENERGY]
        )
        vocoder = extractor.extract_model([FEATURES, PITCH, ENERGY, "style"], ["audio"])
    except Exception as error:  # protobuf and onnx raise classes of many kinds
        raise ModelCorrupt(
            f"the voice model {path} cannot be read ({type(error).__name__}: {error})",
            mend="Run `run.py models verify kokoro`, then fetch it again",
        ) from error
    if signed:
        unroll_convolutions(planner)
        unroll_convolutions(vocoder)
    return Graphs(planner.SerializeToString(), vocoder.SerializeToString())


def unroll_convolutions(model: onnx.ModelProto) -> int:
    """Replaces 1-D integer convolutions by integer matrix products, in place.

    A convolution with kernel k over [1, C, L] is the product of the [L, k * C] matrix of shifted
    copies with the [k * C, M] weights. Unsigned weights become signed by taking 128 from them and
    from their zero point, which leaves every difference, and so every sum, as it was.

    Returns:
        How many convolutions were replaced; those with a stride, groups or computed weights stay.
    """
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    made: dict[str, onnx.TensorProto] = {}
    nodes: list[onnx.NodeProto] = []
    replaced = 0
    for node in graph.node:
        unrolled = _unroll(node, weights, made) if node.op_type == "ConvInteger" else None
        nodes.extend(unrolled or [node])
        replaced += unrolled is not None
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.node[:]
    del graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend([*kept, *made.values()])
    return replaced


def _unroll(
    node: onnx.NodeProto,
    weights: dict[str, onnx.TensorProto],
    made: dict[str, onnx.TensorProto],
) -> list[onnx.NodeProto] | None:
    """The nodes that do what a ConvInteger does, or None where this does not apply."""
    if len(node.input) != 4:
        return None
    data, weight, data_zero, weight_zero = node.input
    if weight not in weights or weight_zero not in weights:
        return None
    kernel = numpy_helper.to_array(weights[weight])
    attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    strides = list(attributes.get("strides", [1]))
    if kernel.ndim != 3 or strides != [1] or attributes.get("group", 1) != 1:
        return None
    if kernel.dtype != np.uint8:
        return None
    (dilation,) = attributes.get("dilations", [1])
    before, after = attributes.get("pads", [0, 0])
    out_channels, _, taps = kernel.shape

    def constant(name: str, value: NDArray[np.generic]) -> str:
        made.setdefault(name, numpy_helper.from_array(value, name))
        return name

    def signed(name: str, value: NDArray[np.uint8]) -> str:
        return constant(f"{name}_signed", (value.astype(np.int16) - 128).astype(np.int8))

    matrix = signed(weight, kernel.transpose(2, 1, 0).reshape(-1, out_channels))
    zero = signed(weight_zero, numpy_helper.to_array(weights[weight_zero]))
    prefix = node.output[0]
    rows = f"{prefix}/rows"
    nodes = [helper.make_node("Transpose", [data], [rows], perm=[0, 2, 1])]
    if before or after:
        pads = constant(f"/unroll/pads_{before}_{after}", np.array([0, before, 0, 0, after, 0]))
        padded = f"{prefix}/padded"
        nodes.append(helper.make_node("Pad", [rows, pads, data_zero], [padded]))
        rows = padded
    if taps > 1:
        shifted: list[str] = []
        axis = constant("/unroll/axis", np.array([1]))
        for tap in range(taps):
            start = tap * dilation
            end = start - dilation * (taps - 1) or _END
            name = f"{prefix}/tap_{tap}"
            bounds = [
                constant(f"/unroll/at_{start}", np.array([start])),
                constant(f"/unroll/at_{end}", np.array([end])),
            ]
            nodes.append(helper.make_node("Slice", [rows, *bounds, axis], [name]))
            shifted.append(name)
        rows = f"{prefix}/unrolled"
        nodes.append(helper.make_node("Concat", shifted, [rows], axis=2))
    product = f"{prefix}/product"
    nodes.append(helper.make_node("MatMulInteger", [rows, matrix, data_zero, zero], [product]))
    nodes.append(helper.make_node("Transpose", [product], [prefix], perm=[0, 2, 1]))
    return nodes
