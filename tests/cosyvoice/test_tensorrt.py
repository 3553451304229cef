"""Engines are built as TensorRT is to build them, once, and built again when they are damaged."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cosyvoice.fake_tensorrt import FakeTensorRT
from tts_engine.cosyvoice.tensorrt import BuildProgress, open_engine
from tts_engine.cosyvoice.tensorrt_plan import ESTIMATOR, Plan, block_plan, estimator_plan
from tts_engine.errors import EngineFailed, ModelCorrupt


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeTensorRT:
    return FakeTensorRT().install(monkeypatch)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / ESTIMATOR).write_bytes(b"onnx of the estimator")
    return estimator_plan(tmp_path, "fp16")


def opened(plan: Plan, folder: Path, told: list[float] | None = None) -> Any:
    def progress(_: str, done: float) -> None:
        if told is not None:
            told.append(done)

    return open_engine(plan, gpu="NVIDIA L20", folder=folder / "engines", progress=progress)[1]


def kept(folder: Path) -> Path:
    (engine,) = (folder / "engines").glob("*.engine")
    return engine


def test_the_estimator_is_built_with_its_profile_and_its_flag(
    fake: FakeTensorRT, plan: Plan, tmp_path: Path
) -> None:
    assert opened(plan, tmp_path) is not None
    assert fake.calls("create_network") == [[0]]
    assert fake.calls("set_flag") == [["FP16"]]
    assert fake.calls("clear_flag") == []
    assert fake.calls("set_memory_pool_limit") == [["WORKSPACE", 4 << 30]]
    shapes = {name: rest for name, *rest in fake.calls("set_shape")}
    assert shapes["cond"] == [(2, 80, 4), (2, 80, 500), (2, 80, 3000)]
    assert len(shapes) == 4
    assert len(fake.calls("add_optimization_profile")) == 1


def test_single_precision_is_single_precision(
    fake: FakeTensorRT, plan: Plan, tmp_path: Path
) -> None:
    opened(estimator_plan(plan.onnx.parent, "fp32"), tmp_path)
    assert fake.calls("clear_flag") == [["TF32"]]
    assert fake.calls("set_flag") == []


def test_the_block_keeps_to_the_types_and_shapes_of_its_file(
    fake: FakeTensorRT, plan: Plan, tmp_path: Path
) -> None:
    opened(block_plan(plan.onnx, "fp16"), tmp_path)
    assert fake.calls("create_network") == [[2]]  # strongly typed
    assert [name for name, *_ in fake.asked] == ["create_network", "set_memory_pool_limit"]


def test_an_engine_is_built_once(fake: FakeTensorRT, plan: Plan, tmp_path: Path) -> None:
    opened(plan, tmp_path)
    opened(plan, tmp_path)
    assert fake.built == 1
    plan.onnx.write_bytes(b"onnx of another estimator")
    opened(plan, tmp_path)
    assert fake.built == 2


@pytest.mark.parametrize("damage", [b"", b"duplexd engine 1 and no more", None])
def test_a_damaged_engine_is_built_again(
    fake: FakeTensorRT, plan: Plan, tmp_path: Path, damage: bytes | None
) -> None:
    opened(plan, tmp_path)
    path = kept(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"?" if damage is None else damage)
    assert opened(plan, tmp_path) is not None
    assert fake.built == 2
    assert path.read_bytes() == whole


def test_an_engine_that_tensorrt_does_not_read_is_built_again(
    fake: FakeTensorRT, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(plan, tmp_path)
    monkeypatch.setattr("tests.cosyvoice.fake_tensorrt.PLAN", b"new plan of ")
    assert opened(plan, tmp_path) is not None
    assert fake.built == 2


def test_progress_is_one_number(fake: FakeTensorRT, plan: Plan, tmp_path: Path) -> None:
    fake.phases = [
        ("phase_start", "Building", None, 2),
        ("phase_start", "Tactics", "Building", 4),
        ("step_complete", "Tactics", 0),
        ("step_complete", "Tactics", 3),
        ("phase_finish", "Tactics"),
        ("step_complete", "Building", 0),
        ("step_complete", "Unknown", 0),
        ("step_complete", "Building", 1),
        ("phase_finish", "Building"),
        ("phase_finish", "Building"),
    ]
    told: list[float] = []
    opened(plan, tmp_path, told)
    assert told == [0.12, 0.5, 1.0]


def test_a_phase_whose_parent_is_over_tells_nothing() -> None:
    told: list[float] = []
    progress = BuildProgress("block", lambda _, done: told.append(done))
    progress.start("inner", "outer", 0)
    progress.step("inner", 0)
    assert told == [0.0]


def test_without_the_package_it_says_what_to_install(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(EngineFailed, match="cannot be imported") as refusal:
        opened(plan, tmp_path)
    assert "pip install" in refusal.value.mend


def test_a_version_that_does_not_fit_is_refused(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeTensorRT(version="8.6.1").install(monkeypatch)
    with pytest.raises(EngineFailed, match=r"TensorRT 8\.6\.1 does not fit"):
        opened(plan, tmp_path)


@pytest.mark.parametrize(("silent", "why"), [(False, "no Mish"), (True, "does not say why")])
def test_a_file_that_it_cannot_read_is_named(
    fake: FakeTensorRT, plan: Plan, tmp_path: Path, silent: bool, why: str
) -> None:
    fake.unread, fake.silent = ["no Mish"], silent
    with pytest.raises(ModelCorrupt, match=rf"estimator\.fp32\.onnx: .*{why}"):
        opened(plan, tmp_path)


def test_a_file_that_is_gone_is_named(fake: FakeTensorRT, plan: Plan, tmp_path: Path) -> None:
    plan.onnx.unlink()
    with pytest.raises(ModelCorrupt, match="No such file"):
        opened(plan, tmp_path)
    assert fake.built == 0


def test_what_cannot_be_built_leaves_nothing_behind(
    fake: FakeTensorRT, plan: Plan, tmp_path: Path
) -> None:
    fake.builds = False
    with pytest.raises(EngineFailed, match="could not build") as refusal:
        opened(plan, tmp_path)
    assert refusal.value.mend
    assert list((tmp_path / "engines").glob("*.engine")) == []


def test_what_was_built_and_cannot_be_read_is_an_error(
    fake: FakeTensorRT, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "_read", lambda _: None)
    fake.install(monkeypatch)
    with pytest.raises(EngineFailed, match="cannot read the engine"):
        opened(plan, tmp_path)


def test_a_folder_that_cannot_be_written_is_an_error(
    fake: FakeTensorRT, plan: Plan, tmp_path: Path
) -> None:
    (tmp_path / "engines").write_text("a file")
    with pytest.raises(EngineFailed, match="cannot be kept") as refusal:
        opened(plan, tmp_path)
    assert refusal.value.mend
