"""How much audio a second eight streams are served at full size, one at a time and batched.

    python -m tests.asr.funasr.speed [DIR]

measures the streaming Paraformer in DIR, or one of random weights that is made for it (880 MB), on
one thread, and fails when eight at a time are not worth 1.3 times one at a time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from services.asr.base import SAMPLE_RATE
from services.asr.funasr.loader import Model, load
from services.asr.funasr.make_random import make_random
from services.asr.funasr.streaming import StreamingParaformer

STREAMS = 8
#: chunks of 600 ms of each stream
CHUNKS = 6
WORTH = 1.3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path)
    directory: Path | None = parser.parse_args().directory
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as made:
        if directory is None:
            directory = Path(made) / "model"
            make_random("paraformer-streaming", "full", directory)
        model = load(directory)
    model.auto.kwargs["disable_pbar"] = True
    paraformer = StreamingParaformer(model)
    random = np.random.default_rng(0)
    chunks = random.standard_normal((CHUNKS, STREAMS, paraformer.chunk_samples)) * 0.05
    audio = chunks.astype(np.float32)
    _step(paraformer, audio[:1], STREAMS)
    served = {
        "FunASR's generate, one at a time": _measure(lambda: _generate(model, audio), audio),
        "one at a time": _measure(lambda: _step(paraformer, audio, 1), audio),
        "four at a time": _measure(lambda: _step(paraformer, audio, 4), audio),
        "eight at a time": _measure(lambda: _step(paraformer, audio, 8), audio),
    }
    for name, (wall, busy) in served.items():
        print(f"{name:34} {wall:6.2f} s of audio a second, {busy:6.2f} a second of the core")
    worth = served["eight at a time"][0] / max(
        served["one at a time"][0], served["FunASR's generate, one at a time"][0]
    )
    print(f"eight at a time are worth {worth:.2f} times the better of one at a time")
    return 0 if worth >= WORTH else 1


def _measure(work: Callable[[], None], audio: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Seconds of audio per second of wall time, and of this process's time."""
    began, busy = time.perf_counter(), time.process_time()
    work()
    seconds = audio.size / SAMPLE_RATE
    return seconds / (time.perf_counter() - began), seconds / (time.process_time() - busy)


def _step(paraformer: StreamingParaformer, audio: np.ndarray[Any, Any], batch: int) -> None:
    streams = [paraformer.open() for _ in range(STREAMS)]
    for chunk in audio:
        for stream, samples in zip(streams, chunk, strict=True):
            stream.push(samples)
        for first in range(0, STREAMS, batch):
            paraformer.step(streams[first : first + batch])


def _generate(model: Model, audio: np.ndarray[Any, Any]) -> None:
    caches: list[dict[str, Any]] = [{} for _ in range(STREAMS)]
    for chunk in audio:
        for cache, samples in zip(caches, chunk, strict=True):
            model.auto.generate(
                input=samples,
                cache=cache,
                is_final=False,
                chunk_size=[0, 10, 5],
                encoder_chunk_look_back=4,
                decoder_chunk_look_back=1,
            )


if __name__ == "__main__":
    sys.exit(main())
