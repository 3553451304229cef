"""The worker's parts are put together for the device, and have spoken once before anybody asks."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tts_engine.cosyvoice import assembly
from tts_engine.cosyvoice.assembly import Model, assemble, warm_up
from tts_engine.cosyvoice.kind import Kind
from tts_engine.cosyvoice.make_random import configuration
from tts_engine.cosyvoice.wire import Settings
from tts_engine.errors import ConfigError, EngineFailed


@pytest.fixture(scope="module")
def model(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("voices")
    return assemble(Settings(model_dir=str(model_dir), voices_dir=str(folder), steps=2))


def test_what_is_left_open_is_chosen(model: Model) -> None:
    assert model.kind == "cosyvoice2"
    assert (model.limits.requests, model.limits.flow_rows) == (8, 1)
    assert 1 < model.limits.live_s < 1e6  # half of the memory that is free
    assert model.parts.fatal == (torch.AcceleratorError,)
    assert model.parts.decoder.steps >= 45  # it has spoken
    assert model.parts.decoder.cache_bytes == 0


@pytest.mark.parametrize(
    ("kind", "given", "gpu", "chosen"),
    [
        ("cosyvoice2", ("auto", "auto"), True, ("cuda", "fp16")),
        ("cosyvoice3", ("auto", "auto"), True, ("cuda", "bf16")),
        ("cosyvoice3", ("auto", "auto"), False, ("cpu", "fp32")),
        ("cosyvoice2", ("cuda:1", "bf16"), True, ("cuda:1", "bf16")),
        ("cosyvoice3", ("cuda", "fp16"), True, ("cuda", "fp16")),
    ],
)
def test_device_and_precision(
    monkeypatch: pytest.MonkeyPatch,
    kind: Kind,
    given: tuple[str, str],
    gpu: bool,
    chosen: tuple[str, str],
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    device, dtype = given
    settings = Settings(model_dir="", voices_dir="", device=device, dtype=dtype)
    assert assembly._where(settings, kind) == chosen


def test_every_number_of_rows_is_warmed(model: Model) -> None:
    sizes: list[int] = []
    step = model.parts.decoder.step

    class Watched:
        def step(self, streams: list[Any]) -> Any:
            sizes.append(len(streams))
            return step(streams)

        def __getattr__(self, name: str) -> Any:
            return getattr(model.parts.decoder, name)

    parts = dataclasses.replace(model.parts, decoder=Watched())  # type: ignore[arg-type]
    warm_up(parts, model.limits, rows=(1, 3))
    assert {1, 3} <= set(sizes)


def test_what_does_not_run_once_does_not_start(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model.parts.vocoder, "open", lambda: 1 / 0)
    with pytest.raises(EngineFailed, match="division by zero"):
        warm_up(model.parts, model.limits, rows=(1,))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"tensorrt": "block"}, "needs a GPU"),
        ({"live_s": 1e9}, "too little memory"),
        ({"cuda_graphs": True}, "CUDA graphs need a GPU"),
        ({"quantize": "int4"}, "torchao|need bf16"),
        ({"device": "cuda:7", "dtype": "fp32"}, "not on this machine"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_loaded(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Any, why: str
) -> None:
    monkeypatch.setattr(assembly, "load", lambda *_, **__: pytest.fail("it was loaded"))
    settings = Settings(model_dir=str(model_dir), voices_dir=str(tmp_path), **options)
    with pytest.raises((ConfigError, EngineFailed), match=why):
        assemble(settings)


def test_cosyvoice3_in_half_precision_is_refused_with_tensorrt(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "load", lambda *_, **__: pytest.fail("it was loaded"))
    third = Path(shutil.copytree(model_dir, tmp_path / "model"))
    (third / "cosyvoice2.yaml").unlink()
    (third / "cosyvoice3.yaml").write_text(configuration("cosyvoice3", "tiny"), encoding="utf-8")
    (third / "speech_tokenizer_v2.onnx").rename(third / "speech_tokenizer_v3.onnx")
    settings = Settings(
        model_dir=str(third),
        voices_dir=str(tmp_path / "voices"),
        device="cuda",
        dtype="fp16",
        tensorrt="estimator",
    )
    with pytest.raises(ConfigError, match="only NaN") as refusal:
        assemble(settings)
    assert "tts.cosyvoice." in refusal.value.mend
