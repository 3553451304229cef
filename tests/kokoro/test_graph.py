"""The edited graph says what the published one says, in fewer frames and half the time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from tts_engine.errors import EngineFailed, ModelCorrupt, ModelMissing
from tts_engine.kokoro import graph
from tts_engine.kokoro.g2p import MixedG2P
from tts_engine.kokoro.model import (
    MODEL_FILE,
    KokoroModel,
    load_vocabulary,
    spread_weights,
    window,
)
from tts_engine.kokoro.voices import BUNDLED, load_voice


def test_a_missing_model_is_told_with_its_mend(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="models fetch"):
        graph.load_graphs(tmp_path / "none.onnx", signed=True)


def test_a_broken_model_is_told(tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"this is no protobuf")
    with pytest.raises(ModelCorrupt, match="models verify"):
        graph.load_graphs(path, signed=True)


def test_another_model_is_told(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    node = helper.make_node("Identity", ["x"], ["y"])
    other = helper.make_graph([node], "other", [value], [])
    onnx.save(helper.make_model(other), tmp_path / "other.onnx")
    with pytest.raises(ModelCorrupt):
        graph.load_graphs(tmp_path / "other.onnx", signed=False)


@pytest.mark.parametrize("content", ["no json", "[]", '{"vocab": {"a": null}}', '{"vocab": 3}'])
def test_a_broken_vocabulary_is_told(tmp_path: Path, content: str) -> None:
    path = tmp_path / "vocab.json"
    with pytest.raises(ModelMissing):
        load_vocabulary(path)
    path.write_text(content)
    with pytest.raises(ModelCorrupt, match="vocabulary"):
        load_vocabulary(path)


def test_a_graph_that_onnxruntime_refuses_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vocab.json").write_text('{"vocab": {"a": 1}}')
    monkeypatch.setattr(graph, "load_graphs", lambda *_, **__: graph.Graphs(b"x", b"y"))
    with pytest.raises(EngineFailed, match="onnxruntime"):
        KokoroModel(model_dir=tmp_path, threads=1)


def test_the_window_keeps_words_and_accounts_for_silence() -> None:
    energy = np.array([-9.0] * 18 + [6.0] * 20 + [-9.0] * 40, np.float32)
    first, last, weights = window(energy)
    assert (first, last) == (15, 41)
    assert weights.sum() == len(energy)
    assert weights[1] == 1 + 15
    assert weights[-2] == 1 + 37


@pytest.mark.parametrize("energy", [[6.0], [6.0, 6.0], [-9.0] * 5, [-9.0, 6.0]])
def test_windows_of_little(energy: list[float]) -> None:
    first, last, weights = window(np.array(energy, np.float32))
    assert (first, last) == (0, len(energy))
    assert weights.sum() == len(energy)


def test_weights_sum_to_one_at_every_resolution() -> None:
    spread = spread_weights(np.array([1, 5, 1, 3], np.float32))
    assert {name: len(value) for name, value in spread.items()} == {
        "weights_1": 4,
        "weights_2": 8,
        "weights_20": 80,
        "weights_120": 481,
    }
    assert all(value.sum() == pytest.approx(1, abs=1e-5) for value in spread.values())


def spectrum(samples: np.ndarray) -> np.ndarray:
    blocks = samples[: len(samples) // 512 * 512].reshape(-1, 512) * np.hanning(512)
    return 20 * np.log10(np.abs(np.fft.rfft(blocks)) + 0.1)


@pytest.mark.models
def test_same_speech_as_the_published_graph(
    model: KokoroModel, model_dir: Path, g2p: MixedG2P
) -> None:
    symbols = g2p("今天天气非常不错，").symbols
    voice = load_voice(BUNDLED / "zf_xiaobei.npy")
    tokens = [0, *(model.vocabulary[symbol] for symbol in symbols), 0]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    published = onnxruntime.InferenceSession(
        model_dir / MODEL_FILE, options, providers=["CPUExecutionProvider"]
    )
    (whole,) = published.run(
        None,
        {
            "tokens": np.array([tokens], np.int64),
            "style": voice[len(symbols) - 1][None],
            "speed": np.ones(1, np.float32),
        },
    )
    whole = np.asarray(whole).ravel()
    speech = model.speak(symbols, voice)
    # A third of the frames were silence, and were not made.
    assert len(speech.samples) < 0.7 * len(whole)
    loud = np.flatnonzero(np.abs(whole) > 0.01)
    start = int(loud[0]) - int(np.flatnonzero(np.abs(speech.samples) > 0.01)[0])
    start = round(start / graph.FRAME) * graph.FRAME
    same = whole[start : start + len(speech.samples)]
    assert speech.samples.std() == pytest.approx(same.std(), rel=0.1)
    assert np.abs(spectrum(speech.samples) - spectrum(same)).mean() < 2.5


@pytest.mark.models
def test_without_signed_products_the_graph_keeps_its_convolutions(model_dir: Path) -> None:
    graphs = graph.load_graphs(model_dir / MODEL_FILE, signed=False)
    vocoder = onnx.load_from_string(graphs.vocoder)
    assert any(node.op_type == "ConvInteger" for node in vocoder.graph.node)
    assert {value.name for value in vocoder.graph.input} == {
        graph.FEATURES,
        graph.PITCH,
        graph.ENERGY,
        "style",
        *(graph.weights_name(resolution) for resolution in graph.RESOLUTIONS),
    }


@pytest.mark.models
def test_durations_follow_the_phonemes(model: KokoroModel, g2p: MixedG2P) -> None:
    symbols = g2p("你好，很高兴认识你。").symbols
    speech = model.speak(symbols, load_voice(BUNDLED / "zf_xiaobei.npy"))
    assert len(speech.stops) == len(symbols)
    assert (np.diff(speech.stops) >= graph.FRAME).all()
    faster = model.speak(symbols, load_voice(BUNDLED / "zf_xiaobei.npy"), speed=1.5)
    assert len(faster.samples) < 0.85 * len(speech.samples)


@pytest.mark.models
def test_a_run_can_be_stopped(model: KokoroModel, g2p: MixedG2P) -> None:
    options = onnxruntime.RunOptions()
    options.terminate = True
    with pytest.raises(Exception, match=r"(?i)terminate"):
        model.speak(g2p("你好").symbols, load_voice(BUNDLED / "zf_xiaobei.npy"), options=options)


@pytest.mark.models
def test_the_vocabulary_is_that_of_the_pure_tests(model: KokoroModel) -> None:
    from tests.kokoro.conftest import SYMBOLS

    assert set(SYMBOLS) == set(model.vocabulary)
    assert len(model.vocabulary) == 114
