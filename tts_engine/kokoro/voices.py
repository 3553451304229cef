"""Kokoro's voices: style vectors on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tts_engine.errors import ModelCorrupt

#: The voices of this package. zf_xiaobei is the most intelligible in both languages.
BUNDLED = Path(__file__).parent / "voices"
DEFAULT = "zf_xiaobei"
#: a vector for each number of phonemes
SHAPE = (510, 256)


def find_voices(*directories: Path) -> dict[str, Path]:
    """Files by voice name, the default first, then in the order of their names.

    A file of a later directory replaces one of the same name.
    """
    found = {path.stem: path for folder in directories for path in sorted(folder.glob("*.npy"))}
    return dict(sorted(found.items(), key=lambda item: (item[0] != DEFAULT, item[0])))


def load_voice(path: Path) -> NDArray[np.float32]:
    """Style vectors [510, 256].

    Raises:
        ModelCorrupt
    """
    try:
        vectors = np.load(path, allow_pickle=False).astype(np.float32)
    except (OSError, ValueError, EOFError) as error:
        raise ModelCorrupt(f"The voice {path} cannot be read ({error})") from error
    if vectors.size != SHAPE[0] * SHAPE[1]:
        raise ModelCorrupt(
            f"The voice {path} has the shape {vectors.shape}, not {SHAPE}",
            mend="Convert Kokoro's voices/*.bin with numpy: fromfile(float32).reshape(510, 256)",
        )
    return vectors.reshape(SHAPE)
