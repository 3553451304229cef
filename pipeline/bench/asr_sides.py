"""Whom `bench asr` measures: the recogniser of the configuration, and whom it is compared with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.bench.asr_crowd import Side
from pipeline.bench.asr_listening import Manner
from pipeline.bench.asr_peer import SILENCE_MS, PipecatFunAsr
from pipeline.bench.asr_usage import cpu_s, memory_mb
from pipeline.bench.asr_wire import Settings
from pipeline.budget import ThreadBudget
from pipeline.needs import funasr_models
from pipeline.recognition import build_asr, worker_settings
from tts_engine.errors import BadRequest

if TYPE_CHECKING:
    from pipeline.config import Config
    from services.models.store import ModelStore


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSide:
    """Whom ours is compared with.

    Parameters:
        side: to be measured.
        pid: of its process.
    """

    side: Side
    pid: Callable[[], int | None]


@asynccontextmanager
async def own_side(
    config: Config, store: ModelStore, *, beside: PeerSide | None = None
) -> AsyncIterator[Side]:
    """The recogniser of the configuration, started, for the length of a block.

    Its processor time and memory are those of this process and of what it has started.

    Args:
        config: as for the daemon.
        store: where its models lie.
        beside: whose process does not count.

    Raises:
        DuplexdError: it cannot be started.
    """
    engine = build_asr(config, store, budget=ThreadBudget.of(config.threads))

    def others() -> Sequence[int]:
        pid = beside.pid() if beside else None
        return () if pid is None else (pid,)

    try:
        await engine.start()
        yield Side(
            about=_about(config),
            engine=engine,
            manner=Manner(
                # as the turn core asks, see `pipeline.turns.recognition`
                silence_ms=min(config.turns.finalise_ms, config.turns.floor_ms),
                preroll_ms=config.vad.preroll_ms,
            ),
            cpu_s=lambda: cpu_s(but=others()),
            memory_mb=lambda: memory_mb(but=others()),
        )
    finally:
        await engine.close()


def check_peer(config: Config) -> None:
    """Whether there is a model that pipecat's service can be given.

    Raises:
        BadRequest: there is none.
    """
    if config.asr.provider != "funasr" or not funasr_models(config).offline:
        raise BadRequest(
            "pipecat's FunASR service is given the offline model of ours, and there is none",
            mend="Add --provider funasr, with asr.funasr.mode offline or streaming+offline.",
        )


@asynccontextmanager
async def peer_side(config: Config, store: ModelStore) -> AsyncIterator[PeerSide]:
    """The FunASR service of pipecat with our offline model, in a process of its own.

    Raises:
        DuplexdError: it cannot be started.
    """
    threads = ThreadBudget.of(config.threads).asr
    ours = worker_settings(config, store, threads=threads)
    engine = PipecatFunAsr(
        settings=Settings(
            model_dir=ours.offline_dir, device=ours.offline_device, threads=ours.threads
        )
    )
    try:
        await engine.start()
        side = Side(
            about="pipecat's FunASR service",
            engine=engine,
            manner=Manner(silence_ms=SILENCE_MS, preroll_ms=config.vad.preroll_ms),
            cpu_s=lambda: cpu_s(engine.pid),
            memory_mb=lambda: memory_mb(engine.pid),
        )
        yield PeerSide(side=side, pid=lambda: engine.pid)
    finally:
        await engine.close()


def _about(config: Config) -> str:
    asr = config.asr
    if asr.provider == "funasr":
        models = funasr_models(config)
        named = (models.streaming, models.offline, models.punctuation)
        return f"funasr, {models.mode}: {', '.join(filter(None, named))}"
    if asr.provider == "funasr-remote":
        return f"funasr-remote, {asr.remote.mode}, at {asr.remote.url}"
    return f"whisper: {asr.model}" if asr.provider == "whisper" else asr.provider
