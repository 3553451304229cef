"""Engines of TensorRT: built once for a GPU, kept on disk, and read again.

An engine runs only on the GPU and with the TensorRT that it was built with, so its file is named
after both, after the precision and after the hash of what it was built of. Building takes minutes,
and reports its progress.

No engine has been built by this code yet: it was written and tested without a GPU, against a
module that takes the calls and notes them. What it asks TensorRT for follows the documentation of
10.1 to 11.
"""

from __future__ import annotations

import hashlib
import importlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loguru import logger

from tts_engine.cosyvoice.tensorrt_plan import INSTALL, Plan, check_version, engine_name
from tts_engine.errors import EngineFailed, ModelCorrupt
from tts_engine.files import locked, replace_file

#: told what is being done, and how much of it is, 0 to 1
Progress = Callable[[str, float], None]

#: before a kept engine: what it is, and then the hash of the rest. TensorRT itself may crash on
#: what is damaged.
_MAGIC = b"duplexd engine 1"
_HASH_BYTES = 32
_WORKSPACE_BYTES = 4 << 30


def import_tensorrt(plan: Plan) -> Any:
    """The package `tensorrt`, found fit for a plan.

    Raises:
        EngineFailed: it is not installed, does not run here, or its version does not fit.
    """
    try:
        trt: Any = importlib.import_module("tensorrt")
    except ImportError as error:
        raise EngineFailed(
            f"TensorRT is asked for and cannot be imported: {error}",
            mend=f"{INSTALL}; or set tts.cosyvoice.tensorrt to off.",
        ) from error
    check_version(trt.__version__, plan)
    return trt


def open_engine(plan: Plan, *, gpu: str, folder: Path, progress: Progress) -> tuple[Any, Any]:
    """An engine, from the folder where it is there and sound, else built and kept there.

    The CUDA device that is current is the one for which it is built.

    Args:
        plan: which.
        gpu: what the device is called.
        folder: of engines; made where there is none.
        progress: told while it is built, from TensorRT's threads; not called otherwise.

    Returns:
        The package `tensorrt`, and the engine.

    Raises:
        EngineFailed: there is no fit TensorRT, it fails, or the folder cannot be written.
        ModelCorrupt: the ONNX file cannot be read.
    """
    trt = import_tensorrt(plan)
    log = trt.Logger(trt.Logger.WARNING)
    name = engine_name(plan, gpu=gpu, version=trt.__version__, onnx_sha256=sha256_of(plan.onnx))
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / f".{name}.lock"):
            engine = _kept(trt, log, path)
            if engine is None:
                logger.info("building {}; this takes minutes, once", path)
                content = build(trt, log, plan, progress)
                replace_file(path, _sealed(content), mode=0o644)
                engine = trt.Runtime(log).deserialize_cuda_engine(content)
    except OSError as error:
        raise EngineFailed(
            f"the engines of TensorRT cannot be kept in {folder}: {error.strerror or error}",
            mend="Make room there, and let the daemon write to it.",
        ) from error
    if engine is None:
        raise EngineFailed(f"TensorRT {trt.__version__} cannot read the engine that it has built")
    return trt, engine


