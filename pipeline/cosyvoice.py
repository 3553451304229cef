"""What the configuration says about CosyVoice, as its engine wants it. Needs no torch."""

from __future__ import annotations

from pathlib import Path

import platformdirs

from pipeline.config_schema import Config
from pipeline.needs import COSYVOICE
from services.models.store import ModelStore
from tts_engine.cosyvoice.wire import Settings


def voices_dir(config: Config) -> Path:
    """Where registered voices are kept."""
    return config.tts.cosyvoice.voices_dir or platformdirs.user_data_path("duplexd") / "voices"


def engines_dir(config: Config) -> Path:
    """Where TensorRT's engines are kept."""
    return config.tts.cosyvoice.engines_dir or platformdirs.user_cache_path("duplexd") / "tensorrt"


def model_dir(config: Config, store: ModelStore) -> Path:
    """Where the model lies.

    Raises:
        ModelMissing: the store has none.
    """
    return config.tts.cosyvoice.model_dir or store.path(COSYVOICE)


def worker_settings(config: Config, store: ModelStore, *, threads: int) -> Settings:
    """How the worker is to run.

    Args:
        config: says it.
        store: where the model may lie.
        threads: of computation on the CPU.

    Raises:
        ModelMissing: the store has no model.
    """
    chosen = config.tts.cosyvoice
    return Settings(
        model_dir=str(model_dir(config, store)),
        voices_dir=str(voices_dir(config)),
        home=str(chosen.home or ""),
        device=chosen.device,
        dtype=chosen.dtype,
        threads=threads,
        steps=chosen.steps,
        cache=chosen.cache,
        requests=chosen.max_requests,
        flow_rows=chosen.batch or 0,
        live_s=chosen.live_s or 0.0,
        longest_s=chosen.longest_s,
        voices=chosen.ready_voices,
        tensorrt=chosen.tensorrt,
        engines_dir=str(engines_dir(config)),
        quantize=chosen.quantize,
        compile=chosen.compile,
        cuda_graphs=chosen.cuda_graphs,
    )
