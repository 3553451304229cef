"""The Kokoro model in onnxruntime: phonemes in, audio with durations out. Blocking.

A clause's cost is its frames: the planner takes about 5 % of it, the vocoder the rest. So the
frames of silence around the words are cut between the two; how, `graph.py` tells.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from tts_engine.errors import EngineFailed, ModelCorrupt, ModelMissing
from tts_engine.kokoro import graph
from tts_engine.kokoro.unroll import signed_products_exact

MODEL_FILE = "kokoro-v1.0.int8.onnx"
VOCABULARY_FILE = "vocab.json"
#: the longest input, without the two pads
MAX_PHONEMES = 510
#: Frames (25 ms) of silence that are kept on both sides: what the words' edges sound through.
MARGIN = 3
#: Energy (log) above which a frame belongs to the words; silence lies near -9, speech above 0.
_ENERGY = -4.0

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Speech:
    """What the model made of a piece.

    Parameters:
        samples: mono float32 at 24 kHz.
        stops: for each phoneme, the sample at which it is over; those in the silence that was cut
            lie outside of the samples.
    """

    samples: Floats
    stops: NDArray[np.float64]


def load_vocabulary(path: Path) -> dict[str, int]:
    """Token ids by phoneme.

    Raises:
        ModelMissing, ModelCorrupt
    """
    if not path.is_file():
        raise ModelMissing(
            f"The voice's vocabulary {path} is not there",
            mend="Run `run.py models fetch kokoro`",
        )
    try:
        vocabulary = json.loads(path.read_text(encoding="utf-8"))["vocab"]
        return {str(symbol): int(token) for symbol, token in vocabulary.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelCorrupt(
            f"The voice's vocabulary {path} cannot be read ({error!r})",
            mend="Run `run.py models verify kokoro`",
        ) from error


class KokoroModel:
    """Both halves of the model, loaded. Loading takes about 2 s.

    Parameters:
        model_dir: holds MODEL_FILE and VOCABULARY_FILE.
        threads: of a run.

    Raises:
        ModelMissing, ModelCorrupt, EngineFailed
    """

    def __init__(self, *, model_dir: Path, threads: int) -> None:
        self.vocabulary = load_vocabulary(model_dir / VOCABULARY_FILE)
        graphs = graph.load_graphs(model_dir / MODEL_FILE, signed=signed_products_exact())
        try:
            self._planner = _session(graphs.planner, threads)
            self._vocoder = _session(graphs.vocoder, threads)
        # onnxruntime has an exception class for each of its status codes, without a common base.
        except Exception as error:
            raise EngineFailed(f"onnxruntime does not load the voice model: {error}") from error

    def speak(
        self,
        symbols: str,
        voice: Floats,
        *,
        speed: float = 1.0,
        options: onnxruntime.RunOptions | None = None,
    ) -> Speech:
        """Synthesises up to MAX_PHONEMES phonemes, all of them in the vocabulary.

        Args:
            symbols: phonemes.
            voice: style vectors by length, [510, 256].
            speed: 1.0 is the voice's own pace.
            options: `terminate` set from another thread makes the run raise at its next node.
        """
        style = voice[min(len(symbols), len(voice)) - 1][None]
        tokens = [0, *(self.vocabulary[symbol] for symbol in symbols), 0]
        durations, features, pitch, energy = _run(
            self._planner,
            {
                "tokens": np.array([tokens], np.int64),
                "style": style,
                "speed": np.array([speed], np.float32),
            },
            options,
        )
        first, last, weights = window(energy.reshape(-1, 2).max(axis=1))
        (audio,) = _run(
            self._vocoder,
            {
                graph.FEATURES: features[:, :, first:last],
                graph.PITCH: pitch[:, 2 * first : 2 * last],
                graph.ENERGY: energy[:, 2 * first : 2 * last],
                "style": style,
                **spread_weights(weights),
            },
            options,
        )
        stops = np.cumsum(durations.ravel(), dtype=np.float64)[1:-1]
        return Speech(audio.ravel(), (stops - first) * graph.FRAME)


def window(energy: Floats) -> tuple[int, int, Floats]:
    """The frames to make audible, and how much each counts in the means.

    Args:
        energy: log energy by frame.

    Returns:
        The first frame, the one behind the last, and a weight for each between them: the second
        and the last but one stand for the silence that is cut before and behind.
    """
    frames = len(energy)
    words = np.flatnonzero(energy > _ENERGY)
    if not len(words):
        return 0, frames, np.ones(frames, np.float32)
    first = max(0, int(words[0]) - MARGIN)
    last = min(frames, int(words[-1]) + 1 + MARGIN)
    weights = np.ones(last - first, np.float32)
    weights[min(1, len(weights) - 1)] += first
    weights[max(len(weights) - 2, 0)] += frames - last
    return first, last, weights


def spread_weights(weights: Floats) -> dict[str, Floats]:
    """The vocoder's weights at each of its resolutions, [positions, 1], summing to 1."""
    result: dict[str, Floats] = {}
    for resolution in graph.RESOLUTIONS:
        spread = np.repeat(weights, resolution)
        if resolution == max(graph.RESOLUTIONS):
            spread = np.append(spread, spread[-1])
        result[graph.weights_name(resolution)] = (spread / spread.sum())[:, None]
    return result


def _session(model: bytes, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    # Threads that spin while they wait take the processor from the other engines.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _run(
    session: onnxruntime.InferenceSession,
    inputs: Mapping[str, Any],
    options: onnxruntime.RunOptions | None,
) -> list[Floats]:
    return [np.asarray(output) for output in session.run(None, dict(inputs), options)]
