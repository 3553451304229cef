"""The flow that a configuration asks for: eager, or with an engine of TensorRT."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import torch
from loguru import logger

from tts_engine.cosyvoice import export, flow_attention, flow_estimator, flow_layers
from tts_engine.cosyvoice.block_run import StepRun
from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.flow_block import BlockFlow
from tts_engine.cosyvoice.flow_generation import check_second, generation_of
from tts_engine.cosyvoice.flow_recompute import RecomputedFlow
from tts_engine.cosyvoice.graphs import Graphs
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.tensorrt import open_engine, sha256_of
from tts_engine.cosyvoice.tensorrt_plan import Mode, Plan, block_plan, estimator_plan
from tts_engine.cosyvoice.tensorrt_run import CONTEXTS, Lanes, lanes_of
from tts_engine.cosyvoice.wire import Settings
from tts_engine.device import dtype_name, free_bytes
from tts_engine.errors import EngineFailed
from tts_engine.files import locked

#: mel frames of the past that the block's engine takes: 15 s, the prompt's included
PAST = 750

#: whatever the exported block is made by
_RECIPE = (export, flow_attention, flow_estimator, flow_layers)
#: a tenth of the building, between two words about it
_TOLD = 0.1


def build_flow(
    model: CosyVoice, settings: Settings, mode: Mode, *, engines: Path
) -> IncrementalFlow:
    """The flow of a loaded model. With TensorRT it takes minutes, the first time on a GPU.

    Args:
        model: whose `flow` to take.
        settings: its steps, cache and requests, and whether to compile and record.
        mode: what computes the estimator; see `tensorrt_plan.check_fit` for what cannot be.
        engines: folder of TensorRT's engines.

    Raises:
        EngineFailed: this is no flow that is known, or the block is asked for of another one than
            CosyVoice 2's.
        EngineFailed, ModelMissing, ModelCorrupt: see `tensorrt.open_engine`.
    """
    # Before minutes are spent on an engine for it.
    generation_of(model.flow)
    if mode == "block":
        check_second(model.flow)
    steps = settings.steps
    if mode == "off" and _fixed(model, settings):
        return _by_torch(model, settings)
    if mode == "off":
        return IncrementalFlow(
            model.flow, steps=steps, cache="hidden" if settings.cache == "hidden" else "kv"
        )
    precision = dtype_name(model.dtype)
    count = min(CONTEXTS, settings.requests)
    if mode == "estimator":
        plan = estimator_plan(model.model_dir, precision)
        return RecomputedFlow(model.flow, lanes=_lanes(plan, model, engines, count), steps=steps)
    plan = block_plan(exported(model, precision, engines), precision)
    return BlockFlow(model.flow, lanes=_lanes(plan, model, engines, count), past=PAST, steps=steps)


def _fixed(model: CosyVoice, settings: Settings) -> bool:
    """The block is to be compiled or recorded, and can be."""
    if not (settings.compile or settings.cuda_graphs):
        return False
    fits = settings.cache == "kv" and model.kind == "cosyvoice2"
    if not fits:
        logger.warning("only the language model is compiled or recorded, not this flow")
    return fits


def _by_torch(model: CosyVoice, settings: Settings) -> IncrementalFlow:
    """A flow whose blocks have one shape."""
    run = StepRun(
        IncrementalFlow(model.flow).estimator,
        compile=settings.compile,
        graphs=Graphs() if settings.cuda_graphs else None,
    )
    return BlockFlow(model.flow, lanes=Lanes([run]), past=PAST, steps=settings.steps)


def exported(model: CosyVoice, precision: str, folder: Path) -> Path:
    """The block of a model as an ONNX file, exported once.

    Raises:
        EngineFailed: it cannot be exported, or the folder cannot be written.
        ModelCorrupt: the flow's checkpoint cannot be read.
    """
    sha = hashlib.sha256(f"{precision} {PAST} {torch.__version__}".encode())
    for module in _RECIPE:
        sha.update(Path(str(module.__file__)).read_bytes())
    sha.update(sha256_of(model.model_dir / "flow.pt").encode())
    path = folder / f"block-{precision}-{sha.hexdigest()[:16]}.onnx"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / f".{path.name}.lock"):
            if not path.exists():
                logger.info("exporting the flow's block to {}", path)
                part = path.with_name(f".{path.name}.part")
                try:
                    export.export_block(IncrementalFlow(model.flow), part, streams=1, past=PAST)
                    os.replace(part, path)
                finally:
                    part.unlink(missing_ok=True)
    except OSError as error:
        raise EngineFailed(
            f"the flow's block cannot be kept in {folder}: {error.strerror or error}",
            mend="Make room there, and let the daemon write to it.",
        ) from error
    return path


def _lanes(plan: Plan, model: CosyVoice, folder: Path, count: int) -> Lanes:
    device = model.device
    with torch.cuda.device(device):
        gpu = torch.cuda.get_device_name(device)
        trt, engine = open_engine(plan, gpu=gpu, folder=folder, progress=_Told())
        return lanes_of(trt, engine, device=device, count=count, free=free_bytes(device))


class _Told:
    """Logs how far a building is, now and then."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, what: str, done: float) -> None:
        if done >= self._next:
            self._next = done + _TOLD
            logger.info("TensorRT builds the {}: {:.0%}", what, done)
