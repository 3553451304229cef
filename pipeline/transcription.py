"""What recordings outside conversations are transcribed with, as the configuration has it."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.config_schema import Config
from services.asr.base import AsrEngine
from services.asr.one_shot import Transcriber
from services.audio_api.transcription_desk import TranscriptionAccounts, TranscriptionDesk
from services.vad.base import VadEngine


def make_transcription_desk(
    config: Config,
    *,
    asr: AsrEngine,
    vad: VadEngine,
    accounts: TranscriptionAccounts,
    ready: Callable[[], bool],
) -> TranscriptionDesk:
    """The desk of a process; see `TranscriptionDesk`."""
    transcription = config.transcription
    return TranscriptionDesk(
        transcriber=Transcriber(
            asr=asr,
            vad=vad,
            threshold=config.vad.threshold,
            limit_s=transcription.max_audio_s,
        ),
        accounts=accounts,
        ready=ready,
        languages=config.asr.languages,
        parallel=transcription.parallel,
        max_upload=round(transcription.max_upload_mb * 1024 * 1024),
    )


def build_vad(config: Config) -> VadEngine:
    """The voice detector that the configuration names, not started."""
    if config.vad.provider == "energy":
        from services.vad.energy import EnergyVad

        return EnergyVad()
    from services.vad.silero import SileroVad

    return SileroVad()
