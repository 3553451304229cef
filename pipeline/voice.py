"""Builds the voice from the configuration."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.config_schema import Config
from pipeline.config_section import Sentence
from services.models.store import ModelStore
from services.scripted.spec import TtsSpec
from tts_engine.engine import SpeechEngine
from tts_engine.service.cloner import ONCE


def build_voice(
    config: Config, store: ModelStore, *, threads: int, needs_voice: bool = True
) -> SpeechEngine:
    """The engine that the configuration names, not started.

    Args:
        config: names it.
        store: where its model lies.
        threads: for its computations.
        needs_voice: an engine of cloned voices without any is an error at its start.
    """
    tts = config.tts
    if tts.provider == "scripted":
        from services.scripted.tts import ScriptedVoice

        spec = config.scripted.delays.tts or TtsSpec()
        return ScriptedVoice(first_chunk_s=spec.first_chunk_s, rate=spec.rate)
    if tts.provider == "cosyvoice":
        from pipeline.cosyvoice import worker_settings
        from tts_engine.cosyvoice.engine import CosyVoiceEngine

        return CosyVoiceEngine(
            settings=worker_settings(config, store, threads=threads),
            needs_voice=needs_voice,
            queue_limit=tts.cosyvoice.queue_limit,
            timeout_s=tts.clause_timeout_s,
            start_timeout_s=tts.cosyvoice.start_timeout_s,
            context=tts.cosyvoice.context,
            text_stream=tts.cosyvoice.text_stream,
        )
    from tts_engine.kokoro.engine import KokoroEngine

    return KokoroEngine(model_dir=store.path("kokoro"), threads=threads)


def phrases_of(config: Config) -> list[str]:
    """Sentences of ours that are always the same."""
    messages, farewell = config.messages, config.xiaozhi.farewell
    fixed = (messages.filler, messages.llm_failed, messages.asr_failed, farewell)
    return [*greetings_of(config), *(text for each in fixed for text in _both(each))]


def greetings_of(config: Config) -> list[str]:
    """Those of them that answer a wake word, and so have to come at once."""
    return _both(config.xiaozhi.greeting) if config.xiaozhi.enabled else []


def _both(sentence: Sentence | None) -> list[str]:
    return [sentence.zh, sentence.en] if sentence else []


def with_default_first(chosen: str | None, voices: Sequence[str]) -> tuple[str, ...]:
    """The voices of an engine that everybody may use, the configured one first if it is there."""
    known = [voice for voice in voices if not voice.startswith(ONCE)]
    if chosen is None or chosen not in known:
        return tuple(known)
    return (chosen, *(voice for voice in known if voice != chosen))
