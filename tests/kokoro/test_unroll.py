"""An unrolled convolution gives the integers of the convolution, and the floats it is scaled to."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tts_engine.kokoro.unroll import signed_products_exact, unroll_convolutions

RNG = np.random.default_rng(7)
CHANNELS, OUT = 6, 5

pytestmark = pytest.mark.skipif(
    not signed_products_exact(), reason="this processor saturates signed products"
)


def constant(name: str, value: np.ndarray) -> TensorProto:
    return numpy_helper.from_array(value, name)


def build(
    *, taps: int, dilation: int, scaled: bool = False, bias: bool = False, **attributes: object
) -> onnx.ModelProto:
    """ConvInteger, with the chain of scaling that quantisation tools put behind it."""
    pad = dilation * (taps - 1) // 2
    attributes = {"dilations": [dilation], "pads": [pad, pad], "kernel_shape": [taps]} | attributes
    groups = attributes.get("group", 1)
    weights = RNG.integers(0, 256, (OUT, CHANNELS // int(groups), taps), dtype=np.uint8)  # type: ignore[call-overload]
    tensors = [
        constant("w", weights),
        constant("w_zero", np.array(131, np.uint8)),
        constant("w_scale", np.array(0.02, np.float32)),
        constant("bias", RNG.normal(size=OUT).astype(np.float32)),
        constant("shape", np.array([1, -1, 1])),
    ]
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "q_scale", "q_zero"]),
        helper.make_node("ConvInteger", ["q", "w", "q_zero", "w_zero"], ["sums"], **attributes),
    ]
    output, kind = "sums", TensorProto.INT32
    if scaled:
        nodes.append(helper.make_node("Mul", ["q_scale", "w_scale"], ["factor"]))
        if bias:
            nodes += [
                helper.make_node("Div", ["bias", "factor"], ["b1"]),
                helper.make_node("Floor", ["b1"], ["b2"]),
                helper.make_node("Cast", ["b2"], ["b3"], to=TensorProto.INT32),
                helper.make_node("Reshape", ["b3", "shape"], ["b4"]),
                helper.make_node("Add", ["sums", "b4"], ["biased"]),
            ]
        nodes += [
            helper.make_node("Cast", ["biased" if bias else "sums"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["f", "factor"], ["y"]),
        ]
        output, kind = "y", TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, CHANNELS, None])],
        [helper.make_tensor_value_info(output, kind, None)],
        tensors,
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return np.asarray(session.run(None, {"x": x})[0])


@pytest.mark.parametrize("taps,dilation", [(1, 1), (3, 1), (3, 2), (7, 3), (11, 5)])
def test_same_integers(taps: int, dilation: int) -> None:
    model = build(taps=taps, dilation=dilation)
    x = RNG.normal(size=(1, CHANNELS, 90)).astype(np.float32)
    before = run(model, x)
    assert unroll_convolutions(model) == 1
    assert not any(node.op_type == "ConvInteger" for node in model.graph.node)
    assert np.array_equal(run(model, x), before)


@pytest.mark.parametrize("bias", [False, True])
def test_scaling_is_fused(bias: bool) -> None:
    model = build(taps=3, dilation=1, scaled=True, bias=bias)
    x = RNG.normal(size=(1, CHANNELS, 40)).astype(np.float32)
    before = run(model, x)
    assert unroll_convolutions(model) == 1
    assert any(node.op_type == "MatMulIntegerToFloat" for node in model.graph.node)
    # The published graph rounds its bias down to a multiple of the scale.
    step = float((x.max() - x.min()) / 255) * 0.02
    assert np.abs(run(model, x) - before).max() <= step * 1.01


def test_strides_and_groups_stay() -> None:
    for model in (
        build(taps=3, dilation=1, strides=[2]),
        build(taps=1, dilation=1, group=1, strides=[3]),
    ):
        nodes = [node.op_type for node in model.graph.node]
        assert unroll_convolutions(model) == 0
        assert [node.op_type for node in model.graph.node] == nodes


def test_foreign_shapes_stay() -> None:
    computed = build(taps=3, dilation=1)
    del computed.graph.initializer[0]
    assert unroll_convolutions(computed) == 0
    without_zero = build(taps=3, dilation=1)
    del without_zero.graph.node[1].input[3]
    assert unroll_convolutions(without_zero) == 0


def test_other_scalings_keep_their_nodes() -> None:
    """What is not the known chain is left behind the product of integers."""
    x = RNG.normal(size=(1, CHANNELS, 30)).astype(np.float32)
    not_a_bias = build(taps=3, dilation=1, scaled=True, bias=True)
    not_a_bias.graph.node[4].op_type = "Ceil"  # was Floor
    other_scale = build(taps=3, dilation=1, scaled=True)
    other_scale.graph.node[2].op_type = "Add"  # was Mul of the scales
    for model in (not_a_bias, other_scale):
        before = run(model, x)
        assert unroll_convolutions(model) == 1
        assert any(node.op_type == "MatMulInteger" for node in model.graph.node)
        assert np.allclose(run(model, x), before)
