"""The section `asr`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, TypeAdapter, ValidationError, field_validator
from pydantic.networks import WebsocketUrl

from pipeline.config_section import Language, Section

_SOCKET_URL = TypeAdapter(WebsocketUrl)


class FunAsr(Section):
    """FunASR's models, in a process of their own: see docs/recognition.md."""

    mode: Literal["auto", "streaming+offline", "offline", "streaming"] = Field(
        default="auto",
        description="What makes partials and what makes finals: a streaming model and an offline "
        "one, or one of the two alone; auto is streaming+offline on a GPU, else offline.",
    )
    streaming_model: str = Field(
        default="paraformer-zh-streaming",
        min_length=1,
        description="Name in configs/models.yaml, or a folder: what has a / in it, relative to the "
        "configuration file.",
    )
    offline_model: str = Field(
        default="sensevoice-small",
        min_length=1,
        description="The same: sensevoice-small, or paraformer-zh, which uses hotwords; "
        "Fun-ASR-Nano by its folder.",
    )
    punctuation_model: str | None = Field(
        default=None,
        min_length=1,
        description="The same, for finals of a model that writes no punctuation; null is ct-punc "
        "for those that are called paraformer-zh, none is none.",
    )
    device: str = Field(
        default="auto", min_length=1, description="auto, cpu, cuda, cuda:1; auto is a GPU, if any."
    )
    dtype: Literal["auto", "fp32", "fp16", "bf16"] = Field(
        default="auto", description="Precision; auto is fp32: the models are small."
    )
    streaming_device: str | None = Field(
        default=None, min_length=1, description="Of the streaming model; null is `device`."
    )
    streaming_dtype: Literal["fp32", "fp16", "bf16"] | None = Field(
        default=None, description="Of the streaming model; null is `dtype`."
    )
    offline_device: str | None = Field(
        default=None, min_length=1, description="Of the offline model; null is `device`."
    )
    offline_dtype: Literal["fp32", "fp16", "bf16"] | None = Field(
        default=None, description="Of the offline model; null is `dtype`."
    )
    chunk_ms: int = Field(
        default=600,
        ge=120,
        le=2_400,
        multiple_of=60,
        description="Audio that the streaming model takes at a time, from which partials come.",
    )
    look_back: int = Field(
        default=4, ge=0, le=50, description="Chunks before its own that a chunk is heard with."
    )
    hotwords: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Names and terms that are likely, for models that use them.",
    )
    segment_s: float = Field(
        default=15.0,
        ge=2,
        le=30,
        description="Audio that the offline model gets in one piece; a longer turn is cut at its "
        "quietest places, and what is behind the last one is recognised anew.",
    )
    min_log_prob: float | None = Field(
        default=None,
        le=0,
        description="A piece's text of a lower mean log probability is noise; null keeps all.",
    )
    streaming_batch: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="Turns that share a step of the streaming model; null is 32 on a GPU, 8 on "
        "the CPU.",
    )
    offline_batch: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="Turns that share a step of the offline model; null is 16 on a GPU, 1 on the "
        "CPU.",
    )
    queue_limit: int = Field(
        default=64, ge=1, le=10_000, description="Finals that wait or are being made, at most."
    )
    start_timeout_s: float = Field(
        default=600.0, ge=1, le=3_600, description="Limit for loading and warming."
    )


class AsrRemote(Section):
    """FunASR's WebSocket runtime on another machine: see docs/recognition.md."""

    url: str = Field(
        default="ws://127.0.0.1:10095",
        description="Its address, ws:// or wss://, as it starts with its own settings.",
    )
    mode: Literal["2pass", "online", "offline"] = Field(
        default="2pass",
        description="2pass: partials while the user speaks, and better finals; online: the first "
        "pass alone, offline: the second alone.",
    )
    itn: bool = Field(default=True, description="Numbers and dates are written as digits.")
    hotwords: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Names and terms that are likely; after a space may follow how likely, 1 to "
        "100, otherwise 20.",
    )
    verify: bool = Field(
        default=True,
        description="The certificate of a wss:// server must be trusted; the runtime comes with "
        "one that is not.",
    )
    api_key: SecretStr | None = Field(
        default=None, description="Sent as a bearer token, for a gateway before it; never shown."
    )
    queue_limit: int = Field(
        default=64, ge=1, le=10_000, description="Finals that may wait for it, at most."
    )

    @field_validator("url")
    @classmethod
    def _websocket(cls, value: str) -> str:
        try:
            found = _SOCKET_URL.validate_python(value)
        except ValidationError:
            raise ValueError("must be a ws:// or wss:// address") from None
        if found.username or found.password:
            raise ValueError("must hold no user name or password; asr.remote.api_key is sent")
        return value


class Asr(Section):
    """Speech recognition."""

    provider: Literal["whisper", "funasr", "funasr-remote", "scripted"] = Field(
        default="whisper",
        description="whisper: embedded, on the CPU; funasr: FunASR's models, on a GPU or the CPU; "
        "funasr-remote: FunASR's runtime, elsewhere; scripted: see `scripted`.",
    )
    model: str = Field(
        default="whisper-base", min_length=1, description="Name in configs/models.yaml."
    )
    languages: tuple[Language, ...] = Field(
        default=("zh", "en"),
        strict=False,
        min_length=1,
        description="Languages that may be recognised.",
    )
    beam: int = Field(default=5, ge=1, le=20, description="Beam size of final texts.")
    window_s: float = Field(
        default=12.0,
        ge=8,
        le=30,
        description="Audio that is decoded in one piece; longer turns get a longer one. More costs "
        "more, less than 8 s loops.",
    )
    partials: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="Texts while the user speaks; auto: whisper makes them when it is idle, on "
        "four cores or more; funasr where a GPU is.",
    )
    timeout_s: float = Field(default=20.0, ge=0.5, le=300, description="Limit of one recognition.")
    funasr: FunAsr = FunAsr()
    remote: AsrRemote = AsrRemote()
