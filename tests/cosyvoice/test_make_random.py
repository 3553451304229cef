"""A model of random weights is one that the real classes load, the same for the same seed, and is
there whole or not at all.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from transformers import AutoTokenizer

from tests.cosyvoice.conftest import Reference
from tts_engine.cosyvoice import make_random as module
from tts_engine.cosyvoice import modules
from tts_engine.cosyvoice.loader import CosyVoice, load
from tts_engine.cosyvoice.make_random import make_random
from tts_engine.cosyvoice.random_text import QWEN_TOKENS, write_tokenizer
from tts_engine.errors import BadRequest, EngineFailed

FILES = {
    "cosyvoice2.yaml",
    "llm.pt",
    "flow.pt",
    "hift.pt",
    "campplus.onnx",
    "speech_tokenizer_v2.onnx",
    "CosyVoice-BlankEN/config.json",
    "CosyVoice-BlankEN/vocab.json",
    "CosyVoice-BlankEN/merges.txt",
    "CosyVoice-BlankEN/tokenizer_config.json",
    "CosyVoice-BlankEN/model.safetensors",
}


def files_of(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


def test_a_directory_has_every_file_of_a_published_one(model_dir: Path) -> None:
    assert files_of(model_dir) >= FILES
    assert sum(each.stat().st_size for each in model_dir.rglob("*")) < 100e6


def test_the_same_seed_gives_the_same_model(model_dir: Path, tmp_path: Path) -> None:
    make_random("cosyvoice2", "tiny", tmp_path / "same")
    make_random("cosyvoice2", "tiny", tmp_path / "other", seed=1)
    for name in ("llm", "flow", "hift"):
        first, same, other = (
            torch.load(folder / f"{name}.pt", weights_only=True)
            for folder in (model_dir, tmp_path / "same", tmp_path / "other")
        )
        assert all(torch.equal(first[key], same[key]) for key in first)
        assert any(not torch.equal(first[key], other[key]) for key in first)
    assert files_of(tmp_path / "same") == files_of(model_dir)
    for text in ("cosyvoice2.yaml", "CosyVoice-BlankEN/vocab.json", "campplus.onnx"):
        assert (tmp_path / "same" / text).read_bytes() == (model_dir / text).read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["other", "same"]


def test_it_speaks(model: CosyVoice) -> None:
    """Speech tokens to samples through the modules' own methods: the parts fit each other."""
    tokens = torch.randint(0, 6561, (1, 40), generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        mel, _ = model.flow.inference(
            token=tokens[:, 20:],
            token_len=torch.tensor([20]),
            prompt_token=tokens[:, :20],
            prompt_token_len=torch.tensor([20]),
            prompt_feat=torch.zeros(1, 40, 80),
            prompt_feat_len=torch.tensor([40]),
            embedding=torch.ones(1, 192),
            streaming=True,
            finalize=True,
        )
        speech, _ = model.hift.inference(speech_feat=mel)
    assert mel.shape == (1, 80, 40)
    assert speech.shape == (1, 40 * 480)
    assert torch.isfinite(speech).all()
    assert speech.abs().max() > 0


def test_what_describes_a_voice_depends_on_it(model_dir: Path, reference: Reference) -> None:
    speaker = onnxruntime.InferenceSession(model_dir / "campplus.onnx")
    frames = reference.samples[: 80 * 100].reshape(1, 100, 80)
    (one,) = speaker.run(None, {"input": frames})
    (two,) = speaker.run(None, {"input": frames * 2 + 0.1})
    assert one.shape == (1, 192)
    assert not np.allclose(one, two)
    tokenizer = onnxruntime.InferenceSession(model_dir / "speech_tokenizer_v2.onnx")
    feats = np.random.default_rng(1).standard_normal((1, 128, 350)).astype(np.float32)
    length = np.array([350], np.int32)
    (tokens,) = tokenizer.run(None, {"feats": feats, "feats_length": length})
    assert (tokens.shape, tokens.dtype) == ((1, 87), np.int32)
    assert tokens.min() >= 0
    assert tokens.max() < 6561
    assert len(np.unique(tokens)) > 40


def test_a_vocabulary_filled_up_to_qwens(tmp_path: Path) -> None:
    """At full size the special tokens have the ids of the published tokenizer."""
    assert write_tokenizer(tmp_path, tokens=QWEN_TOKENS) == QWEN_TOKENS
    assert len(json.loads((tmp_path / "vocab.json").read_text())) == QWEN_TOKENS
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer("<|endoftext|><|im_start|><|im_end|>")["input_ids"] == [
        151_643,
        151_644,
        151_645,
    ]
    for text in ("我们走吧，Hello 世界！", "𠀀 \n\t", "émoji 😀"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_a_directory_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(BadRequest, match="is not empty"):
        make_random("cosyvoice2", "tiny", tmp_path)
    with pytest.raises(BadRequest, match="is not empty"):
        make_random("cosyvoice2", "tiny", tmp_path / "kept")
    assert os.listdir(tmp_path) == ["kept"]


@pytest.mark.usefixtures("model_dir")
def test_what_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_speaker_model", full_disk)
    with pytest.raises(OSError, match="No space left"):
        make_random("cosyvoice2", "tiny", tmp_path / "model")
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("model_dir")
def test_cosyvoice3_without_a_checkout(tmp_path: Path) -> None:
    if modules.knows_cosyvoice3():
        pytest.skip("this process has a checkout's modules")
    with pytest.raises(EngineFailed, match=r"cannot build CosyVoice 3\. Clone"):
        make_random("cosyvoice3", "tiny", tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_cosyvoice3_from_a_checkout(tmp_path: Path, home: Path | None) -> None:
    if home is None:
        pytest.skip("COSYVOICE_HOME names no checkout")
    make_random("cosyvoice3", "tiny", tmp_path / "model", home=home)
    made = load(tmp_path / "model", home=home)
    assert made.kind == "cosyvoice3"
    assert type(made.flow).__name__ == "CausalMaskedDiffWithDiT"
    assert made.tokenizer.encode("[breath]")
