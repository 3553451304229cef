"""Which models of configs/models.yaml a configuration needs."""

from __future__ import annotations

from pipeline.budget import available_cores
from pipeline.config_schema import Config
from services.llm.local import choose_model

#: the CosyVoice model that is taken where the configuration names no folder
COSYVOICE = "cosyvoice2-0.5b"
#: resident memory of an engine with its model, bytes
MEMORY: dict[str, int] = {
    "whisper-base": 350 << 20,
    "kokoro": 450 << 20,
    COSYVOICE: 3400 << 20,
    "qwen2.5-coder-0.5b": 650 << 20,
    "qwen2.5-coder-1.5b": 1900 << 20,
}


def local_model(config: Config, cores: int | None = None) -> str:
    """The name of the local LLM's model.

    Args:
        config: what is to run.
        cores: what "auto" is decided by; None: this machine's.
    """
    return choose_model(config.llm.local.model, available_cores() if cores is None else cores)


def needed_models(config: Config, cores: int | None = None) -> tuple[str, ...]:
    """Names of the models to be there before the engines start.

    Args:
        config: what is to run.
        cores: as for `local_model`.
    """
    names: list[str] = []
    if config.asr.provider == "whisper":
        names.append(config.asr.model)
    names += needed_voice(config)
    if config.llm.engine == "local":
        names.append(local_model(config, cores))
    return tuple(names)


def needed_voice(config: Config) -> tuple[str, ...]:
    """Names of the models that the voice needs."""
    tts = config.tts
    if tts.provider == "kokoro":
        return ("kokoro",)
    if tts.provider == "cosyvoice" and tts.cosyvoice.model_dir is None:
        return (COSYVOICE,)
    return ()
