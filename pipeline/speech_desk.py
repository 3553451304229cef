"""What texts outside conversations are spoken with, as the configuration has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipeline.config_schema import Config
from tts_engine.engine import SpeechEngine
from tts_engine.service.desk import SpeechAccounts, SpeechDesk
from tts_engine.service.requests import LANGUAGES, Language
from tts_engine.service.router import ServiceContext
from tts_engine.service.words import BlockedWords, allow_all

#: what engines speak that do not speak all
_SPOKEN: dict[str, tuple[Language, ...]] = {"kokoro": ("zh", "en")}


def make_desk(
    config: Config,
    *,
    engine: SpeechEngine,
    accounts: SpeechAccounts,
    ready: Callable[[], bool],
    voices: Callable[[], Sequence[str]],
    jobs: int,
) -> SpeechDesk:
    """The desk of a process; see `SpeechDesk`.

    Raises:
        ConfigError: the blocked words cannot be read.
    """
    speech = config.speech
    words = speech.blocked_words
    return SpeechDesk(
        engine=engine,
        accounts=accounts,
        ready=ready,
        voices=voices,
        check=allow_all if words is None else BlockedWords.read(words),
        speed=config.tts.speed,
        parallel=speech.parallel,
        jobs=jobs,
        ahead_s=speech.ahead_s,
        chunk_timeout_s=config.tts.clause_timeout_s,
        stall_s=speech.stall_s,
        log_texts=speech.log_texts,
    )


def service_context(config: Config, desk: SpeechDesk) -> ServiceContext:
    """What the routes of the TTS service need."""
    speech, provider = config.speech, config.tts.provider
    return ServiceContext(
        desk=desk,
        about=provider,
        languages=_SPOKEN.get(provider, LANGUAGES),
        max_chars=speech.max_chars,
        max_upload=round(speech.max_upload_mb * 1024 * 1024),
        idle_s=speech.idle_s,
        folder=speech.reference_dir,
        hosts=speech.reference_hosts,
    )