def build(trt: Any, log: Any, plan: Plan, progress: Progress) -> bytes:
    """Builds an engine, in minutes.

    Args:
        trt: the package.
        log: a logger of it.
        plan: which.
        progress: told how far it is.

    Raises:
        ModelCorrupt: the ONNX file cannot be read.
        EngineFailed: TensorRT finds no way to compute it.
    """
    builder = trt.Builder(log)
    flags = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED) if plan.typed else 0
    network = builder.create_network(flags)
    parser = trt.OnnxParser(network, log)
    if not parser.parse_from_file(str(plan.onnx)):
        why = parser.get_error(0) if parser.num_errors else "it does not say why"
        raise ModelCorrupt(f"TensorRT cannot read {plan.onnx}: {why}")
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, _WORKSPACE_BYTES)
    if plan.precision == "fp32":
        # Ten bits of mantissa, which is what TF32 has, are not what fp32 was chosen for.
        config.clear_flag(trt.BuilderFlag.TF32)
    elif plan.flag:
        config.set_flag(getattr(trt.BuilderFlag, plan.flag))
    if plan.shapes:
        profile = builder.create_optimization_profile()
        for name, (least, usual, greatest) in plan.shapes.items():
            profile.set_shape(name, least, usual, greatest)
        config.add_optimization_profile(profile)
    monitor = _monitor(trt, BuildProgress(plan.name, progress))
    config.progress_monitor = monitor
    content = builder.build_serialized_network(network, config)
    if content is None:
        raise EngineFailed(
            f"TensorRT {trt.__version__} could not build an engine of {plan.onnx.name}; the log "
            "says why",
            mend="Free memory of the GPU, or set tts.cosyvoice.tensorrt to off.",
        )
    return bytes(content)


class BuildProgress:
    """Makes one number of TensorRT's phases, which lie in one another. Used from its threads.

    Parameters:
        name: what is built.
        progress: told when a hundredth more is done.
    """

    def __init__(self, name: str, progress: Progress) -> None:
        self._name = name
        self._progress = progress
        self._lock = threading.Lock()
        self._phases: dict[str, tuple[str | None, int, int]] = {}
        self._told = -1

    def start(self, phase: str, parent: str | None, steps: int) -> None:
        """A phase of so many steps has begun, within a step of another one, or by itself."""
        with self._lock:
            self._phases[phase] = (parent, 0, max(1, steps))

    def step(self, phase: str, step: int) -> None:
        """A step of a phase, counted from 0, is done."""
        with self._lock:
            if phase not in self._phases:
                return
            parent, _, steps = self._phases[phase]
            self._phases[phase] = (parent, min(step + 1, steps), steps)
            self._tell()

    def finish(self, phase: str) -> None:
        """A phase is over, whether or not all its steps were told."""
        with self._lock:
            self._phases.pop(phase, None)

    def _tell(self) -> None:
        roots = [name for name, (parent, *_) in self._phases.items() if parent is None]
        done = int(100 * max((self._part(name) for name in roots), default=0.0))
        if done > self._told:
            self._told = done
            self._progress(self._name, done / 100)

    def _part(self, phase: str) -> float:
        _, done, steps = self._phases[phase]
        inner = [name for name, (parent, *_) in self._phases.items() if parent == phase]
        within = max((self._part(name) for name in inner), default=0.0)
        return min(1.0, (done + within) / steps)


def _monitor(trt: Any, progress: BuildProgress) -> Any:
    """What TensorRT tells its progress to; it must be of a class of its own."""

    class Monitor(trt.IProgressMonitor):
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            progress.start(phase_name, parent_phase, num_steps)

        def step_complete(self, phase_name: str, step: int) -> bool:
            progress.step(phase_name, step)
            return True  # go on

        def phase_finish(self, phase_name: str) -> None:
            progress.finish(phase_name)

    return Monitor()


def _kept(trt: Any, log: Any, path: Path) -> Any | None:
    """The engine in a file; None where there is none, or none that can be used."""
    try:
        sealed = path.read_bytes()
    except FileNotFoundError:
        return None
    content = _unsealed(sealed)
    engine = trt.Runtime(log).deserialize_cuda_engine(content) if content is not None else None
    if engine is None:
        logger.warning("the engine {} is damaged; it is built again", path)
    return engine


def _sealed(content: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(content).digest() + content


def _unsealed(sealed: bytes) -> bytes | None:
    """What was sealed; None where it is not what it was."""
    start = len(_MAGIC) + _HASH_BYTES
    content = sealed[start:]
    whole = sealed[:start] == _MAGIC + hashlib.sha256(content).digest()
    return content if whole else None


def sha256_of(path: Path) -> str:
    """A model file's hash, in hexadecimal.

    Raises:
        ModelCorrupt: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ModelCorrupt(f"{path} cannot be read: {error.strerror or error}") from error
