"""`bench asr`: how much a recogniser understands, how soon it says so, and for how many at a time.

docs/benchmarks.md has the definitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.bench.asr_corpus import Utterance, read_corpus
from pipeline.bench.asr_passes import COUNTS, Passes
from pipeline.bench.asr_result import AsrResult
from pipeline.bench.asr_sides import check_peer, own_side, peer_side
from pipeline.bench.progress import OnProgress
from tts_engine.errors import BadRequest

if TYPE_CHECKING:
    from pipeline.config import Config
    from services.models.store import ModelStore

_MOST = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class AsrPlan:
    """What is to be measured.

    Parameters:
        place: folder of recordings and texts, or the list in it.
        limit: the first so many utterances; None: all.
        counts: conversations at a time.
        paced: at the pace of speech, too; else there is nothing to tell of partials and of the
            wait for the text.
        peer: pipecat's own FunASR service beside it, with the same model.
    """

    place: Path
    limit: int | None = None
    counts: Sequence[int] = COUNTS
    paced: bool = True
    peer: bool = False

    def __post_init__(self) -> None:
        """Refuses what cannot be meant.

        Raises:
            BadRequest
        """
        if max(self.counts, default=1) > _MOST:
            raise BadRequest(f"At most {_MOST} conversations at a time are measured")


def run_asr(
    config: Config, store: ModelStore, plan: AsrPlan, *, on_progress: OnProgress
) -> AsrResult:
    """Runs the bench; takes several times as long as the recordings last.

    Args:
        config: says which recogniser, as for the daemon.
        store: where its models lie.
        plan: what to measure.
        on_progress: is told how far it is.

    Raises:
        DuplexdError: of the recordings or the recogniser.
    """
    if plan.peer:
        check_peer(config)
    utterances = read_corpus(plan.place, limit=plan.limit)
    on_progress(0.0, "starting")
    return asyncio.run(_measure(config, store, plan, utterances, on_progress))


async def _measure(
    config: Config,
    store: ModelStore,
    plan: AsrPlan,
    utterances: Sequence[Utterance],
    on_progress: OnProgress,
) -> AsrResult:
    async with AsyncExitStack() as stack:
        peer = await stack.enter_async_context(peer_side(config, store)) if plan.peer else None
        ours = await stack.enter_async_context(own_side(config, store, beside=peer))
        passes = Passes(
            [ours, peer.side] if peer else [ours],
            utterances,
            counts=plan.counts,
            paced=plan.paced,
            on_progress=on_progress,
        )
        own, *others = await passes.run()
    own.peer = others[0] if others else None
    return own
