"""The sections `tts` and `speech`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from pipeline.config_section import Section


class CosyVoice(Section):
    """The voice engine CosyVoice, in a process of its own: see docs/cosyvoice.md."""

    model_dir: Path | None = Field(
        default=None,
        strict=False,
        description="Folder of a CosyVoice 2 or 3 model, relative to the configuration file; null "
        "is cosyvoice2-0.5b among the models.",
    )
    home: Path | None = Field(
        default=None,
        strict=False,
        description="A git checkout of CosyVoice with its submodules, as CosyVoice 3 needs it; "
        "null is the installed package.",
    )
    voices_dir: Path | None = Field(
        default=None,
        strict=False,
        description="Where registered voices are kept; null is a folder in the user's data folder.",
    )
    device: str = Field(
        default="auto", min_length=1, description="auto, cpu, cuda, cuda:1; auto is a GPU, if any."
    )
    dtype: Literal["auto", "fp32", "fp16", "bf16"] = Field(
        default="auto",
        description="Precision; auto is fp16 on a GPU (bf16 for CosyVoice 3), fp32 on the CPU.",
    )
    steps: int = Field(
        default=10, ge=2, le=50, description="Steps from noise to mel: 10 is what it was made for."
    )
    cache: Literal["kv", "hidden"] = Field(
        default="kv",
        description="What is kept of the speech so far: kv is faster, hidden takes a quarter of "
        "the memory.",
    )
    tensorrt: Literal["off", "estimator", "block"] = Field(
        default="off",
        description="What computes most of the flow on a GPU: off: torch; estimator: upstream's "
        "TensorRT export, which computes all again for each block; block: TensorRT of our own "
        "export.",
    )
    engines_dir: Path | None = Field(
        default=None,
        strict=False,
        description="Where engines of TensorRT are kept; null is a folder in the user's cache "
        "folder.",
    )
    context: Literal["none", "clause"] = Field(
        default="clause",
        description="What a clause carries on from: none: the voice alone; clause: the clause "
        "before it in its text as well, where that is short enough.",
    )
    text_stream: bool = Field(
        default=False,
        description="A text that comes in pieces is one utterance, whose speech begins before its "
        "text is whole (WS /ws/tts); otherwise its clauses are utterances.",
    )
    quantize: Literal["none", "int8", "int4"] = Field(
        default="none",
        description="Bits of the language model's weights, by torchao; int4 needs dtype bf16.",
    )
    compile: bool = Field(
        default=False,
        description="torch.compile of decoding, and of the flow where cache is kv and tensorrt is "
        "off: a start takes minutes more.",
    )
    cuda_graphs: bool = Field(default=False, description="CUDA graphs of the same; needs a GPU.")
    max_requests: int = Field(
        default=8, ge=1, le=256, description="Clauses being made at a time; others wait."
    )
    queue_limit: int = Field(
        default=64, ge=1, le=10_000, description="Clauses that wait or are being made, at most."
    )
    batch: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="Clauses that share a step of the flow; null is max_requests on a GPU and 1 "
        "on the CPU.",
    )
    live_s: float | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Speech being made at a time, over all clauses; null is what half of the "
        "device's free memory holds.",
    )
    longest_s: float = Field(
        default=40.0, ge=1, le=120, description="Where a clause that does not end is cut off."
    )
    ready_voices: int = Field(
        default=4, ge=1, le=1_000, description="Voices kept ready on the device."
    )
    start_timeout_s: float = Field(
        default=600.0, ge=1, le=3_600, description="Limit for loading and warming."
    )


class Tts(Section):
    """The voice."""

    provider: Literal["kokoro", "cosyvoice", "scripted"] = Field(
        default="kokoro",
        description="kokoro: embedded, on the CPU; cosyvoice: cloned voices, on a GPU; scripted: "
        "see `scripted`.",
    )
    voice: str | None = Field(
        default=None, min_length=1, description="Voice of the engine; null is its first."
    )
    speed: float = Field(default=1.0, ge=0.5, le=2, description="Pace; 1 is the voice's own.")
    ahead_s: float = Field(
        default=4.0,
        ge=0.5,
        le=60,
        description="Speech made ahead of what is being played, at most.",
    )
    clause_timeout_s: float = Field(
        default=20.0, ge=0.5, le=300, description="Limit for the next piece of speech."
    )
    cosyvoice: CosyVoice = CosyVoice()


class Speech(Section):
    """Texts that are spoken outside conversations: `POST /v1/audio/speech`, and the TTS service."""

    service: bool = Field(
        default=True,
        description="`serve` offers the routes of the TTS service too, `run.py tts` always does.",
    )
    parallel: int = Field(
        default=4, ge=1, le=256, description="Requests at a time; further ones are refused (429)."
    )
    ahead_s: float = Field(
        default=10.0,
        ge=0.5,
        le=600,
        description="Speech made ahead of what the client has taken, at most, and the clause at "
        "hand.",
    )
    stall_s: float = Field(
        default=30.0,
        ge=0.1,
        le=3600,
        description="A client that takes none of its audio for so long is cut.",
    )
    max_chars: int = Field(
        default=4096,
        ge=1,
        le=100_000,
        description="Characters of a text of the TTS service; `/v1/audio/speech` has 4096.",
    )
    idle_s: float = Field(
        default=60.0,
        ge=0.1,
        le=3600,
        description="How long a text that is sent in pieces may wait for its next one.",
    )
    max_upload_mb: float = Field(
        default=20.0,
        ge=0.01,
        le=200,
        description="Size of a recording that a voice is made of; it lasts 1 to 30 s.",
    )
    reference_dir: Path | None = Field(
        default=None,
        strict=False,
        description="A folder whose recordings voices may be registered from, relative to the "
        "configuration file.",
    )
    reference_hosts: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Hosts that recordings may be fetched from, as example.com or "
        "example.com:8443.",
    )
    blocked_words: Path | None = Field(
        default=None,
        strict=False,
        description="A file with a word a line: texts with one of them are refused.",
    )
    log_texts: bool = Field(
        default=False,
        description="The log shows the texts; otherwise their length, and a hash that tells them "
        "apart.",
    )
