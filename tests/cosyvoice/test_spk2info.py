"""A voice goes to upstream's file and back unchanged; upstream's own entries become voices; what is
none is refused by name, and nothing in a file is executed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from tts_engine.cosyvoice.kind import Kind
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.spk2info import Tokenizer, read_spk2info, write_spk2info
from tts_engine.cosyvoice.voice import Voice, VoiceInfo, trimmed
from tts_engine.errors import BadRequest, EngineFailed

TEXT = "希望你以后 do better，好吗？"


@pytest.fixture
def tokenizer(model: CosyVoice) -> Tokenizer:
    return cast("Tokenizer", model.tokenizer)


def entry(tokenizer: Tokenizer, *, text: str = TEXT, count: int = 87) -> dict[str, torch.Tensor]:
    """As upstream makes it of a recording."""
    draw = torch.Generator().manual_seed(count)
    ids = torch.tensor([tokenizer.encode(text)], dtype=torch.int32)
    tokens = torch.randint(0, 6561, (1, count), generator=draw, dtype=torch.int32)
    mel = torch.randn(1, 2 * count, 80, generator=draw)
    embedding = torch.randn(1, 192, generator=draw)

    def length(value: int) -> torch.Tensor:
        return torch.tensor([value], dtype=torch.int32)

    return {
        "prompt_text": ids,
        "prompt_text_len": length(ids.shape[1]),
        "llm_prompt_speech_token": tokens,
        "llm_prompt_speech_token_len": length(count),
        "flow_prompt_speech_token": tokens,
        "flow_prompt_speech_token_len": length(count),
        "prompt_speech_feat": mel,
        "prompt_speech_feat_len": length(2 * count),
        "llm_embedding": embedding,
        "flow_embedding": embedding,
    }


def saved(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "spk2info.pt"
    torch.save(content, path)
    return path


def same(one: Voice, two: Voice) -> bool:
    fields = ("llm_tokens", "flow_tokens", "mel", "embedding")
    return all(
        getattr(one.features, name).dtype == getattr(two.features, name).dtype
        and np.array_equal(getattr(one.features, name), getattr(two.features, name))
        for name in fields
    )


def test_upstream_s_voices(tokenizer: Tokenizer, tmp_path: Path) -> None:
    original = entry(tokenizer)
    path = saved(tmp_path, {"小明": original})
    made = read_spk2info(path, kind="cosyvoice2", tokenizer=tokenizer)
    assert made.refused == {}
    [voice] = made.voices
    assert (voice.info.name, voice.info.kind, voice.info.text) == ("小明", "cosyvoice2", TEXT)
    assert (voice.info.language, voice.info.duration_s) == ("zh", 3.48)
    assert (voice.info.consent, voice.info.sha256) == ("", "")
    features = voice.features
    assert np.array_equal(features.llm_tokens, original["llm_prompt_speech_token"][0].numpy())
    assert len(features.flow_tokens) == 87  # 13 more complete its block
    assert np.array_equal(features.mel, original["prompt_speech_feat"][0].numpy())
    assert np.array_equal(features.embedding, original["flow_embedding"][0].numpy())


@pytest.mark.parametrize("kind", ["cosyvoice2", "cosyvoice3"])
def test_there_and_back(tokenizer: Tokenizer, tmp_path: Path, kind: Kind) -> None:
    draw = np.random.default_rng(0)
    features = trimmed(
        draw.integers(0, 6561, 100).astype(np.int32),
        draw.standard_normal((200, 80)).astype(np.float32),
        draw.standard_normal(192).astype(np.float32),
    )
    assert len(features.flow_tokens) == 90
    info = VoiceInfo(
        name="a", kind=kind, text=TEXT, language="zh", created="2026-01-01", duration_s=4.0
    )
    path = tmp_path / "spk2info.pt"
    write_spk2info(path, [Voice(info=info, features=features)], tokenizer=tokenizer)
    [voice] = read_spk2info(path, kind=kind, tokenizer=tokenizer).voices
    assert voice.info.model_copy(update={"created": info.created}) == info
    assert same(voice, Voice(info=info, features=features))
    written = torch.load(path, weights_only=True)["a"]
    like = entry(tokenizer, count=100)
    assert written.keys() == like.keys()
    for key, value in like.items():
        assert written[key].dtype == value.dtype, key
        assert written[key].dim() == value.dim(), key
    assert written["prompt_speech_feat"].shape == (1, 180, 80)
    assert written["prompt_speech_feat_len"].tolist() == [180]
    [mark] = tokenizer.encode("<|endofprompt|>")
    assert (mark in written["prompt_text"]) == (kind == "cosyvoice3")


def test_entries_that_are_no_voices(tokenizer: Tokenizer, tmp_path: Path) -> None:
    good = entry(tokenizer)
    bad: dict[Any, Any] = {
        "my voice": good,
        7.5: good,
        "sft": {"embedding": good["llm_embedding"]},
        "list": [1, 2],
        "number": {**good, "prompt_text": 3},
        "silent": {**good, "prompt_text": good["prompt_text"][:, :0]},
        "mel": {**good, "prompt_speech_feat": torch.zeros(1, 174, 100)},
        "flat": {**good, "prompt_speech_feat": torch.zeros(174)},
        "speaker": {**good, "flow_embedding": torch.zeros(1, 512)},
        "short": entry(tokenizer, count=20),
        "good": good,
    }
    made = read_spk2info(saved(tmp_path, bad), kind="cosyvoice2", tokenizer=tokenizer)
    assert [voice.info.name for voice in made.voices] == ["good"]
    assert made.refused.keys() == {str(name) for name in bad} - {"good"}
    assert "has no prompt_text" in made.refused["sft"]
    assert "no text" in made.refused["silent"]
    assert "a second" in made.refused["short"]
    assert "not of CosyVoice" in made.refused["mel"]
    assert "letters" in made.refused["my voice"]


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, (os.environ["EVIL"],)


@pytest.mark.parametrize("content", ["missing", "text", "list", "evil"])
def test_files_that_are_none(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setenv("EVIL", str(tmp_path / "evil"))
    path = tmp_path / "spk2info.pt"
    if content == "text":
        path.write_text("no voices")
    elif content != "missing":
        saved(tmp_path, [1] if content == "list" else {"a": Evil()})
    with pytest.raises(BadRequest, match="not a spk2info"):
        read_spk2info(path, kind="cosyvoice2", tokenizer=tokenizer)
    assert not (tmp_path / "evil").exists()


def test_a_file_that_cannot_be_written(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match="cannot be written"):
        write_spk2info(tmp_path / "no" / "spk2info.pt", [], tokenizer=tokenizer)
