"""Stand-ins for what CosyVoice's modules import and never use when they only synthesise.

Its files import a good deal for training and for other models: torchaudio to read files, Whisper's
and OpenAI's tokenizers for CosyVoice 1, and through `matcha.utils` the whole of lightning and hydra
(eighteen seconds). What of that is not installed is stood in for while the modules are imported.
"""

from __future__ import annotations

import logging
import sys
from contextlib import AbstractContextManager

from tts_engine.foreign import EmptyModule
from tts_engine.foreign import stand_ins as stand_ins_for

#: by top-level package: its modules that are imported, and the names taken from them
_UNUSED: dict[str, dict[str, tuple[str, ...]]] = {
    "torchaudio": {
        "torchaudio": (),
        "torchaudio.compliance": (),
        "torchaudio.compliance.kaldi": (),
    },
    "whisper": {"whisper": (), "whisper.tokenizer": ("Tokenizer",)},
    "tiktoken": {"tiktoken": ()},
}


def stand_ins() -> AbstractContextManager[None]:
    """Puts the stand-ins into `sys.modules`, and takes them out again: nobody else sees them."""
    return stand_ins_for(_UNUSED)


def replace_matcha_utils() -> None:
    """Makes `matcha.utils` an empty package over the same files, with its logger; stays so.

    Raises:
        ImportError: there is no `matcha`.
    """
    import matcha

    utils = EmptyModule("matcha.utils")
    utils.__path__ = [f"{place}/utils" for place in matcha.__path__]
    logger = EmptyModule("matcha.utils.pylogger")
    for parent, name, value in (
        (logger, "get_pylogger", logging.getLogger),
        (utils, "pylogger", logger),
        (matcha, "utils", utils),
    ):
        setattr(parent, name, value)
    sys.modules |= {each.__name__: each for each in (utils, logger)}
