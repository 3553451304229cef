"""`serve` fetches what is missing or corrupt, and nothing where the configuration forbids it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.commands import weights
from pipeline.config import load_config
from pipeline.store import MANIFEST
from services.models import ModelState, load_manifest


class FakeStore:
    """A store in which one model is missing and one corrupt; remembers what it fetched."""

    states = {  # noqa: RUF012 - never changed
        "whisper-base": ModelState.PRESENT,
        "kokoro": ModelState.MISSING,
        "qwen2.5-coder-0.5b": ModelState.CORRUPT,
    }

    def __init__(self) -> None:
        self.fetched: list[str] = []
        self.manifest = load_manifest(MANIFEST)

    def status(self, name: str) -> ModelState:
        return self.states[name]

    def fetch(self, name: str, progress: Callable[[str, int, int, str], None]) -> None:
        progress("file", 1, 2, "downloading")
        self.fetched.append(name)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> FakeStore:
    fake = FakeStore()
    monkeypatch.setattr("pipeline.store.open_store", lambda _: fake)
    return fake


@pytest.mark.parametrize(
    ("options", "fetched"),
    [
        ([], ["kokoro", "qwen2.5-coder-0.5b"]),
        (["llm.provider=scripted"], ["kokoro"]),
        (["models.offline=true"], []),
        (["models.auto_fetch=false"], []),
    ],
)
def test_missing_models_are_fetched_if_they_may_be(
    options: list[str], fetched: list[str], store: FakeStore, tmp_path: Path
) -> None:
    fixed = [f"models.dir={tmp_path}", "llm.local.model=0.5b"]
    weights.fetch_needed(load_config(None, [*fixed, *options], environ={}))
    assert store.fetched == fetched


def test_without_a_terminal_a_line_says_what_begins_and_one_what_is_done(
    store: FakeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_config(None, ["llm.local.model=0.5b"], environ={})
    said: list[str] = []
    weights.fetch_needed(config, say=said.append)
    assert said == [
        "fetching kokoro, 92 MB, model 1 of 2",
        "kokoro is here and verified (0 s)",
        "fetching qwen2.5-coder-0.5b, 491 MB, model 2 of 2",
        "qwen2.5-coder-0.5b is here and verified (0 s)",
    ]
    assert capsys.readouterr() == ("", "")
    weights.fetch_needed(config)
    assert capsys.readouterr().err.splitlines() == said


def test_only_the_models_that_are_named_are_fetched(store: FakeStore) -> None:
    config = load_config(None, environ={})
    weights.fetch_missing(config, ["kokoro"])
    weights.fetch_missing(config, ["whisper-base"])
    assert store.fetched == ["kokoro"]
