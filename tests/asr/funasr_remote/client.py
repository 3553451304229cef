"""An engine on a runtime, for the tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.asr.base import Samples, Transcript
from services.asr.funasr_remote.engine import RemoteFunAsrEngine
from services.asr.funasr_remote.recogniser import RemoteRecogniser
from tts_engine.restart import RestartPolicy

from .runtime import FakeRuntime, Flavour

#: bound of every wait, on a machine that others use as well, seconds
PATIENCE_S = 60.0
AT_ONCE = RestartPolicy(first_s=0.001, longest_s=0.001, give_up_after=1000)
NEVER = RestartPolicy(first_s=3600, longest_s=3600, give_up_after=1)
GIVES_UP = RestartPolicy(first_s=0.001, longest_s=0.001, give_up_after=3)
FLAVOURS: tuple[Flavour, ...] = ("runtime", "python", "old python")


@asynccontextmanager
async def remote(
    runtime: FakeRuntime, *, start: bool = False, **options: Any
) -> AsyncIterator[RemoteFunAsrEngine]:
    """An engine on a runtime."""
    options = {"url": runtime.url, "retry": AT_ONCE, "timeout_s": PATIENCE_S, **options}
    engine = RemoteFunAsrEngine(**options)
    try:
        if start:
            await engine.start()
        yield engine
    finally:
        async with asyncio.timeout(PATIENCE_S):
            await engine.close()
            await engine.close()


def feed(recogniser: RemoteRecogniser, samples: Samples, *, block: int = 512) -> None:
    for at in range(0, len(samples), block):
        recogniser.feed(samples[at : at + block])


def pcm(samples: Samples) -> NDArray[np.int16]:
    return np.rint(samples * 32768).astype(np.int16)


async def final(recogniser: RemoteRecogniser) -> Transcript:
    async with asyncio.timeout(PATIENCE_S):
        return await recogniser.finalise()
