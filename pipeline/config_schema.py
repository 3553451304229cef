"""The configuration as strict, frozen models: one class a section.

Descriptions are what `docs/configuration.md` is made of; names carry their units (`_ms`, `_s`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.networks import HttpUrl, WebsocketUrl

from services.access.hosts import host_of
from services.access.origins import origin_of
from services.llm.moods import PLACEHOLDER
from services.scripted.reply import parse_reply
from services.scripted.spec import (
    PREFIX,
    AsrSpec,
    LlmSpec,
    ScriptedSpec,
    ScriptedTexts,
    TtsSpec,
    parse_spec,
)
from tts_engine.errors import ConfigError

#: configs/ of this checkout
CONFIGS = Path(__file__).resolve().parent.parent / "configs"

Language = Literal["zh", "en"]
ThreadCount = Literal["auto"] | Annotated[int, Field(ge=1, le=256)]

_URL = TypeAdapter(HttpUrl)
_SOCKET_URL = TypeAdapter(WebsocketUrl)


class Section(BaseModel):
    """What all sections share: unknown keys and silent conversions are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Server(Section):
    """The socket that clients connect to."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8080, ge=0, le=65535, description="TCP port; 0 takes any free one.")
    max_sessions: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="Conversations at a time; further clients are refused.",
    )
    send_timeout_s: float = Field(
        default=5.0,
        ge=0.1,
        le=60,
        description="A client that does not take a message for so long is cut.",
    )
    tls: str = Field(
        default="off",
        min_length=1,
        description="off; auto: a certificate of its own, for this machine's addresses; "
        "CERT,KEY: PEM files of yours.",
    )
    require_key: bool = Field(
        default=False,
        description="Ask for an API key on loopback too; beyond loopback one is always asked for.",
    )
    keys_file: Path | None = Field(
        default=None,
        strict=False,
        description="Where the hashes of the API keys are kept, relative to the configuration "
        "file; null is a file in the user's data folder.",
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Further names that clients may call the daemon by, as behind a proxy. IP "
        "addresses, localhost, this machine's name and `host` always do.",
    )
    allowed_origins: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Web pages of other hosts that may connect, as https://app.example.com.",
    )
    requests_per_minute: int = Field(
        default=600,
        ge=0,
        le=1_000_000,
        description="Requests of one client address, where a key is asked for; 0 is no limit.",
    )

    @field_validator("tls")
    @classmethod
    def _tls(cls, value: str) -> str:
        cert, comma, key = value.partition(",")
        if value not in ("off", "auto") and not (cert.strip() and comma and key.strip()):
            raise ValueError("must be off, auto, or two files: CERT,KEY")
        return value

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if ":" in name or host_of(name) is None:
                raise ValueError(f"{name!r} is no host name; write one like voice.example.com")
        return value

    @field_validator("allowed_origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if origin_of(origin) is None:
                raise ValueError(f"{origin!r} is no origin; write one like https://app.example.com")
        return value


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


class LocalLlm(Section):
    """The embedded language model: a demo brain, small enough for two cores."""

    model: Literal["auto", "0.5b", "1.5b"] = Field(
        default="auto", description="Size; auto is 1.5b from four cores on, else 0.5b."
    )
    context: int = Field(
        default=4096, ge=512, le=131_072, description="Context of a request, tokens."
    )
    parallel: int = Field(
        default=2, ge=1, le=16, description="Requests that are answered at a time."
    )
    tools: bool = Field(
        default=False,
        description="Offer it a client's tools, which models of this size misuse. If not, it "
        "answers in words, and a call that a client demands fails.",
    )


class Llm(Section):
    """The language model that answers."""

    provider: Literal["auto", "openai", "local", "scripted"] = Field(
        default="auto",
        description="openai: any server with OpenAI's chat API; local: the embedded model; auto: "
        "openai if a base_url or an api_key is set, here or in the environment, else local.",
    )
    base_url: str | None = Field(
        default=None,
        description="Address of the API up to /v1; null is OpenAI's own. The environment's "
        "OPENAI_BASE_URL goes before.",
    )
    api_key: SecretStr | None = Field(
        default=None,
        description="Key of the API; never shown. The environment's OPENAI_API_KEY goes before.",
    )
    model: str | None = Field(
        default=None,
        min_length=1,
        description="Model name at the API; null is the first that the server lists. The "
        "environment's OPENAI_MODEL goes before.",
    )
    temperature: float = Field(default=0.6, ge=0, le=2, description="Sampling temperature.")
    max_tokens: int = Field(default=300, ge=1, le=32_768, description="Bound of an answer, tokens.")
    context_tokens: int | None = Field(
        default=None,
        ge=512,
        le=2_000_000,
        description="Bound of a request and its answer, tokens: a longer conversation loses its "
        "oldest exchanges. null is 16000; for the embedded model 2048, as it reads slowly, or "
        "llm.local.context if that is less.",
    )
    first_token_timeout_s: float = Field(
        default=15.0, ge=0.1, le=600, description="Limit from the request to the first token."
    )
    idle_timeout_s: float = Field(
        default=15.0, ge=0.1, le=600, description="Limit between two tokens."
    )
    local: LocalLlm = Field(default=LocalLlm(), description="The embedded model.")

    @property
    def engine(self) -> Literal["openai", "local", "scripted"]:
        """The provider, with "auto" decided."""
        if self.provider != "auto":
            return self.provider
        return "openai" if self.base_url or self.api_key else "local"

    @property
    def context(self) -> int:
        """`context_tokens`, with null decided."""
        if self.context_tokens is not None:
            return self.context_tokens
        # After a cut what is left is read anew, within the limit of the first token: two cores
        # read some 70 tokens a second.
        return min(self.local.context, 2048) if self.engine == "local" else 16_000

    @property
    def shown_url(self) -> str | None:
        """`base_url` for people to see: without the user name and password that it may hold."""
        return self.base_url and re.sub(r"//[^/]*@", "//", self.base_url)

    @field_validator("base_url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        try:
            if value is not None:
                _URL.validate_python(value)
        except ValidationError:
            raise ValueError("must be an http:// or https:// address") from None
        return value

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.provider == "openai" and not (self.base_url or self.api_key):
            raise ValueError(
                "provider openai needs a base_url or an api_key; set OPENAI_BASE_URL or "
                "OPENAI_API_KEY"
            )
        return self


class Sentence(Section):
    """One sentence in every language."""

    zh: str = Field(min_length=1, description="In Mandarin.")
    en: str = Field(min_length=1, description="In English.")


class Prompts(Section):
    """Files with the system prompt, one a language; a conversation's first turn chooses."""

    zh: Path = Field(
        default=CONFIGS / "prompts/zh.md",
        strict=False,
        description="For Mandarin, relative to the configuration file.",
    )
    en: Path = Field(
        default=CONFIGS / "prompts/en.md",
        strict=False,
        description="For English, relative to the configuration file.",
    )
    switch: Sentence = Field(
        default=Sentence(zh="（请用中文回答。）", en="(Answer in English.)"),
        description="Added to a turn in another language than the conversation's prompt.",
    )
    mood: Sentence | None = Field(
        default=None,
        description="Added to a turn of which the recogniser tells the emotion, in the language of "
        "the prompt: `zh` and `en`, each with {emotion} where it is named. null adds nothing; nor "
        "does a neutral turn.",
    )

    @field_validator("mood")
    @classmethod
    def _names_the_emotion(cls, value: Sentence | None) -> Sentence | None:
        for language, text in (value.model_dump() if value is not None else {}).items():
            if PLACEHOLDER not in text:
                raise ValueError(f"needs {PLACEHOLDER} in {language}, where the emotion is named")
        return value

    def text(self, language: Language) -> str:
        """Reads the prompt of a language."""
        return (self.zh if language == "zh" else self.en).read_text(encoding="utf-8").strip()


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


