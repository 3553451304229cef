"""Puts the models together for the recognition loop, and warms them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from services.asr.base import SAMPLE_RATE
from services.asr.funasr.loader import Model, load
from services.asr.funasr.loop import RecognitionLoop
from services.asr.funasr.parts import Parts
from services.asr.funasr.schedule import Limits
from services.asr.funasr.second_pass import SecondPass
from services.asr.funasr.second_pass_punctuation import Punctuation
from services.asr.funasr.streaming import StreamingParaformer
from services.asr.funasr.wire import Feed, Final, Report, Settings
from tts_engine.frames import Failed, error_of
from tts_engine.worker_side import Inbox

#: streams, and pieces, in a step: on a GPU a step of many costs what one does; on the CPU the
#: weights, which are read once for all streams, are most of the cost of a chunk, not of a piece
_CHUNKS_ON_GPU, _CHUNKS_ON_CPU = 32, 8
_PIECES_ON_GPU, _PIECES_ON_CPU = 16, 1
#: seconds of the noise that is recognised to warm up
_WARM_UP_S = 3


def assemble(settings: Settings) -> tuple[Parts, Limits]:
    """Loads the models: seconds, at full size half a minute on a CPU.

    Raises:
        ModelError, EngineFailed, ConfigError
    """
    torch.set_num_threads(settings.threads)
    streaming = offline = punctuation = None
    if settings.mode != "offline":
        streaming = _load(
            settings.streaming_dir, settings.streaming_device, settings.streaming_dtype
        )
    if settings.mode != "streaming":
        offline = _load(settings.offline_dir, settings.offline_device, settings.offline_dtype)
    finals = offline or streaming
    if settings.punctuation_dir and finals is not None:
        punctuation = _load(settings.punctuation_dir, str(finals.device), "fp32")
    parts = Parts(
        streaming=streaming
        and StreamingParaformer(
            streaming, chunk_ms=settings.chunk_ms, look_back=settings.look_back
        ),
        offline=offline and SecondPass(offline, punctuation),
        punctuate=_punctuate(punctuation) if punctuation and not offline else None,
        fatal=(torch.AcceleratorError,),
    )
    limits = Limits(
        chunks=settings.chunks or (_CHUNKS_ON_GPU if _on_gpu(streaming) else _CHUNKS_ON_CPU),
        pieces=settings.pieces or (_PIECES_ON_GPU if _on_gpu(offline) else _PIECES_ON_CPU),
    )
    return parts, limits


def make_loop(
    parts: Parts,
    limits: Limits,
    settings: Settings,
    *,
    emit: Callable[[Report], None],
    inbox: Inbox | None = None,
) -> RecognitionLoop:
    """The loop over the models."""
    return RecognitionLoop(
        parts=parts,
        limits=limits,
        emit=emit,
        inbox=inbox,
        segment_s=settings.segment_s,
        min_log_prob=settings.min_log_prob,
        max_turn_s=settings.max_turn_s,
    )


def warm_up(parts: Parts, limits: Limits, settings: Settings) -> None:
    """Recognises noise, in steps of one and of as many as may share one.

    Raises:
        DuplexdError: of the first that fails.
    """
    noise = np.random.default_rng(0).standard_normal(_WARM_UP_S * SAMPLE_RATE)
    payload = (noise * 0.05).astype(np.float32).tobytes()
    for streams, finals in {(1, 1): None, (limits.chunks, limits.pieces): None}:
        told: list[Report] = []
        loop = make_loop(parts, limits, settings, emit=told.append)
        for turn in range(max(streams, finals)):
            loop.inbox.put(Feed(turn=turn, at=0, came=0.0, partials=True, payload=payload))
        for turn in range(finals):
            loop.inbox.put(Final(id=-1 - turn, turn=turn, came=0.0))
        while loop.turn() and loop.busy:
            pass
        for each in told:
            if isinstance(each, Failed):
                raise error_of(each)


def _load(model_dir: str, device: str, dtype: str) -> Model:
    """Loads a model; chooses where and how exactly it computes where that is left to us.

    These models are small: what a GPU would save with less than fp32 is little.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return load(Path(model_dir), device=device, dtype="fp32" if dtype == "auto" else dtype)


def _on_gpu(model: Model | None) -> bool:
    return model is not None and model.device.type == "cuda"


def _punctuate(model: Model) -> Callable[[Sequence[str]], list[str]]:
    punctuation = Punctuation(model)

    def punctuate(texts: Sequence[str]) -> list[str]:
        with torch.inference_mode():
            return punctuation.punctuate(texts)

    return punctuate
