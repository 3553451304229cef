"""Loading: what a directory may be, and what is said of one that cannot be used."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
import yaml

from services.asr.funasr.loader import load
from services.asr.funasr.make_random import Kind
from services.asr.funasr.second_pass import SecondPass
from tests.asr.funasr.conftest import Sound
from tts_engine.errors import ConfigError, DuplexdError, EngineFailed, ModelCorrupt, ModelMissing


@pytest.fixture
def mine(tiny_dir: Callable[[Kind], Path], tmp_path: Path) -> Path:
    """A copy of a tiny SenseVoice, to be changed."""
    return Path(shutil.copytree(tiny_dir("sensevoice"), tmp_path / "model"))


def test_a_model_gives_the_same_text_for_the_same_audio(
    tiny_dir: Callable[[Kind], Path], sound: Sound
) -> None:
    # The published configuration of this model asks for dither.
    config = yaml.safe_load((tiny_dir("sensevoice") / "config.yaml").read_text())
    assert "dither" not in config["frontend_conf"]
    recogniser = SecondPass(load(tiny_dir("sensevoice")))

    first, second = recogniser.transcribe([sound(32_000), sound(32_000)])

    assert first == second
    assert first.text


def test_a_model_loads_without_a_description_of_its_files(mine: Path, sound: Sound) -> None:
    described = SecondPass(load(mine)).transcribe([sound(16_000)])
    (mine / "configuration.json").unlink()

    assert SecondPass(load(mine)).transcribe([sound(16_000)]) == described


def test_a_model_without_the_norm_of_its_features_is_refused(mine: Path) -> None:
    (mine / "am.mvn").unlink()
    with pytest.raises(ModelMissing, match=r"am\.mvn"):
        load(mine)
    (mine / "configuration.json").unlink()
    with pytest.raises(ModelMissing, match=r"am\.mvn"):
        load(mine)


def test_weights_may_lie_under_the_names_that_training_gave_them(mine: Path, sound: Sound) -> None:
    expected = SecondPass(load(mine)).transcribe([sound(16_000)])
    state = torch.load(mine / "model.pt")
    _save(mine, {"state_dict": {f"module.{name}": value for name, value in state.items()}})

    assert SecondPass(load(mine)).transcribe([sound(16_000)]) == expected


def test_weights_may_be_in_the_old_form_of_a_checkpoint(mine: Path, sound: Sound) -> None:
    expected = SecondPass(load(mine)).transcribe([sound(16_000)])
    state = torch.load(mine / "model.pt")
    torch.save(state, mine / "model.pt", _use_new_zipfile_serialization=False)

    assert SecondPass(load(mine)).transcribe([sound(16_000)]) == expected


def test_a_scope_maps_the_names_of_weights(mine: Path, sound: Sound) -> None:
    expected = SecondPass(load(mine)).transcribe([sound(16_000)])
    state = torch.load(mine / "model.pt")
    _save(mine, {name.replace("encoder.", "audio."): value for name, value in state.items()})
    _change(mine, lambda config: config.update(scope_map=["audio.", "encoder."]))
    assert SecondPass(load(mine)).transcribe([sound(16_000)]) == expected

    _change(mine, lambda config: config.update(scope_map="audio.,encoder."))
    assert SecondPass(load(mine)).transcribe([sound(16_000)]) == expected


def test_weights_that_a_model_says_it_can_do_without_may_be_missing(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[frozenset[str]] = []
    kind = type(load(mine).network)
    # As Fun-ASR-Nano has it, whose head for timestamps is not in every checkpoint.
    monkeypatch.setattr(
        kind, "on_pretrained_model_loaded", lambda _, keys: found.append(keys), raising=False
    )
    state = torch.load(mine / "model.pt")
    del state["ctc.ctc_lo.bias"]
    _save(mine, state)
    load(mine)

    assert found == [frozenset(state)]
    _without_a_weight(mine)
    with pytest.raises(ModelCorrupt, match="1 weights missing \\(encoder"):
        load(mine)


def test_loading_changes_nothing_about_the_process(tiny_dir: Callable[[Kind], Path]) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    load(tiny_dir("sensevoice"))

    assert torch.rand(1) == expected
    assert torch.get_num_threads() == 1


def _save(model: Path, state: Any) -> None:
    torch.save(state, model / "model.pt")


def _change(model: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = yaml.safe_load((model / "config.yaml").read_text(encoding="utf-8"))
    change(config)
    (model / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")


def _without_a_weight(model: Path) -> None:
    state = torch.load(model / "model.pt")
    del state["encoder.after_norm.weight"]
    _save(model, state)


def _with_a_wrong_shape(model: Path) -> None:
    state = torch.load(model / "model.pt")
    state["encoder.after_norm.weight"] = torch.zeros(3)
    _save(model, state)


@pytest.mark.parametrize(
    ("damage", "failure", "message"),
    [
        (shutil.rmtree, ModelMissing, "there is no directory"),
        (lambda model: (model / "model.pt").unlink(), ModelMissing, "has no model.pt"),
        (lambda model: (model / "config.yaml").unlink(), ModelMissing, "has no config.yaml"),
        (lambda model: (model / "config.yaml").write_text("a: ["), ModelCorrupt, "cannot be read"),
        (
            lambda model: (model / "config.yaml").write_bytes(b"\xff\xfe\x00"),
            ModelCorrupt,
            "cannot be read",
        ),
        (lambda model: (model / "config.yaml").write_text("[]"), ModelCorrupt, "names no model"),
        (
            lambda model: _change(model, lambda config: config.update(model="Kws")),
            ModelCorrupt,
            "is a Kws, which is not used here",
        ),
        (
            lambda model: _change(model, lambda config: config.update(encoder="Conformer")),
            ModelCorrupt,
            "names 'Conformer'",
        ),
        (
            lambda model: _change(
                model, lambda config: config["encoder_conf"].update(attention_heads=5)
            ),
            ModelCorrupt,
            "cannot build the model",
        ),
        (lambda model: (model / "bpe.model").unlink(), ModelCorrupt, "cannot build the model"),
        (lambda model: (model / "model.pt").write_bytes(b"no"), ModelCorrupt, "is no checkpoint"),
        (lambda model: _save(model, [1]), ModelCorrupt, "something other than weights"),
        (_without_a_weight, ModelCorrupt, "1 weights missing \\(encoder.after_norm.weight\\)"),
        (_with_a_wrong_shape, ModelCorrupt, "1 weights of another shape"),
    ],
)
def test_what_is_wrong_with_a_directory_is_told(
    mine: Path, damage: Callable[[Path], object], failure: type[DuplexdError], message: str
) -> None:
    damage(mine)

    with pytest.raises(failure, match=message):
        load(mine)


@pytest.mark.parametrize(
    ("where", "failure", "message"),
    [
        ({"device": "tpu9"}, ConfigError, "no device called 'tpu9'"),
        ({"device": "cuda:99"}, EngineFailed, "cuda:99 is not on this machine"),
        ({"dtype": "fp8"}, ConfigError, "no dtype 'fp8'"),
        ({"dtype": "fp16"}, ConfigError, "fp16 needs a GPU"),
    ],
)
def test_a_device_that_cannot_be_is_told(
    tiny_dir: Callable[[Kind], Path],
    where: dict[str, str],
    failure: type[DuplexdError],
    message: str,
) -> None:
    with pytest.raises(failure, match=message):
        load(tiny_dir("sensevoice"), **where)


def test_too_little_memory_of_a_gpu_is_told(
    tiny_dir: Callable[[Kind], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2 << 20, 9 << 30))

    with pytest.raises(EngineFailed, match="cuda has 2 free"):
        load(tiny_dir("sensevoice"), device="cuda", dtype="fp16")


def test_too_little_memory_is_told(
    tiny_dir: Callable[[Kind], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1 << 20))

    with pytest.raises(EngineFailed, match="this machine has 1 free"):
        load(tiny_dir("sensevoice"))
