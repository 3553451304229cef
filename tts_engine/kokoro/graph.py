"""Edits of the Kokoro graph, made in memory when the model is loaded.

The published graph is one piece: tokens in, audio out. Three edits make it fit for conversation:

- it is split where the prosody is known: the *planner* turns tokens into frames (durations, pitch,
  energy, text features), the *vocoder* turns frames into audio. Between the two the silence before
  and after the words is cut, so that it is never computed (it is 1.4 s in every clause);
- the planner's inner durations become an output, which aligns audio with characters;
- the integer convolutions become integer matrix products (see `unroll.py`).

The vocoder normalises every channel over time (AdaIN), so the silence that is cut would be missing
in its means: the voice would come out at half the loudness and another timbre. Hence the means are
weighted: the frames of silence that stay stand for those that are cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import helper
from onnx.utils import Extractor

from tts_engine.errors import ModelCorrupt, ModelMissing
from tts_engine.kokoro.unroll import unroll_convolutions

#: frames per token, float [1, tokens]
DURATIONS = "/encoder/Clip_output_0"
#: text features per frame, float [1, 512, frames]
FEATURES = "/encoder/MatMul_1_output_0"
#: pitch, Hz, float [1, 2 * frames]
PITCH = "/encoder/Reshape_output_0"
#: energy, float [1, 2 * frames]
ENERGY = "/encoder/Reshape_1_output_0"

#: samples of audio per frame
FRAME = 600
#: resolutions at which the vocoder normalises: positions per frame
RESOLUTIONS = (1, 2, 20, 120)


@dataclass(frozen=True, slots=True)
class Graphs:
    """The two halves of the model, serialised.

    Parameters:
        planner: tokens int64 [1, n], style float [1, 256], speed float [1] -> DURATIONS, FEATURES,
            PITCH, ENERGY.
        vocoder: FEATURES, PITCH, ENERGY, style, and `weights_name(k)` float [k * frames, 1] (one
            more at 120) for each of RESOLUTIONS, each summing to 1 -> audio float [FRAME * frames].
    """

    planner: bytes
    vocoder: bytes


def load_graphs(path: Path, *, signed: bool) -> Graphs:
    """Reads and edits the model.

    Args:
        path: the published .onnx file.
        signed: products of unsigned activations and signed weights are exact on this processor
            (see `unroll.signed_products_exact`); without it the convolutions stay as they are.

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
        weigh_means(vocoder)
    except Exception as error:  # protobuf and onnx raise classes of many kinds
        raise ModelCorrupt(
            f"the voice model {path} cannot be read ({type(error).__name__}: {error})",
            mend="Run `run.py models verify kokoro`, then fetch it again",
        ) from error
    if signed:
        unroll_convolutions(planner)
        unroll_convolutions(vocoder)
    return Graphs(planner.SerializeToString(), vocoder.SerializeToString())


def weights_name(resolution: int) -> str:
    """Name of the vocoder's input that weighs the positions at one of RESOLUTIONS."""
    return f"weights_{resolution}"


def weigh_means(vocoder: onnx.ModelProto) -> None:
    """Replaces the means over time by weighted ones, in place, and adds the weights as inputs."""
    for node in vocoder.graph.node:
        if node.op_type == "ReduceMean":
            data = node.input[0]
            weights = weights_name(_resolution(node.name))
            node.op_type = "MatMul"
            del node.input[:]
            del node.attribute[:]
            node.input.extend([data, weights])
    for resolution in RESOLUTIONS:
        vocoder.graph.input.append(
            helper.make_tensor_value_info(
                weights_name(resolution), onnx.TensorProto.FLOAT, [f"positions_{resolution}", 1]
            )
        )


def _resolution(name: str) -> int:
    """Positions per frame where a node of the vocoder works."""
    if "/generator/" in name:
        coarse = ("noise_res.0", "resblocks.0", "resblocks.1", "resblocks.2")
        return 20 if any(f"/{block}/" in name for block in coarse) else 120
    return 2 if "/decode.3/norm2/" in name else 1
