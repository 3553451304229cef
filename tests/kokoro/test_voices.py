"""Voice files are found by name, the default first, and a broken one is an error that names it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tts_engine.errors import ModelCorrupt
from tts_engine.kokoro.voices import BUNDLED, SHAPE, find_voices, load_voice


def test_bundled() -> None:
    voices = find_voices(BUNDLED)
    assert list(voices) == ["zf_xiaobei", "zf_xiaoxiao"]
    for path in voices.values():
        vectors = load_voice(path)
        assert vectors.shape == SHAPE
        assert vectors.dtype == np.float32
        assert np.isfinite(vectors).all()


def test_own_voices(tmp_path: Path) -> None:
    np.save(tmp_path / "af_heart.npy", np.ones((510, 1, 256), np.float32))
    np.save(tmp_path / "zf_xiaobei.npy", np.zeros(SHAPE, np.float16))
    voices = find_voices(BUNDLED, tmp_path)
    assert list(voices) == ["zf_xiaobei", "af_heart", "zf_xiaoxiao"]
    assert not load_voice(voices["zf_xiaobei"]).any()
    assert load_voice(voices["af_heart"]).shape == SHAPE


def test_broken(tmp_path: Path) -> None:
    np.save(tmp_path / "short.npy", np.ones(7))
    (tmp_path / "text.npy").write_text("no voice")
    for name in ("short", "text", "missing"):
        with pytest.raises(ModelCorrupt, match=name):
            load_voice(tmp_path / f"{name}.npy")
