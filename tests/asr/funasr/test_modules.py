"""FunASR's code, imported in pieces, without what it does to the process."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from services.asr.funasr.modules import import_modules
from tts_engine.errors import EngineFailed, ModelCorrupt

_IMPORT = """
import logging, random, sys
import numpy, torch
torch.set_num_threads(1)
torch.manual_seed(3); random.seed(3); numpy.random.seed(3)
expected = torch.rand(1), random.random(), numpy.random.rand()
torch.manual_seed(3); random.seed(3); numpy.random.seed(3)
root = logging.getLogger()
before = root.level, list(root.handlers), logging.root.manager.disable
from services.asr.funasr.modules import import_modules
import_modules(["SenseVoiceSmall", "WavFrontend", "SentencepiecesTokenizer"])
import_modules(["SenseVoiceSmall"])
assert (torch.rand(1), random.random(), numpy.random.rand()) == expected
assert (root.level, list(root.handlers), logging.root.manager.disable) == before
assert torch.get_num_threads() == 1
assert "librosa" not in sys.modules or sys.modules["librosa"].__spec__.origin
assert "funasr.models.paraformer_streaming.model" not in sys.modules
from funasr import AutoModel
assert AutoModel.build_model
"""


def test_importing_leaves_the_process_as_it_was_and_imports_only_what_is_wanted() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=False, timeout=500
    )

    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_class_that_is_not_known_is_told() -> None:
    with pytest.raises(ModelCorrupt, match="'Wav2Vec'"):
        import_modules(["WavFrontend", "Wav2Vec"])


def test_without_funasr_it_is_told_what_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "funasr", raising=False)
    monkeypatch.delitem(sys.modules, "funasr.auto.auto_model", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(EngineFailed, match="FunASR is not installed") as failed:
        import_modules()

    assert "make engines" in failed.value.mend


def test_without_what_a_model_needs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import_modules()
    monkeypatch.delitem(sys.modules, "funasr.models.whisper.model", raising=False)
    monkeypatch.setitem(sys.modules, "whisper", None)

    with pytest.raises(EngineFailed, match="whisper") as failed:
        import_modules(["WhisperWarp"])

    assert "make engines" in failed.value.mend
