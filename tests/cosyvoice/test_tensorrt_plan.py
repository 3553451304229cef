"""What TensorRT is asked for, and what is refused, is decided without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts_engine.cosyvoice.kind import Kind
from tts_engine.cosyvoice.tensorrt_plan import (
    ESTIMATOR,
    ESTIMATOR_INPUTS,
    Mode,
    Plan,
    block_plan,
    check_fit,
    check_version,
    engine_name,
    estimator_plan,
)
from tts_engine.errors import ConfigError, EngineFailed, ModelMissing

SHA = "ab" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ESTIMATOR).write_bytes(b"onnx")
    return tmp_path


def check(mode: Mode, **other: str) -> None:
    kind: Kind = "cosyvoice3" if other.get("kind") == "cosyvoice3" else "cosyvoice2"
    check_fit(
        mode,
        kind=kind,
        device=other.get("device", "cuda"),
        dtype=other.get("dtype", "fp16"),
        cache=other.get("cache", "kv"),
    )


@pytest.mark.parametrize(
    ("mode", "other"),
    [
        ("off", {"device": "cpu", "kind": "cosyvoice3", "cache": "hidden"}),
        ("estimator", {}),
        ("estimator", {"device": "cuda:1", "cache": "hidden", "dtype": "bf16"}),
        ("estimator", {"kind": "cosyvoice3", "dtype": "fp32"}),
        ("block", {"dtype": "bf16"}),
    ],
)
def test_what_can_be(mode: Mode, other: dict[str, str]) -> None:
    check(mode, **other)


@pytest.mark.parametrize(
    ("mode", "other", "why"),
    [
        ("estimator", {"device": "cpu"}, "needs a GPU, and CosyVoice's device is cpu"),
        ("block", {"device": "cpu"}, "needs a GPU"),
        ("estimator", {"kind": "cosyvoice3"}, "NaN"),
        ("block", {"kind": "cosyvoice3", "dtype": "fp32"}, "this model is CosyVoice 3"),
        ("block", {"cache": "hidden"}, "cache is hidden"),
    ],
)
def test_what_cannot_be_is_refused_with_what_mends_it(
    mode: Mode, other: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigError, match=why) as refusal:
        check(mode, **other)
    assert "tts.cosyvoice." in refusal.value.mend


def test_the_estimators_engine_takes_any_length(folder: Path) -> None:
    plan = estimator_plan(folder, "fp16")
    assert plan.onnx == folder / ESTIMATOR
    assert plan.shapes["x"] == ((2, 80, 4), (2, 80, 500), (2, 80, 3000))
    assert plan.shapes["mask"] == ((2, 1, 4), (2, 1, 500), (2, 1, 3000))
    assert set(plan.shapes) < set(ESTIMATOR_INPUTS)  # t and spks have fixed shapes
    assert plan.flag == "FP16"
    assert estimator_plan(folder, "fp32").flag is None


def test_without_upstreams_file_it_says_which(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"flow\.decoder\.estimator\.fp32\.onnx"):
        estimator_plan(tmp_path, "fp16")


def test_the_blocks_types_and_shapes_are_those_of_its_file(tmp_path: Path) -> None:
    plan = block_plan(tmp_path / "block.onnx", "fp16")
    assert (plan.typed, plan.flag, plan.shapes) == (True, None, {})


@pytest.mark.parametrize(
    ("version", "precision", "typed"),
    [
        ("10.1.0", "fp16", False),
        ("10.16.1.11", "bf16", False),
        ("11.4.0.106", "fp32", False),
        ("11.4.0.106", "fp16", True),
    ],
)
def test_versions_that_fit(version: str, precision: str, typed: bool, folder: Path) -> None:
    check_version(version, Plan(name="x", onnx=folder, precision=precision, typed=typed))


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("8.6.1", "does not fit"),
        ("10.0.1", "does not fit"),
        ("12.0", "does not fit"),
        ("none", "does not fit"),
        ("11.4.0.106", "in no other precision"),
    ],
)
def test_versions_that_do_not(version: str, why: str, folder: Path) -> None:
    with pytest.raises(EngineFailed, match=why) as refusal:
        check_version(version, estimator_plan(folder, "fp16"))
    assert "pip install" in refusal.value.mend


def test_an_engines_name_tells_all_that_it_depends_on(folder: Path) -> None:
    plan, card = estimator_plan(folder, "fp16"), "NVIDIA GeForce RTX 4080 (Laptop)"
    name = engine_name(plan, gpu=card, version="10.13.2", onnx_sha256=SHA)
    assert name.startswith("estimator-nvidia-geforce-rtx-4080-laptop-trt10.13.2-fp16-")
    assert name.endswith(".engine")
    others = {
        engine_name(plan, gpu="NVIDIA L20", version="10.13.2", onnx_sha256=SHA),
        engine_name(plan, gpu=card, version="10.14.0", onnx_sha256=SHA),
        engine_name(plan, gpu=card, version="10.13.2", onnx_sha256="cd" * 32),
        engine_name(estimator_plan(folder, "fp32"), gpu=card, version="10.13.2", onnx_sha256=SHA),
        engine_name(block_plan(folder, "fp16"), gpu=card, version="10.13.2", onnx_sha256=SHA),
        engine_name(
            Plan(name="estimator", onnx=plan.onnx, precision="fp16", typed=False),
            gpu=card,
            version="10.13.2",
            onnx_sha256=SHA,
        ),
    }
    assert len(others | {name}) == 7


@given(st.text(), st.sampled_from(["fp32", "fp16"]))
def test_a_name_is_one_file_whatever_the_card_is_called(gpu: str, precision: str) -> None:
    plan = block_plan(Path("block.onnx"), precision)
    name = engine_name(plan, gpu=gpu, version="10.1.0", onnx_sha256=SHA)
    assert Path(name).name == name
    assert name.isascii()
