"""What the configuration says about CosyVoice reaches its engine."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from pipeline.config import load_config
from pipeline.cosyvoice import engines_dir, model_dir, voices_dir, worker_settings
from pipeline.needs import needed_models
from pipeline.voice import build_voice
from services.models import Manifest, ModelStore
from tts_engine.cosyvoice.engine import CosyVoiceEngine
from tts_engine.errors import ConfigError

COSYVOICE = ["tts.provider=cosyvoice", "asr.provider=scripted", "llm.provider=scripted"]


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(root=tmp_path, manifest=Manifest(models={}))


def test_folders_are_relative_to_the_file(tmp_path: Path, store: ModelStore) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("tts: {cosyvoice: {model_dir: m, voices_dir: v, home: ../code}}")
    config = load_config(file, environ={"COSYVOICE_HOME": "/elsewhere"})
    settings = worker_settings(config, store, threads=3)
    assert settings.model_dir == str(tmp_path / "m")
    assert settings.voices_dir == str(tmp_path / "v")
    assert settings.home == "/elsewhere"  # the environment goes before the file
    assert settings.threads == 3
    assert (settings.flow_rows, settings.live_s, settings.device) == (0, 0.0, "auto")


def test_what_is_set_is_passed_on(store: ModelStore) -> None:
    sets = {
        "model_dir": "/m",
        "device": "cuda:1",
        "dtype": "bf16",
        "steps": 5,
        "cache": "hidden",
        "max_requests": 3,
        "batch": 2,
        "live_s": 50.0,
        "longest_s": 20.0,
        "ready_voices": 9,
        "tensorrt": "block",
        "engines_dir": "/e",
        "quantize": "int4",
        "compile": "true",
        "cuda_graphs": "true",
    }
    config = load_config(
        None, [f"tts.cosyvoice.{key}={value}" for key, value in sets.items()], environ={}
    )
    settings = worker_settings(config, store, threads=1)
    assert (settings.device, settings.dtype) == ("cuda:1", "bf16")
    assert (settings.steps, settings.cache) == (5, "hidden")
    assert (settings.requests, settings.flow_rows, settings.voices) == (3, 2, 9)
    assert (settings.live_s, settings.longest_s, settings.home) == (50.0, 20.0, "")
    assert (settings.tensorrt, settings.engines_dir) == ("block", "/e")
    assert (settings.quantize, settings.compile, settings.cuda_graphs) == ("int4", True, True)


def test_by_default_the_model_is_fetched_and_voices_are_the_user_s(store: ModelStore) -> None:
    config = load_config(None, COSYVOICE, environ={})
    assert needed_models(config) == ("cosyvoice2-0.5b",)
    assert voices_dir(config) == platformdirs.user_data_path("duplexd") / "voices"
    assert engines_dir(config) == platformdirs.user_cache_path("duplexd") / "tensorrt"
    own = load_config(None, [*COSYVOICE, "tts.cosyvoice.model_dir=/m"], environ={})
    assert needed_models(own) == ()
    assert model_dir(own, store) == Path("/m")


async def test_the_engine_is_built(tmp_path: Path, store: ModelStore) -> None:
    folders = [
        f"tts.cosyvoice.voices_dir={tmp_path / 'none'}",
        f"tts.cosyvoice.model_dir={tmp_path}",
    ]
    config = load_config(None, [*COSYVOICE, *folders], environ={})
    engine = build_voice(config, store, threads=1)
    assert isinstance(engine, CosyVoiceEngine)
    assert (engine.voices, engine.sample_rate) == ((), 24_000)
    with pytest.raises(ConfigError, match="voices register"):
        await engine.start()
    await engine.close()
