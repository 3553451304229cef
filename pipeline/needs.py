"""Which models of configs/models.yaml a configuration needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.budget import available_cores
from pipeline.config_schema import Config
from services.asr.funasr.wire import Mode
from services.llm.local import choose_model

#: the CosyVoice model that is taken where the configuration names no folder
COSYVOICE = "cosyvoice2-0.5b"
#: FunASR's models that write no punctuation, and the one that does it for them
_UNPUNCTUATED = ("paraformer-zh", "paraformer-zh-streaming")
_PUNCTUATION = "ct-punc"
#: resident memory of an engine with its model, bytes
MEMORY: dict[str, int] = {
    "whisper-base": 350 << 20,
    "kokoro": 450 << 20,
    "paraformer-zh-streaming": 1400 << 20,
    "paraformer-zh": 1400 << 20,
    "sensevoice-small": 1500 << 20,
    "ct-punc": 400 << 20,
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
    brain = (local_model(config, cores),) if config.llm.engine == "local" else ()
    return (*needed_asr(config), *needed_voice(config), *brain)


def needed_asr(config: Config) -> tuple[str, ...]:
    """Names of the models that the recogniser needs."""
    if config.asr.provider == "funasr":
        return funasr_models(config).names()
    return (config.asr.model,) if config.asr.provider == "whisper" else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FunAsrModels:
    """What FunASR is to do, and with which models; those that it does without are empty.

    Parameters:
        mode: what makes partials and what makes finals.
        streaming, offline, punctuation: names, or folders.
    """

    mode: Mode
    streaming: str = ""
    offline: str = ""
    punctuation: str = ""

    def names(self) -> tuple[str, ...]:
        """Those that are called by their names."""
        models = (self.streaming, self.offline, self.punctuation)
        return tuple(model for model in models if model and not is_folder(model))


def funasr_models(config: Config) -> FunAsrModels:
    """What the configuration asks of FunASR, with what is left to us decided."""
    chosen = config.asr.funasr
    mode = chosen.mode
    if mode == "auto":
        streams = config.asr.partials == "on" or (
            config.asr.partials == "auto" and chosen.device != "cpu" and has_gpu()
        )
        mode = "streaming+offline" if streams else "offline"
    finals = chosen.streaming_model if mode == "streaming" else chosen.offline_model
    punctuation = chosen.punctuation_model
    if punctuation is None:
        punctuation = _PUNCTUATION if finals in _UNPUNCTUATED else "none"
    return FunAsrModels(
        mode=mode,
        streaming="" if mode == "offline" else chosen.streaming_model,
        offline="" if mode == "streaming" else chosen.offline_model,
        punctuation="" if punctuation == "none" else punctuation,
    )


def is_folder(model: str) -> bool:
    """A model is called by its folder, not by its name in configs/models.yaml."""
    return "/" in model


def has_gpu() -> bool:
    """The machine shows an NVIDIA GPU; whether torch can use it is seen when it is loaded."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()


def needed_voice(config: Config) -> tuple[str, ...]:
    """Names of the models that the voice needs."""
    tts = config.tts
    if tts.provider == "kokoro":
        return ("kokoro",)
    if tts.provider == "cosyvoice" and tts.cosyvoice.model_dir is None:
        return (COSYVOICE,)
    return ()
