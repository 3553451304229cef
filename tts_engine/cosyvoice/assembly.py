"""Puts the model together for the synthesis loop, and warms it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from loguru import logger

from tts_engine.cosyvoice.decoder import TokenDecoder
from tts_engine.cosyvoice.flow_choice import build_flow
from tts_engine.cosyvoice.frontend import Frontend
from tts_engine.cosyvoice.graphs import Graphs, check_graphs
from tts_engine.cosyvoice.kind import Kind, kind_of
from tts_engine.cosyvoice.loader import DEVICE_KEY, backbone_of, load
from tts_engine.cosyvoice.memory import check_memory, footprint
from tts_engine.cosyvoice.parts import Parts
from tts_engine.cosyvoice.pauses import SILENT
from tts_engine.cosyvoice.quantize import check_quantize, quantize
from tts_engine.cosyvoice.schedule import Limits
from tts_engine.cosyvoice.stream import Synthesiser
from tts_engine.cosyvoice.tensorrt_plan import Mode, check_fit
from tts_engine.cosyvoice.vocoder import StreamingVocoder
from tts_engine.cosyvoice.voice_room import Prompt, VoiceRoom
from tts_engine.cosyvoice.voices import VoiceStore, by_age
from tts_engine.cosyvoice.wire import Done, Report, Settings, Speak
from tts_engine.device import device_of, free_bytes
from tts_engine.frames import Failed, error_of

#: part of the free memory that speech may take; the rest is for what a step needs meanwhile
_LIVE_PART = 0.5
#: said to warm up, and cut off behind a first, a middle and a last block
_WARM_UP = "今天天气好，我们出去走走。" * 8
_WARM_UP_TOKENS = 45


@dataclass(frozen=True, kw_only=True)
class Model:
    """What the worker works with."""

    kind: Kind
    parts: Parts
    limits: Limits


def assemble(settings: Settings) -> Model:
    """Loads and warms everything: seconds with random weights, minutes at full size on a CPU.

    Raises:
        ModelError, EngineFailed, ConfigError
    """
    torch.set_num_threads(settings.threads)
    home = Path(settings.home) if settings.home else None
    kind = kind_of(Path(settings.model_dir))
    device, dtype = _where(settings, kind)
    _check(settings, kind, device, dtype)
    model = load(Path(settings.model_dir), home=home, device=device, dtype=dtype)
    flow = build_flow(
        model, settings, cast("Mode", settings.tensorrt), engines=Path(settings.engines_dir)
    )
    quantize(backbone_of(model.llm).get_submodule("model.layers"), settings.quantize)
    decoder = TokenDecoder(
        model.llm,
        max_batch=settings.requests,
        compile=settings.compile,
        graphs=Graphs() if settings.cuda_graphs else None,
    )
    frontend = Frontend(model.model_dir, tokenizer=model.tokenizer, threads=settings.threads)
    voices = VoiceRoom(
        store=VoiceStore(Path(settings.voices_dir)),
        frontend=frontend,
        flow=flow,
        kept=settings.voices,
    )
    vocoder = StreamingVocoder(model.hift)
    del model.hift.m_source  # what of it is used is in the vocoder's; in CosyVoice 3 it is 290 MB
    parts = Parts(
        decoder=decoder,
        flow=flow,
        vocoder=vocoder,
        voices=voices,
        sample_rate=model.sample_rate,
        token_rate=model.token_rate,
        silent=SILENT[kind],
        fatal=(torch.AcceleratorError,),
    )
    voices.prepare_all()
    on_gpu = model.device.type == "cuda"
    second = flow.bytes_per_second() + model.token_rate * decoder.bytes_per_token
    limits = Limits(
        requests=settings.requests,
        flow_rows=settings.flow_rows or (settings.requests if on_gpu else 1),
        live_s=settings.live_s or _LIVE_PART * free_bytes(model.device) / second,
    )
    logger.info("there is memory for {:.0f} s of speech in the making", limits.live_s)
    warm_up(parts, limits, rows=range(1, limits.requests + 1) if on_gpu else (1,))
    return Model(kind=kind, parts=parts, limits=limits)


def warm_up(parts: Parts, limits: Limits, *, rows: Iterable[int]) -> None:
    """Makes utterances of a first, a middle and a last block, by so many at a time.

    Raises:
        DuplexdError: of the first that fails.
    """
    nobody = cast("VoiceRoom", _Nobody(parts.voices.nobody(_WARM_UP)))
    for count in rows:
        told: list[Report] = []
        loop = Synthesiser(
            parts=dataclasses.replace(parts, voices=nobody),
            limits=dataclasses.replace(limits, live_s=math.inf),
            longest_s=_WARM_UP_TOKENS / parts.token_rate,
            emit=told.append,
            measure=lambda _: None,
        )
        for id in range(count):
            loop.inbox.put(Speak(id=id, text=_WARM_UP, voice="", seed=id))
        while sum(isinstance(each, Done | Failed) for each in told) < count:
            loop.turn()
        for each in told:
            if isinstance(each, Failed):
                raise error_of(each)


class _Nobody:
    """In place of the voices: whoever speaks, and whatever, it begins in one way."""

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt

    def prompt(self, *_: object) -> Prompt:
        return self._prompt


def _check(settings: Settings, kind: Kind, device: str, dtype: str) -> None:
    """Refuses, before anything is loaded, what cannot work or has no room."""
    model_dir, mode = Path(settings.model_dir), cast("Mode", settings.tensorrt)
    check_quantize(settings.quantize, dtype=dtype)
    if settings.cuda_graphs:
        check_graphs(device)
    check_fit(mode, kind=kind, device=device, dtype=dtype, cache=settings.cache)
    voices = [
        each.duration_s
        for each in by_age(VoiceStore(Path(settings.voices_dir)).infos())
        if each.kind == kind
    ]
    check_memory(
        footprint(
            model_dir,
            kind,
            dtype=dtype,
            steps=settings.steps,
            cache=settings.cache,
            recompute=mode == "estimator",
        ),
        voices=voices[: settings.voices],
        live_s=settings.live_s,
        free=free_bytes(device_of(device, key=DEVICE_KEY)),
        place=device if device.startswith("cuda") else "this machine",
    )


def _where(settings: Settings, kind: Kind) -> tuple[str, str]:
    """Device and dtype, chosen where that is left to us.

    CosyVoice 3 in fp16 is known to give NaN in one way to compute it; bf16 has the room that it
    lacks.
    """
    device, dtype = settings.device, settings.dtype
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if dtype == "auto":
        half = "fp16" if kind == "cosyvoice2" else "bf16"
        dtype = "fp32" if device == "cpu" else half
    return device, dtype
