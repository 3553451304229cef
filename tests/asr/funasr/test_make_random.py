"""Model directories with random weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from services.asr.funasr.loader import load
from services.asr.funasr.make_random import KINDS, Kind, make_random
from services.asr.funasr.random_files import SENSEVOICE_PIECES, TAGS, write_pieces, write_tokens
from tts_engine.errors import BadRequest


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_made_and_loaded(kind: Kind, tmp_path: Path) -> None:
    make_random(kind, "tiny", tmp_path / "model")

    model = load(tmp_path / "model")
    assert sum(weight.numel() for weight in model.network.parameters()) > 1000
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


def test_the_same_seed_gives_the_same_weights(
    tiny_dir: Callable[[Kind], Path], tmp_path: Path
) -> None:
    make_random("sensevoice", "tiny", tmp_path / "same")
    make_random("sensevoice", "tiny", tmp_path / "other", seed=1)

    made, same, other = (
        torch.load(place / "model.pt")
        for place in (tiny_dir("sensevoice"), tmp_path / "same", tmp_path / "other")
    )
    assert all(torch.equal(made[name], same[name]) for name in made)
    assert not all(torch.equal(made[name], other[name]) for name in made)


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")

    with pytest.raises(BadRequest, match="is not empty"):
        make_random("fsmn-vad", "tiny", tmp_path)

    assert (tmp_path / "mine").read_text() == "precious"


def test_what_could_not_be_made_is_not_left_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space"):
        make_random("fsmn-vad", "tiny", tmp_path / "model")

    assert list(tmp_path.iterdir()) == []


def test_the_vocabularies_are_as_long_as_the_published_ones(tmp_path: Path) -> None:
    from sentencepiece import SentencePieceProcessor

    write_pieces(tmp_path, full=True)
    write_tokens(tmp_path, count=8404)

    pieces = SentencePieceProcessor(model_file=str(tmp_path / "bpe.model"))
    assert pieces.GetPieceSize() == SENSEVOICE_PIECES
    assert {place: pieces.IdToPiece(place) for place in TAGS} == TAGS
    tokens = json.loads((tmp_path / "tokens.json").read_text(encoding="utf-8"))
    assert (len(tokens), tokens[0], tokens[-1]) == (8404, "<blank>", "<unk>")
    assert len(set(tokens)) == 8404
