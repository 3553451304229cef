# pyright: strict
"""What a `session.update` may hold."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from services.realtime.formats import AudioFormat
from services.realtime.schema import (
    MAX_LIST,
    MaxTokens,
    Modalities,
    Name,
    Text,
    Voice,
    WireModel,
    unsupported_types,
)
from services.realtime.tools import Choice, Tools

Names = Annotated[list[Name], Field(max_length=MAX_LIST, fail_fast=True)]
Eagerness = Literal["low", "medium", "high", "auto"]
#: a BCP 47 tag, of which the language counts
Language = Annotated[str, Field(pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*$")]


class PcmFormat(WireModel):
    """Mono signed 16-bit little-endian samples; 16 kHz is an extension."""

    type: Literal["audio/pcm"]
    rate: Literal[24000, 16000] | None = None

    def format(self) -> AudioFormat:
        """For the codec."""
        return AudioFormat("audio/pcm", self.rate or 24_000)


class G711Format(WireModel):
    """Mono G.711 at 8 kHz: mu-law or A-law."""

    type: Literal["audio/pcmu", "audio/pcma"]
    rate: Literal[8000] | None = None

    def format(self) -> AudioFormat:
        """For the codec."""
        return AudioFormat(self.type, 8_000)


Format = Annotated[PcmFormat | G711Format, Field(discriminator="type")]


class ServerVad(WireModel):
    """Turns are detected by the daemon.

    Parameters:
        silence_duration_ms: silence that ends a turn; None: the daemon's default.
        create_response: answer when a turn ends.
        interrupt_response: speech during an answer interrupts it.
        idle_timeout_ms: silence after which the daemon speaks by itself.
        threshold, prefix_padding_ms: no effect, the daemon has its own detector and pre-roll.
    """

    type: Literal["server_vad"]
    silence_duration_ms: Annotated[int, Field(ge=0, le=10_000)] | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None
    idle_timeout_ms: Annotated[int, Field(ge=1_000, le=600_000)] | None = None
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    prefix_padding_ms: Annotated[int, Field(ge=0)] | None = None


class SemanticVad(WireModel):
    """The same with a silence by name: how eagerly the daemon takes its turn."""

    type: Literal["semantic_vad"]
    eagerness: Eagerness | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None


class Transcription(WireModel):
    """How turns are written down.

    Parameters:
        language, languages: the only ones that are spoken.
        prompt, keywords: names and terms that are likely, for recognisers that can use them.
        model, delay: no effect, the daemon has its own recogniser.
    """

    model: Name | None = None
    language: Language | None = None
    languages: Annotated[list[Language], Field(max_length=MAX_LIST, fail_fast=True)] | None = None
    prompt: Text | None = None
    delay: Name | None = None
    keywords: Names | None = None


class AudioInput(WireModel):
    """Microphone options. Null means something: for turn_detection that the client commits turns
    itself, for transcription that it wants no text of them.
    """

    format: Format | None = None
    turn_detection: Annotated[ServerVad | SemanticVad, Field(discriminator="type")] | None = None
    noise_reduction: dict[str, Any] | None = None
    transcription: Transcription | None = None


class AudioOutput(WireModel):
    """Speech options; speed is a multiple of the voice's own pace."""

    format: Format | None = None
    voice: Voice | None = None
    speed: Annotated[float, Field(ge=0.5, le=2.0)] | None = None


class AudioConfig(WireModel):
    """Both directions of audio."""

    input: AudioInput | None = None
    output: AudioOutput | None = None


class ClientTraits(WireModel):
    """An extension: what the daemon cannot know of the client, and may count on.

    Parameters:
        echo_cancelled: its microphone does not hear its loudspeaker.
        pauses: it stops playing at `duplexd.playback.paused`, and keeps what it has.
    """

    echo_cancelled: bool | None = None
    pauses: bool | None = None


class RealtimePatch(WireModel):
    """What a session.update changes; fields that are absent or null stay as they are."""

    type: Literal["realtime"]
    audio: AudioConfig | None = None
    instructions: Text | None = None
    output_modalities: Modalities | None = None
    max_output_tokens: MaxTokens | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    tools: Tools | None = None
    tool_choice: Choice | None = None
    duplexd: ClientTraits | None = None
    prompt: None = None
    model: Name | None = None
    include: Names | None = None
    parallel_tool_calls: bool | None = None
    reasoning: dict[str, Any] | None = None
    tracing: Any = None
    truncation: Any = None


class TranscriptionAudio(WireModel):
    """A transcription session hears, and says nothing."""

    input: AudioInput | None = None


class TranscriptionPatch(WireModel):
    """What a session.update changes in a session that only writes down what it hears."""

    type: Literal["transcription"]
    audio: TranscriptionAudio | None = None
    include: Names | None = None


SessionPatch = Annotated[
    RealtimePatch | TranscriptionPatch,
    Field(discriminator="type"),
    unsupported_types("translation"),
]