class Transcription(Section):
    """Recordings that are transcribed outside conversations: `POST /v1/audio/transcriptions`."""

    parallel: int = Field(
        default=4, ge=1, le=256, description="Requests at a time; further ones are refused (429)."
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


class Persona(Section):
    """Somebody the assistant can be."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$", description="Its name for programs.")
    name: Sentence = Field(description="Its name for people.")
    instructions: Sentence | None = Field(
        default=None, description="The system prompt; null is that of `prompts`."
    )


_PERSONAS = (
    Persona(id="everyday", name=Sentence(zh="日常助手", en="Everyday")),
    Persona(
        id="storyteller",
        name=Sentence(zh="讲故事的人", en="Storyteller"),
        instructions=Sentence(
            zh="你是一位讲故事的人。用口语讲一个有画面感的小故事，每次三到五句，讲完问听众接下来想听什么。"
            "不用列表，不用表情符号。",
            en="You are a storyteller. Tell a small, vivid story in spoken words, three to five "
            "sentences at a time, and end by asking what should happen next. No lists, no emoji.",
        ),
    ),
    Persona(
        id="english-coach",
        name=Sentence(zh="英语口语教练", en="English coach"),
        instructions=Sentence(
            zh="You are a patient coach of spoken English for a Chinese speaker. Talk in simple "
            "English, one or two sentences, and ask a question back. When you hear a mistake, say "
            "the better sentence once, then go on. Explain in Chinese only when asked.",
            en="You are a patient coach of spoken English. Talk in simple English, one or two "
            "sentences, and ask a question back. When you hear a mistake, say the better sentence "
            "once, then go on.",
        ),
    ),
    Persona(
        id="quiz-master",
        name=Sentence(zh="答题主持人", en="Quiz master"),
        instructions=Sentence(
            zh="你是一位答题主持人。每次只问一道常识题，等对方回答，用一句话说对不对和为什么，报一下得分，"
            "再问下一题。说话简短有趣。",
            en="You are a quiz master. Ask one question of general knowledge at a time and wait. "
            "Then say in one sentence whether the answer was right and why, tell the score, and "
            "ask the next one. Be brief and playful.",
        ),
    ),
)


class Web(Section):
    """The talk page."""

    personas: tuple[Persona, ...] = Field(
        default=_PERSONAS,
        strict=False,
        description="Who the assistant can be, the first unless another is chosen; each has an "
        "`id`, a `name` and `instructions`, the last two in both languages.",
    )

    @field_validator("personas")
    @classmethod
    def _told_apart(cls, value: tuple[Persona, ...]) -> tuple[Persona, ...]:
        if not value:
            raise ValueError("needs at least one persona")
        ids = [persona.id for persona in value]
        for number, name in enumerate(ids):
            if name in ids[:number]:
                raise ValueError(f"two personas have the id {name}")
        return value


class Scripted(Section):
    """Fake engines with set delays, for tests and measurements.

    In the texts `{session}` and `{turn}` are filled in, in replies also `{user}`, the last message,
    and `{tool}`, the last output of a function.
    """

    spec: str = Field(
        default="instant",
        description="Delays: `asr=60,llm=150@50,tts=150` is 60 ms to the final text, 150 ms to "
        "the first token and then 50 tokens a second, 150 ms to the first audio; an engine that "
        "is not named has none, nor has any with `instant`.",
    )
    transcripts: tuple[str, ...] = Field(
        default=("今天天气怎么样？",),
        strict=False,
        min_length=1,
        description="What is recognised, turn by turn, from the start again.",
    )
    replies: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="What is answered, turn by turn, from the start again; empty for `echo`. "
        'A function is called by `@call name {"argument": 1}`, what follows `@then` answers its '
        "output; `@@call` is the word itself.",
    )
    echo: str = Field(default="你说的是：{user}", description="The answer without `replies`.")
    chars_per_second: float = Field(
        default=5.0, gt=0, le=100, description="Pace of the scripted speaker, characters a second."
    )
    marked: bool = Field(
        default=False,
        description="The sound itself says which of `transcripts` is being said, and how far it "
        "is, as `run.py bench` makes it.",
    )
    asr_errors: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of wrong characters in the texts of the recogniser, also of a real one.",
    )

    @property
    def delays(self) -> ScriptedSpec:
        """The delays of every engine; those that `spec` does not name have none."""
        named = parse_spec(f"{PREFIX}{self.spec}")
        return ScriptedSpec(
            asr=named.asr or AsrSpec(), llm=named.llm or LlmSpec(), tts=named.tts or TtsSpec()
        )

    @property
    def texts(self) -> ScriptedTexts:
        """What is recognised and answered."""
        return ScriptedTexts(
            transcripts=[*self.transcripts],
            replies=[*self.replies],
            echo=self.echo,
            chars_per_second=self.chars_per_second,
        )

    @field_validator("replies", "echo")
    @classmethod
    def _is_reply(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for reply in (value,) if isinstance(value, str) else value:
            parse_reply(reply)
        return value

    @field_validator("spec")
    @classmethod
    def _parses(cls, value: str) -> str:
        try:
            parse_spec(f"{PREFIX}{value}")
        except ConfigError as error:
            raise ValueError(error.message.removeprefix("scripted engines: ")) from None
        return value


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
    speech: Speech = Speech()
    transcription: Transcription = Transcription()
    web: Web = Web()
    scripted: Scripted = Scripted()
    messages: Messages = Messages()
    log: Log = Log()
