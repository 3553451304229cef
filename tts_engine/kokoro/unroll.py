"""Integer convolutions as integer matrix products: the same sums in half to a third of the time.

onnxruntime's ConvInteger unrolls its input into a matrix that leaves the cache, and packs it anew
for every call. A product with constant weights packs the *weights*, once, when the model is
loaded, and has fast kernels when they are signed.

A 1-D convolution with kernel k over [1, C, L] is the product of the [L, k * C] matrix of shifted
copies with the [k * C, M] weights. Unsigned weights become signed by taking 128 from them and from
their zero point, which leaves every difference, and so every sum, as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper

#: "to the end" for Slice: beyond every length
_END = 2**31 - 1
_MICROSOFT = "com.microsoft"


def signed_products_exact() -> bool:
    """Whether this processor multiplies unsigned by signed bytes without loss.

    Without VNNI, x86 adds pairs of products in 16 bits and saturates, which is audible. The
    largest values show it.
    """
    size = 64
    ones = helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [4, size])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [4, size])
    weights = numpy_helper.from_array(np.full((size, size), 127, np.int8), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])], "probe", [ones], [result], [weights]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (got,) = session.run(None, {"x": np.full((4, size), 255, np.uint8)})
    return bool(np.all(np.asarray(got) == size * 255 * 127))


@dataclass(slots=True)
class _Graph:
    """Look-ups over a graph, and the constants made for it."""

    weights: dict[str, onnx.TensorProto]
    maker: dict[str, onnx.NodeProto]
    users: dict[str, list[onnx.NodeProto]]
    made: dict[str, onnx.TensorProto] = field(default_factory=dict[str, onnx.TensorProto])

    @classmethod
    def of(cls, graph: onnx.GraphProto) -> _Graph:
        users: dict[str, list[onnx.NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                users.setdefault(name, []).append(node)
        return cls(
            weights={tensor.name: tensor for tensor in graph.initializer},
            maker={name: node for node in graph.node for name in node.output},
            users=users,
        )

    def value(self, name: str) -> NDArray[np.generic]:
        return numpy_helper.to_array(self.weights[name])

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        if name not in self.made:
            self.made[name] = numpy_helper.from_array(value, name)
        return name

    def signed(self, name: str, value: NDArray[np.generic]) -> str:
        return self.constant(f"{name}_signed", (value.astype(np.int16) - 128).astype(np.int8))

    def user(self, name: str, op_type: str) -> onnx.NodeProto | None:
        """The only user of a tensor, if it is of that type."""
        users = self.users.get(name, [])
        return users[0] if len(users) == 1 and users[0].op_type == op_type else None


@dataclass(frozen=True, slots=True)
class _Scaling:
    """The nodes behind a convolution that turn its sums into floats.

    Parameters:
        output: the float tensor they end in.
        data_scale, weight_scale: scalar tensors.
        bias: float tensor [M], or empty.
        replaced: outputs of the nodes that are no longer needed.
    """

    output: str
    data_scale: str
    weight_scale: str
    bias: str
    replaced: tuple[str, ...]


def unroll_convolutions(model: onnx.ModelProto) -> int:
    """Replaces integer convolutions, in place.

    Returns:
        How many were replaced; those with a stride, groups or computed weights stay.
    """
    graph = model.graph
    index = _Graph.of(graph)
    nodes: list[onnx.NodeProto] = []
    gone: set[str] = set()
    replaced = 0
    for node in graph.node:
        if node.output[0] in gone:
            continue
        unrolled = _unroll(node, index, gone) if node.op_type == "ConvInteger" else None
        replaced += unrolled is not None
        nodes.extend(unrolled or [node])
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.node[:]
    del graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend([*kept, *index.made.values()])
    return replaced


def _unroll(node: onnx.NodeProto, index: _Graph, gone: set[str]) -> list[onnx.NodeProto] | None:
    """The nodes that do what a ConvInteger does, or None where this does not apply."""
    if len(node.input) != 4:
        return None
    data, weight, data_zero, weight_zero = node.input
    if weight not in index.weights or weight_zero not in index.weights:
        return None
    kernel = index.value(weight)
    attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    plain = list(attributes.get("strides", [1])) == [1] and attributes.get("group", 1) == 1
    if kernel.ndim != 3 or kernel.dtype != np.uint8 or not plain:
        return None
    (dilation,) = attributes.get("dilations", [1])
    before, after = attributes.get("pads", [0, 0])
    prefix = node.output[0]

    nodes, rows = _rows(index, prefix, data, data_zero, kernel.shape[2], dilation, (before, after))
    matrix = index.signed(weight, kernel.transpose(2, 1, 0).reshape(-1, kernel.shape[0]))
    zero = index.signed(weight_zero, index.value(weight_zero))
    product = f"{prefix}/product"
    scaling = _scaling(index, node)
    if scaling is None:
        nodes.append(helper.make_node("MatMulInteger", [rows, matrix, data_zero, zero], [product]))
        output = prefix
    else:
        inputs = [rows, matrix, scaling.data_scale, scaling.weight_scale, data_zero, zero]
        inputs += [scaling.bias] if scaling.bias else []
        nodes.append(helper.make_node("MatMulIntegerToFloat", inputs, [product], domain=_MICROSOFT))
        gone.update(scaling.replaced)
        output = scaling.output
    nodes.append(helper.make_node("Transpose", [product], [output], perm=[0, 2, 1]))
    return nodes


def _rows(
    index: _Graph,
    prefix: str,
    data: str,
    data_zero: str,
    taps: int,
    dilation: int,
    pads: tuple[int, int],
) -> tuple[list[onnx.NodeProto], str]:
    """Nodes from [1, C, L] to the matrix of shifted copies [1, L, taps * C], and its name."""
    rows = f"{prefix}/rows"
    nodes = [helper.make_node("Transpose", [data], [rows], perm=[0, 2, 1])]
    if any(pads):
        before, after = pads
        amounts = index.constant(
            f"/unroll/pads_{before}_{after}", np.array([0, before, 0, 0, after, 0], np.int64)
        )
        padded = f"{prefix}/padded"
        # The zero point is what silence is quantised to: it pads like zeros would.
        nodes.append(helper.make_node("Pad", [rows, amounts, data_zero], [padded]))
        rows = padded
    if taps == 1:
        return nodes, rows
    axis = index.constant("/unroll/axis", np.array([1], np.int64))
    shifted: list[str] = []
    for tap in range(taps):
        start = tap * dilation
        end = start - dilation * (taps - 1) or _END
        bounds = [
            index.constant(f"/unroll/at_{at}", np.array([at], np.int64)) for at in (start, end)
        ]
        shifted.append(f"{prefix}/tap_{tap}")
        nodes.append(helper.make_node("Slice", [rows, *bounds, axis], [shifted[-1]]))
    nodes.append(helper.make_node("Concat", shifted, [f"{prefix}/shifted"], axis=2))
    return nodes, f"{prefix}/shifted"


def _scaling(index: _Graph, node: onnx.NodeProto) -> _Scaling | None:
    """Finds [Add of a quantised bias ->] Cast -> Mul by (data scale * weight scale)."""
    total = node.output[0]
    replaced: list[str] = []
    bias = ""
    add = index.user(total, "Add")
    if add is not None:
        bias = _bias(index, next(name for name in add.input if name != total))
        if not bias:
            return None
        total = add.output[0]
        replaced.append(total)
    cast = index.user(total, "Cast")
    scale = index.user(cast.output[0], "Mul") if cast is not None else None
    if cast is None or scale is None:
        return None
    factor = next(name for name in scale.input if name != cast.output[0])
    scales = index.maker.get(factor)
    if scales is None or scales.op_type != "Mul" or scales.input[1] not in index.weights:
        return None
    return _Scaling(
        output=scale.output[0],
        data_scale=scales.input[0],
        weight_scale=scales.input[1],
        bias=bias,
        replaced=(*replaced, cast.output[0], scale.output[0]),
    )


def _bias(index: _Graph, name: str) -> str:
    """The float bias that Div -> Floor -> Cast -> Reshape quantised; empty if it is not that."""
    for op_type in ("Reshape", "Cast", "Floor", "Div"):
        maker = index.maker.get(name)
        if maker is None or maker.op_type != op_type:
            return ""
        name = maker.input[0]
    return name if name in index.weights else ""
