"""`bench tts`: how soon a voice is heard, how fast it is, and how many it serves.

Two ways, told apart by what is asked for:

- the configured engine, or a service that runs: texts by the clock (`tts_sweep`);
- a CosyVoice with random weights, from inside, with upstream's own loop beside it: a fixed number
  of speech tokens, in processor time where there is no GPU (`tts_fixed`).

docs/benchmarks.md has the definitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pipeline.bench.progress import OnProgress
from pipeline.bench.tts_result import TtsResult
from pipeline.bench.tts_speakers import engine_speaker, service_speaker
from pipeline.bench.tts_sweep import COUNTS, LENGTHS, Sweep, sweep
from pipeline.bench.tts_texts import text_of
from tts_engine.errors import BadRequest, not_installed

if TYPE_CHECKING:
    from pipeline.config import Config

_MOST = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class TtsPlan:
    """What is to be measured.

    Parameters:
        size: a model with random weights in place of the configured engine; None: the engine.
        peer: upstream beside it.
        url: of a service in place of the engine.
        key, cacert: for the service.
        voice: None is the default.
        lengths, counts: None chooses what takes minutes at most.
        repeat: see `Sweep`; with random weights once is enough.
    """

    size: Literal["tiny", "full"] | None = None
    peer: bool = False
    url: str | None = None
    key: str = ""
    cacert: Path | None = None
    voice: str | None = None
    lengths: Sequence[int] | None = None
    counts: Sequence[int] | None = None
    repeat: int | None = None

    def __post_init__(self) -> None:
        """Refuses what cannot be meant.

        Raises:
            BadRequest
        """
        if self.fixed and self.url is not None:
            raise BadRequest(
                "A service cannot be compared with upstream from outside",
                mend="Leave out --url, or --peer and --size",
            )
        for length in self.lengths or ():
            text_of(length)
        if max(self.counts or (1,)) > _MOST:
            raise BadRequest(f"At most {_MOST} requests at a time are measured")

    @property
    def fixed(self) -> bool:
        """Whether a model with random weights is measured."""
        return self.peer or self.size is not None

    @property
    def engine(self) -> bool:
        """Whether the configured engine is measured."""
        return not self.fixed and self.url is None


def run_tts(config: Config, plan: TtsPlan, *, on_progress: OnProgress) -> TtsResult:
    """Runs the bench; takes minutes.

    Args:
        config: says which engine, and where CosyVoice's modules are.
        plan: what to measure.
        on_progress: is told how far it is.

    Raises:
        DuplexdError: of the engine or the service.
    """
    if plan.fixed:
        return _fixed(config, plan, on_progress)
    return asyncio.run(_by_the_clock(config, plan, on_progress))


async def _by_the_clock(config: Config, plan: TtsPlan, on_progress: OnProgress) -> TtsResult:
    on_progress(0.0, "starting")
    if plan.url is not None:
        speaker = service_speaker(plan.url, key=plan.key, cacert=plan.cacert, voice=plan.voice)
    else:
        speaker = engine_speaker(config, voice=plan.voice)
    chosen = Sweep(
        lengths=LENGTHS if plan.lengths is None else plan.lengths,
        counts=COUNTS if plan.counts is None else plan.counts,
        **({} if plan.repeat is None else {"repeat": plan.repeat}),
    )
    async with speaker as ready:
        return await sweep(ready, chosen, on_progress)


def _fixed(config: Config, plan: TtsPlan, on_progress: OnProgress) -> TtsResult:
    try:
        from pipeline.bench.tts_fixed import FixedPlan, run_fixed
    except ModuleNotFoundError as error:
        raise not_installed("CosyVoice", error) from error
    chosen = config.tts.cosyvoice
    return run_fixed(
        FixedPlan(
            size=plan.size or "full",
            device=chosen.device,
            home=chosen.home,
            peer=plan.peer,
            lengths=plan.lengths or (),
            counts=plan.counts or (),
            repeat=plan.repeat or 1,
        ),
        on_progress,
    )
