"""What the configuration says about FunASR reaches its engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import generate_latest

from pipeline import needs
from pipeline.budget import ThreadBudget
from pipeline.config import load_config
from pipeline.needs import funasr_models, has_gpu, needed_models
from pipeline.recognition import build_asr, worker_settings
from pipeline.service_metrics import ServiceMetrics
from services.asr.funasr.engine import FunAsrEngine
from services.asr.funasr.stats import RecognitionStats
from services.models import Manifest, ModelStore
from services.scripted.erring import ErringAsr
from tts_engine.errors import ConfigError

FUNASR = ["asr.provider=funasr", "tts.provider=scripted", "llm.provider=scripted"]
BUDGET = ThreadBudget(cores=8, asr=2, tts=4, llm=4)


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(root=tmp_path, manifest=Manifest(models={}))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> bool:
    monkeypatch.setattr(needs, "has_gpu", lambda: request.param)
    return request.param


@pytest.mark.parametrize(
    ("gpu", "sets", "mode", "names"),
    [
        (False, [], "offline", ("sensevoice-small",)),
        (True, [], "streaming+offline", ("paraformer-zh-streaming", "sensevoice-small")),
        (True, ["device=cpu"], "offline", ("sensevoice-small",)),
        (
            False,
            ["mode=streaming"],
            "streaming",
            ("paraformer-zh-streaming", "ct-punc"),
        ),
        (
            False,
            ["mode=streaming", "punctuation_model=none"],
            "streaming",
            ("paraformer-zh-streaming",),
        ),
        (False, ["offline_model=paraformer-zh"], "offline", ("paraformer-zh", "ct-punc")),
        (
            False,
            ["mode=streaming+offline", "streaming_model=/m/s", "punctuation_model=/m/p"],
            "streaming+offline",
            ("sensevoice-small",),
        ),
    ],
    indirect=["gpu"],
)
def test_what_is_needed(gpu: bool, sets: list[str], mode: str, names: tuple[str, ...]) -> None:
    config = load_config(None, [*FUNASR, *(f"asr.funasr.{each}" for each in sets)], environ={})
    assert funasr_models(config).mode == mode
    assert needed_models(config) == names


@pytest.mark.parametrize("gpu", [True, False], indirect=True)
def test_partials_choose_the_mode_that_is_left_open(gpu: bool) -> None:
    for partials, mode in (("on", "streaming+offline"), ("off", "offline")):
        config = load_config(None, [*FUNASR, f"asr.partials={partials}"], environ={})
        assert funasr_models(config).mode == mode


def test_a_gpu_is_looked_for() -> None:
    assert has_gpu() in (True, False)


def test_folders_are_relative_to_the_file(tmp_path: Path, store: ModelStore) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(
        "asr: {funasr: {mode: streaming+offline, streaming_model: m/s, offline_model: ./o,"
        " punctuation_model: ~/p}}"
    )
    config = load_config(file, [*FUNASR], environ={})
    settings = worker_settings(config, store, threads=3)
    assert settings.streaming_dir == str(tmp_path / "m/s")
    assert Path(settings.offline_dir) == tmp_path / "o"
    assert settings.punctuation_dir == str(Path.home() / "p")
    assert settings.threads == 3


def test_what_is_set_is_passed_on(store: ModelStore) -> None:
    sets = {
        "mode": "streaming+offline",
        "streaming_model": "/s",
        "offline_model": "/o",
        "device": "cuda:1",
        "dtype": "bf16",
        "offline_device": "cpu",
        "offline_dtype": "fp32",
        "chunk_ms": 480,
        "look_back": 2,
        "segment_s": 20.0,
        "min_log_prob": -2.0,
        "streaming_batch": 3,
        "offline_batch": 5,
    }
    config = load_config(
        None, [*FUNASR, *(f"asr.funasr.{key}={value}" for key, value in sets.items())], environ={}
    )
    settings = worker_settings(config, store, threads=1)
    assert settings.mode == "streaming+offline"
    assert (settings.streaming_device, settings.offline_device) == ("cuda:1", "cpu")
    assert (settings.streaming_dtype, settings.offline_dtype) == ("bf16", "fp32")
    assert (settings.chunk_ms, settings.look_back) == (480, 2)
    assert (settings.segment_s, settings.min_log_prob) == (20.0, -2.0)
    assert (settings.chunks, settings.pieces) == (3, 5)
    assert settings.punctuation_dir == ""


def test_the_engine(store: ModelStore) -> None:
    sets = [
        *FUNASR,
        "asr.funasr.mode=streaming",
        "asr.funasr.streaming_model=/s",
        "asr.funasr.hotwords=[Anna]",
        "asr.languages=[zh]",
        "asr.timeout_s=7.0",
    ]
    engine = build_asr(load_config(None, sets, environ={}), store, budget=BUDGET)
    assert isinstance(engine, FunAsrEngine)
    assert (engine.languages, engine.hotwords) == (("zh",), ("Anna",))
    assert (engine.timeout_s, engine.partials) == (7.0, True)
    off = build_asr(
        load_config(None, [*sets, "asr.partials=off"], environ={}), store, budget=BUDGET
    )
    assert isinstance(off, FunAsrEngine)
    assert not off.partials
    erring = [*sets, "scripted.asr_errors=0.1"]
    wrapped = build_asr(load_config(None, erring, environ={}), store, budget=BUDGET)
    assert isinstance(wrapped, ErringAsr)


def test_a_model_that_nobody_knows(store: ModelStore) -> None:
    with pytest.raises(ConfigError, match="sensevoice-small"):
        build_asr(
            load_config(None, [*FUNASR, "asr.funasr.mode=offline"], environ={}),
            store,
            budget=BUDGET,
        )


def test_a_chunk_is_made_of_frames() -> None:
    with pytest.raises(ConfigError, match="multiple of 60"):
        load_config(None, ["asr.funasr.chunk_ms=500"], environ={})


def test_how_partials_fare_is_shown() -> None:
    metrics, stats = ServiceMetrics(), RecognitionStats(stride_s=0.6)
    stats.on_partial_wait(0.1)  # nobody watches yet
    metrics.watch("asr", stats)
    stats.due, stats.stride_s = 3, 1.2
    stats.on_partial_wait(0.25)
    page = generate_latest(metrics.registry).decode()
    assert "duplexd_asr_streams_due 3.0" in page
    assert "duplexd_asr_partial_stride_seconds 1.2" in page
    assert "duplexd_asr_partial_wait_seconds_sum 0.25" in page
