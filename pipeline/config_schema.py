"""The configuration as strict, frozen models: one class a section.

Descriptions are what `docs/configuration.md` is made of; names carry their units (`_ms`, `_s`).
The larger sections have files of their own, `config_*.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from pipeline.config_asr import Asr
from pipeline.config_llm import Llm, Prompts
from pipeline.config_scripted import Scripted
from pipeline.config_section import Section, Sentence
from pipeline.config_server import Server
from pipeline.config_tools import Tools
from pipeline.config_tts import Speech, Tts
from pipeline.config_web import Web
from pipeline.config_xiaozhi import Xiaozhi

ThreadCount = Literal["auto"] | Annotated[int, Field(ge=1, le=256)]


class Models(Section):
    """Where model weights are kept, and whether they may be fetched."""

    dir: Path | None = Field(
        default=None,
        strict=False,
        description="Folder of the model files, relative to the configuration file; null is the "
        "user's cache folder.",
    )
    offline: bool = Field(default=False, description="Never use the network for models.")
    auto_fetch: bool = Field(
        default=True, description="`serve` and `talk` fetch the model files that are missing."
    )


class Threads(Section):
    """Compute threads of each engine; `doctor` shows what auto comes to."""

    asr: ThreadCount = Field(
        default="auto", description="Recogniser; auto is a quarter of the cores."
    )
    tts: ThreadCount = Field(
        default="auto", description="Voice; auto is half of the cores, and two of two or three."
    )
    llm: ThreadCount = Field(default="auto", description="Local LLM; auto is half of the cores.")


class Vad(Section):
    """Voice activity detection, in windows of 32 ms."""

    provider: Literal["silero", "energy"] = Field(
        default="silero",
        description="silero: a neural detector; energy: loudness, for scripted engines.",
    )
    threshold: float = Field(
        default=0.5, gt=0, lt=1, description="Probability from which a window counts as speech."
    )
    onset_windows: int = Field(
        default=4, ge=1, le=30, description="Speech windows in a row that open a turn."
    )
    playback_onset_windows: int = Field(
        default=3, ge=1, le=30, description="The same, while an answer plays."
    )
    preroll_ms: int = Field(
        default=500, ge=0, le=5_000, description="Audio before the onset that belongs to the turn."
    )


class Turns(Section):
    """When a turn ends, and who may interrupt whom."""

    floor_ms: int = Field(
        default=200,
        ge=32,
        le=5_000,
        description="Silence that ends a turn whose text is complete.",
    )
    ceiling_ms: int = Field(
        default=1200,
        ge=32,
        le=10_000,
        description="Silence that ends any turn, but not less than floor_ms; between the two the "
        "text decides.",
    )
    finalise_ms: int = Field(
        default=128,
        ge=32,
        le=5_000,
        description="Silence at which the text is asked for, before the turn may end.",
    )
    acoustic: Literal["off", "smart-turn"] = Field(
        default="off",
        description="smart-turn: a model hears whether the user has finished, which moves the end "
        "between floor and ceiling; costs 20 to 150 ms of a core for every pause.",
    )
    speculate: bool = Field(
        default=True,
        description="Make the answer while it is not yet sure that the user has finished, and hold "
        "it until then.",
    )
    speculations: int = Field(
        default=4, ge=1, le=100, description="Answers made so in one turn, at most."
    )
    speculate_when_busy: bool = Field(
        default=False, description="Do so also while other conversations use the engines."
    )
    interruptible: bool = Field(
        default=True, description="Speech during playback interrupts the answer."
    )
    barge_in_ms: int = Field(
        default=800,
        ge=32,
        le=10_000,
        description="Voice during playback that interrupts whatever is said; what is shorter is "
        "judged by its text. The answer pauses meanwhile.",
    )
    resume_ms: int = Field(
        default=320,
        ge=32,
        le=5_000,
        description="Silence after which a paused answer goes on, if there is no text by then.",
    )
    max_turn_s: float = Field(default=60.0, ge=1, le=600, description="A longer turn is ended.")
    starvation_ms: int = Field(
        default=300,
        ge=50,
        le=10_000,
        description="When a client sends no audio for so long, the gap counts as silence.",
    )
    record_dir: Path | None = Field(
        default=None,
        strict=False,
        description="Folder for a log of each conversation's turns, relative to the configuration "
        "file: when somebody spoke, what was said, and so why it was decided as it was, see "
        "`run.py replay`. null writes none.",
    )


class Realtime(Section):
    """The OpenAI Realtime face: how its audio is paced."""

    frame_ms: int = Field(default=20, ge=10, le=100, description="Length of an audio message.")
    lead_ms: int = Field(
        default=200,
        ge=0,
        le=2_000,
        description="How far sending runs ahead of playing: a reserve against network jitter, and "
        "what may still sound after an interruption.",
    )


class Transcription(Section):
    """Recordings that are transcribed outside conversations: `POST /v1/audio/transcriptions`."""

    parallel: int = Field(
        default=4,
        ge=1,
        le=256,
        description="Recordings at a time; of four times as many the others wait, and further ones "
        "are refused (429).",
    )
    max_upload_mb: float = Field(
        default=400.0,
        ge=0.01,
        le=10_000,
        description="Size of a recording; it is kept on the disk while it is transcribed, in the "
        "folder for temporary files.",
    )
    max_audio_s: float = Field(
        default=14_400.0,
        ge=1,
        le=1_000_000,
        description="Length of a recording, of which a small file can hold much.",
    )


class Messages(Section):
    """What the user is told when something fails, in the language of the conversation."""

    asr_failed: Sentence = Field(
        default=Sentence(
            zh="抱歉，我没有听清，请再说一遍。",
            en="Sorry, I did not catch that. Please say it again.",
        ),
        description="Spoken when recognition fails or takes too long.",
    )
    llm_failed: Sentence = Field(
        default=Sentence(
            zh="抱歉，我现在想不出答案，请稍后再试。",
            en="Sorry, I cannot think of an answer right now. Please try again.",
        ),
        description="Spoken when the language model fails or takes too long.",
    )
    filler: Sentence = Field(
        default=Sentence(zh="请稍等，我看一下。", en="One moment, let me see."),
        description="Spoken when a function takes longer, see tools.filler_after_s.",
    )
    failed: Sentence = Field(
        default=Sentence(zh="出错了", en="Error"),
        description="Heading of what a device shows when something failed that nobody speaks of.",
    )


class Log(Section):
    """The daemon's log, on standard error."""

    level: Literal["trace", "debug", "info", "warning", "error"] = Field(
        default="info", description="The least important line that is written."
    )
    format: Literal["text", "json"] = Field(
        default="text", description="text for people, json for programs: one object a line."
    )


class Config(Section):
    """Everything that can be set."""

    server: Server = Server()
    models: Models = Models()
    threads: Threads = Threads()
    vad: Vad = Vad()
    turns: Turns = Turns()
    asr: Asr = Asr()
    llm: Llm = Llm()
    prompts: Prompts = Prompts()
    tts: Tts = Tts()
    realtime: Realtime = Realtime()
    xiaozhi: Xiaozhi = Xiaozhi()
    tools: Tools = Tools()
    speech: Speech = Speech()
    transcription: Transcription = Transcription()
    web: Web = Web()
    scripted: Scripted = Scripted()
    messages: Messages = Messages()
    log: Log = Log()
