"""Where a torch model computes, in which precision, and whether it has room there."""

from __future__ import annotations

import psutil
import torch

from tts_engine.errors import ConfigError, EngineFailed

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def device_of(name: str, *, key: str) -> torch.device:
    """A device that is on this machine.

    Args:
        name: cpu, cuda, cuda:1.
        key: of the configuration, which sets it.

    Raises:
        ConfigError: no device is called so.
        EngineFailed: it is not here.
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(
            f"there is no device called {name!r}", mend="Devices are cpu, cuda, cuda:1."
        ) from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        built = "" if torch.version.cuda else "; the installed torch is built for the CPU only"
        raise EngineFailed(
            f"{name} is not on this machine ({torch.cuda.device_count()} CUDA devices{built})",
            mend=f"Set {key} to cpu, or install a torch for this GPU.",
        )
    return device


def dtype_of(name: str, *, device: str) -> torch.dtype:
    """A precision that a device can compute in.

    Raises:
        ConfigError: none is called so, or the device cannot.
    """
    if name not in DTYPES:
        raise ConfigError(f"there is no dtype {name!r}", mend=f"Known: {', '.join(DTYPES)}.")
    if name == "fp16" and device == "cpu":
        raise ConfigError("fp16 needs a GPU", mend="Use fp32 or bf16 on the CPU.")
    return DTYPES[name]


def dtype_name(dtype: torch.dtype) -> str:
    """What `dtype_of` knows a precision as."""
    return next(name for name, known in DTYPES.items() if known == dtype)


def free_bytes(device: torch.device) -> int:
    """Bytes of a device's memory, or of this machine's, that are free now."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available


def check_room(
    weights: int, *, device: torch.device, dtype: torch.dtype, spare: int, mend: str
) -> None:
    """Makes sure that a model fits.

    Args:
        weights: bytes of its files, which are in float32.
        device: where it goes.
        dtype: in which it is kept there. On the CPU it is built in float32 whatever it becomes.
        spare: bytes beside the weights.
        mend: what helps where it does not.

    Raises:
        EngineFailed: it does not.
    """
    place = "this machine"
    if device.type == "cuda":
        weights = weights * dtype.itemsize // torch.float32.itemsize
        place = str(device)
    needed = weights + spare
    if (free := free_bytes(device)) < needed:
        raise EngineFailed(
            f"too little memory: the model needs {needed >> 20} MiB, {place} has {free >> 20} free",
            mend=mend,
        )
