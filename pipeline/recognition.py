"""Builds the recogniser from the configuration."""

from __future__ import annotations

from pipeline.budget import ThreadBudget
from pipeline.config_schema import Config
from pipeline.needs import funasr_models, is_folder
from services.asr.base import AsrEngine
from services.asr.funasr.wire import Settings
from services.models.store import ModelStore
from services.scripted.spec import AsrSpec

#: cores from which partials are worth their decoding
_CORES_FOR_PARTIALS = 4
_PARTIAL_EVERY_S = 0.6


def build_asr(config: Config, store: ModelStore, *, budget: ThreadBudget) -> AsrEngine:
    """The engine that the configuration names, not started.

    Args:
        config: names it.
        store: where its models lie.
        budget: threads for its computations, and the cores that they were computed from.

    Raises:
        ModelError, ConfigError: a model cannot be used.
    """
    engine = _build(config, store, budget)
    errors = config.scripted.asr_errors
    if not errors:
        return engine
    from services.scripted.erring import ErringAsr

    return ErringAsr(engine, rate=errors)


def _build(config: Config, store: ModelStore, budget: ThreadBudget) -> AsrEngine:
    asr = config.asr
    if asr.provider == "scripted":
        from services.scripted.asr import ScriptedAsr

        spec = config.scripted.delays.asr or AsrSpec()
        return ScriptedAsr(
            delay_s=spec.final_s,
            texts=config.scripted.texts,
            marked=config.scripted.marked,
        )
    if asr.provider == "funasr":
        from services.asr.funasr.engine import FunAsrEngine

        return FunAsrEngine(
            settings=worker_settings(config, store, threads=budget.asr),
            languages=asr.languages,
            hotwords=asr.funasr.hotwords,
            partials=asr.partials != "off",
            queue_limit=asr.funasr.queue_limit,
            timeout_s=asr.timeout_s,
            start_timeout_s=asr.funasr.start_timeout_s,
        )
    if asr.provider == "funasr-remote":
        return _remote(config)
    from services.asr.whisper import WhisperEngine

    partials = asr.partials == "on" or (
        asr.partials == "auto" and budget.cores >= _CORES_FOR_PARTIALS
    )
    return WhisperEngine(
        model_dir=store.path(asr.model),
        threads=budget.asr,
        languages=asr.languages,
        beam=asr.beam,
        window_s=asr.window_s,
        partial_every_s=_PARTIAL_EVERY_S if partials else None,
        timeout_s=asr.timeout_s,
    )


def _remote(config: Config) -> AsrEngine:
    from services.asr.funasr_remote.engine import RemoteFunAsrEngine

    remote = config.asr.remote
    return RemoteFunAsrEngine(
        url=remote.url,
        mode=remote.mode,
        languages=config.asr.languages,
        itn=remote.itn,
        hotwords=remote.hotwords,
        api_key=remote.api_key.get_secret_value() if remote.api_key else "",
        verify=remote.verify,
        queue_limit=remote.queue_limit,
        timeout_s=config.asr.timeout_s,
    )


def worker_settings(config: Config, store: ModelStore, *, threads: int) -> Settings:
    """How FunASR's worker is to run.

    Args:
        config: says it.
        store: where the models may lie.
        threads: of computation on the CPU.

    Raises:
        ModelError, ConfigError: a model is not there, or the store knows none of its name.
    """
    chosen, models = config.asr.funasr, funasr_models(config)
    return Settings(
        mode=models.mode,
        streaming_dir=_folder(models.streaming, store),
        offline_dir=_folder(models.offline, store),
        punctuation_dir=_folder(models.punctuation, store),
        streaming_device=chosen.streaming_device or chosen.device,
        offline_device=chosen.offline_device or chosen.device,
        streaming_dtype=chosen.streaming_dtype or chosen.dtype,
        offline_dtype=chosen.offline_dtype or chosen.dtype,
        threads=threads,
        chunk_ms=chosen.chunk_ms,
        look_back=chosen.look_back,
        chunks=chosen.streaming_batch or 0,
        pieces=chosen.offline_batch or 0,
        segment_s=chosen.segment_s,
        min_log_prob=chosen.min_log_prob,
    )


def _folder(model: str, store: ModelStore) -> str:
    """Where a model lies; it is called by its name or by its folder. Empty for none."""
    return model if not model or is_folder(model) else str(store.path(model))
