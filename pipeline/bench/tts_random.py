"""A CosyVoice with random weights for `bench tts`, and whoever speaks with it.

How fast a model is does not depend on what its weights are, so both sides of a comparison get the
same random ones, made once and kept in the user's cache.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import torch
from torch import Tensor

from tts_engine.cosyvoice.frontend import EMBEDDING
from tts_engine.cosyvoice.loader import CosyVoice, load
from tts_engine.cosyvoice.make_random import Size, make_random, recipe
from tts_engine.cosyvoice.spectrum import MEL_BANDS
from tts_engine.errors import ModelError

#: speech tokens of the recording that is cloned: 3.5 s
PROMPT_TOKENS = 87
_PROMPT_TEXT = "今天天气很好，我们一起去公园走走吧。"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What both sides know of the voice. Its numbers are random as the weights are.

    Parameters:
        text_ids: what the recording says.
        tokens: its speech tokens.
        mel: its log mel, [2 * tokens, 80].
        embedding: of the speaker, [192].
    """

    text_ids: tuple[int, ...]
    tokens: tuple[int, ...]
    mel: Tensor
    embedding: Tensor


def random_dir(size: Size, *, home: Path | None = None, cache: Path | None = None) -> Path:
    """The directory of a CosyVoice 2 with random weights; made where it is not in the cache.

    Args:
        size: as `make_random` has them.
        home: a git checkout of CosyVoice; None: the installed modules.
        cache: None is the user's.

    Raises:
        EngineFailed: the modules are not there.
        ModelError: the disk is full, or cannot be written.
    """
    cache = cache or platformdirs.user_cache_path("duplexd") / "bench"
    name = f"cosyvoice2-{size}"
    directory = cache / f"{name}-{recipe()}"
    if not directory.is_dir():
        try:
            make_random("cosyvoice2", size, directory, home=home)
        except OSError as error:
            if not directory.is_dir():  # else another bench was quicker
                raise ModelError(
                    f"{directory} cannot be made: {error.strerror or error}",
                    mend="Free some space: 60 MB for --size tiny, 3.7 GB for full",
                ) from error
    for other in cache.glob(f"{name}-*"):
        if other != directory:
            shutil.rmtree(other, ignore_errors=True)
    return directory


def load_random(directory: Path, *, home: Path | None, device: str) -> CosyVoice:
    """Loads it in single precision: upstream's half precision differs from ours.

    Raises:
        ModelError, EngineFailed
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return load(directory, home=home, device=device)


def reference_of(model: CosyVoice) -> Reference:
    """Somebody's voice, the same each time."""
    dice = torch.Generator().manual_seed(0)
    flow: Any = model.flow
    drawn = torch.randint(int(flow.vocab_size), (PROMPT_TOKENS,), generator=dice)
    return Reference(
        text_ids=text_ids(model, _PROMPT_TEXT),
        tokens=tuple(drawn.tolist()),
        mel=torch.randn(2 * PROMPT_TOKENS, MEL_BANDS, generator=dice).to(model.device),
        embedding=torch.randn(EMBEDDING, generator=dice).to(model.device),
    )


def text_ids(model: CosyVoice, text: str) -> tuple[int, ...]:
    """A text as the language model reads it."""
    return tuple(model.tokenizer.encode(text, allowed_special="all"))
