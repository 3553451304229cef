"""Every engine gets at least one thread, and what the process may use decides how many."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline import budget
from pipeline.budget import ThreadBudget, available_cores
from pipeline.cgroup import cpu_quota, memory_left
from pipeline.config import Config, load_config
from pipeline.config_schema import Threads
from pipeline.needs import local_model, needed_models


@pytest.mark.parametrize(
    ("cores", "shares"),
    [(1, (1, 1, 1)), (2, (1, 2, 1)), (3, (1, 2, 1)), (4, (1, 2, 2)), (16, (4, 8, 8))],
)
def test_shares(cores: int, shares: tuple[int, int, int]) -> None:
    chosen = ThreadBudget.from_cores(cores)
    assert (chosen.asr, chosen.tts, chosen.llm) == shares
    assert (chosen.cores, chosen.warnings) == (cores, ())


def test_overrides_replace_shares() -> None:
    chosen = ThreadBudget.from_cores(4, {"asr": 3, "tts": None})
    assert (chosen.asr, chosen.tts, chosen.llm, chosen.warnings) == (3, 2, 2, ())


@pytest.mark.parametrize(("cores", "words"), [(1, "on 1 core:"), (2, "on 2 cores:")])
def test_more_threads_than_cores_are_warned_of(cores: int, words: str) -> None:
    chosen = ThreadBudget.from_cores(cores, {"llm": 3, "tts": cores})
    assert chosen.llm == 3
    [warning] = chosen.warnings
    assert warning.startswith(f"threads.llm is 3 {words}")


def test_the_configuration_decides() -> None:
    assert ThreadBudget.of(Threads(asr=2, tts="auto", llm="auto"), 8) == ThreadBudget(
        cores=8, asr=2, tts=4, llm=4
    )
    assert ThreadBudget.of(Threads()).cores == available_cores()


@pytest.mark.parametrize(
    ("quota", "affinity", "cores"),
    [(None, 4, 4), (2.0, 4, 2), (2.7, 4, 2), (0.5, 4, 1), (8.0, 2, 2)],
)
def test_cores_are_those_of_affinity_and_quota(
    quota: float | None, affinity: int, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "cpu_quota", lambda: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(affinity)))
    assert available_cores() == cores


def groups(tmp_path: Path, own: str, files: dict[str, str]) -> tuple[Path, Path]:
    """A fake mount of control groups, and the file that names the process's own."""
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "own").write_text(own)
    return tmp_path / "root", tmp_path / "own"


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/\n", {}, None),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "150000 0\n"}, None),
        ("0::/\n", {"cpu.max": "nonsense\n"}, None),
        ("1:cpu:/x\n0::/a/b\n", {"cpu.max": "max 1", "a/cpu.max": "2 1", "a/b/cpu.max": "3 1"}, 2),
        ("1:cpu:/x\n", {"x/cpu.max": "1 1"}, None),
    ],
)
def test_the_tightest_quota_counts(
    tmp_path: Path, own: str, files: dict[str, str], quota: float | None
) -> None:
    assert cpu_quota(*groups(tmp_path, own, files)) == quota


def test_no_control_groups_no_quota(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path / "none", tmp_path / "gone") is None
    assert memory_left(tmp_path / "none", tmp_path / "gone") is None


def test_memory_until_the_tightest_limit(tmp_path: Path) -> None:
    files = {
        "memory.max": "1000",
        "memory.current": "100",
        "a/memory.max": "500",
        "a/memory.current": "600",
        "a/b/memory.max": "max",
        "a/b/memory.current": "7",
    }
    assert memory_left(*groups(tmp_path, "0::/a/b", files)) == 0
    assert memory_left(*groups(tmp_path, "0::/", files)) == 900


@pytest.mark.parametrize(
    ("overrides", "cores", "names"),
    [
        ([], 2, ("whisper-base", "kokoro", "qwen2.5-coder-0.5b")),
        ([], 4, ("whisper-base", "kokoro", "qwen2.5-coder-1.5b")),
        (["llm.local.model=0.5b"], 4, ("whisper-base", "kokoro", "qwen2.5-coder-0.5b")),
        (["llm.base_url=http://h"], 4, ("whisper-base", "kokoro")),
        (["asr.provider=scripted", "tts.provider=scripted", "llm.provider=scripted"], 4, ()),
    ],
)
def test_models_that_are_needed(overrides: list[str], cores: int, names: tuple[str, ...]) -> None:
    assert needed_models(load_config(None, overrides, environ={}), cores) == names


def test_this_machine_decides_by_its_own_cores() -> None:
    assert local_model(Config()) == local_model(Config(), available_cores())
