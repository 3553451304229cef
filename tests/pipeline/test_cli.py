"""Exit codes: 0 done, 1 failed, 2 usage, 130 Ctrl-C; a failure is a line and what mends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from pipeline import cli, version
from pipeline.commands.config_docs import reference
from pipeline.commands.options import overrides
from pipeline.config import Config, load_config
from tests.pipeline.conftest import Run
from tts_engine.errors import AtCapacity, BadRequest, ConfigError, DuplexdError

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "run.py"


pytestmark = pytest.mark.usefixtures("plain_environment")


def serving(monkeypatch: pytest.MonkeyPatch, run: Callable[[Config], None]) -> None:
    """Puts a function in place of the daemon."""
    module = types.ModuleType("pipeline.commands.serve")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pipeline.commands.serve", module)
    monkeypatch.setattr("pipeline.commands.serve", module, raising=False)


# --- help and usage -------------------------------------------------------------------------


def test_help_lists_every_command(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    for name in ("serve", *cli.MODULES):
        assert name in out
    assert "Example: run.py talk --say" in out


@pytest.mark.parametrize("group", ["models", "config"])
def test_every_group_has_help_with_an_example(run: Run, group: str) -> None:
    code, out, _ = run(group, "--help")
    assert code == 0
    assert f"Example: run.py {group} " in out


@pytest.mark.parametrize(
    "args",
    [[], ["serve"], ["talk"], ["models"], ["models", "fetch"], ["doctor"], ["config", "show"]],
)
def test_a_flag_has_no_type_in_the_help(run: Run, args: list[str]) -> None:
    code, out, _ = run(*args, "--help")
    assert code == 0
    assert "Show this message" in out
    assert "bool" not in out


@pytest.mark.parametrize(
    "command",
    [
        ["serve"],
        ["tts"],
        ["doctor"],
        ["config", "show"],
        ["config", "docs"],
        ["talk"],
        ["models", "fetch"],
    ],
)
def test_every_command_has_help_with_an_example(run: Run, command: list[str]) -> None:
    code, out, _ = run(*command, "--help")
    assert code == 0
    assert f"Example: run.py {' '.join(command)}" in " ".join(out.split())


def test_version_is_that_of_the_project(run: Run) -> None:
    code, out, _ = run("--version")
    assert (code, out) == (0, f"duplexd {version.version()}\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["srve"], "Did you mean 'serve'?"),
        (["serve", "--nonsense"], "No such option"),
        (["config"], "show"),
        (["models", "fetch", "nonsense"], "nonsense"),
    ],
)
def test_wrong_usage(run: Run, args: list[str], said: str) -> None:
    code, out, err = run(*args)
    assert code == 2
    assert said in out + err


def test_a_command_module_is_imported_when_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("fake_command")
    module.app = typer.Typer()  # type: ignore[attr-defined]

    @module.app.command()
    def hello(name: str) -> None:
        typer.echo(f"hello {name}")

    monkeypatch.setitem(sys.modules, "fake_command", module)
    monkeypatch.setitem(cli.MODULES, "talk", ("fake_command", "Say hello."))
    result = CliRunner().invoke(cli.app, ["talk", "you"])
    assert (result.exit_code, result.output) == (0, "hello you\n")


def test_a_placeholder_says_that_it_is_one() -> None:
    with pytest.raises(AssertionError, match="not loaded"):
        cli._placeholder()


# --- failures -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (DuplexdError("it broke", mend="Glue it"), 1),
        (AtCapacity("it broke", mend="Glue it"), 1),
        (ConfigError("it broke", mend="Glue it"), 2),
        (BadRequest("it broke", mend="Glue it"), 2),
    ],
)
def test_a_failure_is_a_line_and_what_mends_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, failure: DuplexdError, code: int
) -> None:
    def fail(_: Config) -> None:
        raise failure

    serving(monkeypatch, fail)
    assert run("serve") == (code, "", "error: it broke\nfix:   Glue it\n")


def test_a_failure_that_nothing_mends_is_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Config) -> None:
        raise DuplexdError("it broke [at /x]")

    serving(monkeypatch, fail)
    assert run("serve") == (1, "", "error: it broke [at /x]\n")


@pytest.mark.parametrize("debug", [["--debug", "serve"], ["serve"]])
def test_debug_shows_where_it_failed(debug: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Config) -> None:
        raise DuplexdError("it broke")

    serving(monkeypatch, fail)
    if "--debug" not in debug:
        monkeypatch.setenv(cli.DEBUG, "1")
    with pytest.raises(DuplexdError, match="it broke"):
        cli.main(debug)
    assert os.environ[cli.DEBUG] == "1"


def test_ctrl_c_is_no_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Config) -> None:
        raise KeyboardInterrupt

    serving(monkeypatch, interrupt)
    assert run("serve") == (130, "", "")


@pytest.mark.parametrize(
    ("failure", "code"),
    [(KeyboardInterrupt(), 0), (DuplexdError("it broke"), 1), (ConfigError("it broke"), 2)],
)
def test_under_make_ctrl_c_is_no_error(
    run: Run, monkeypatch: pytest.MonkeyPatch, failure: BaseException, code: int
) -> None:
    def fail(_: Config) -> None:
        raise failure

    serving(monkeypatch, fail)
    monkeypatch.setenv(cli.UNDER_MAKE, "1")
    assert run("serve")[0] == code


# --- options --------------------------------------------------------------------------------


def test_serve_gets_the_configuration_of_the_options(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Config] = []
    serving(monkeypatch, seen.append)
    file = tmp_path / "my.yaml"
    file.write_text("tts: {speed: 1.5}\nserver: {port: 1}\n")
    args = ["--config", str(file), "--set", "server.port=2", "--set", "vad.threshold=0.4"]
    assert run("serve", *args, "--llm", "local") == (0, "", "")
    [config] = seen
    assert (config.tts.speed, config.server.port, config.vad.threshold) == (1.5, 2, 0.4)
    assert config.llm.provider == "local"


@pytest.mark.parametrize(
    ("options", "made"),
    [
        ({}, []),
        ({"sets": ["a.b=1"], "asr": "x"}, ["asr.provider=x", "a.b=1"]),
        ({"llm": "x", "tts": "y"}, ["llm.provider=x", "tts.provider=y"]),
        (
            {"engines": "scripted:llm=150@50,tts=150", "tts": "kokoro"},
            [
                'scripted.spec="llm=150@50,tts=150"',
                "llm.provider=scripted",
                "tts.provider=scripted",
                "tts.provider=kokoro",
            ],
        ),
        (
            {"engines": "scripted:asr=60"},
            ['scripted.spec="asr=60"', "asr.provider=scripted", "vad.provider=energy"],
        ),
    ],
)
def test_short_options_are_overrides(options: dict[str, Any], made: list[str]) -> None:
    assert overrides(**options) == made


def test_instant_engines_are_all_scripted() -> None:
    config = load_config(None, overrides(engines="scripted:instant"), environ={})
    providers = (config.asr.provider, config.llm.provider, config.tts.provider)
    assert providers == ("scripted",) * 3
    assert config.vad.provider == "energy"


@pytest.mark.parametrize("engines", ["nonsense", "scripted:x=1", 'scripted:asr="1"'])
def test_engines_that_are_no_spec(run: Run, engines: str) -> None:
    code, _, err = run("serve", "--engines", engines)
    assert code == 2
    assert "scripted engines" in err


# --- config ---------------------------------------------------------------------------------


def test_config_show_masks_secrets(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:secret@h/v1")
    code, out, _ = run("config", "show", "--json", "--set", "tts.speed=1.1")
    assert code == 0
    assert "secret" not in out
    values = json.loads(out)
    assert values["tts"]["speed"] == 1.1
    assert values["llm"]["api_key"] == "**********"
    assert values["llm"]["base_url"] == "http://h/v1"


def test_config_show_is_yaml_that_loads_again(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("config", "show")
    assert code == 0
    assert yaml.safe_load(out)["scripted"]["transcripts"] == ["今天天气怎么样？"]
    file = tmp_path / "again.yaml"
    file.write_text(out, encoding="utf-8")
    assert load_config(file, environ={}) == Config()


def test_the_reference_is_current() -> None:
    committed = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    assert committed == reference(), "run `make docs`"


def test_config_docs_writes_the_reference(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert run("config", "docs", "-o", str(page)) == (0, "", "")
    assert page.read_text(encoding="utf-8") == reference()
    code, _, err = run("config", "docs", "-o", str(tmp_path))
    assert code == 1
    assert "cannot be written: Is a directory" in err


def test_the_reference_shows_bounds_choices_and_defaults() -> None:
    rows = {
        line.split("|")[1].strip(" `"): line for line in reference().splitlines() if "|" in line
    }
    assert "whole number, from 0 to 65535 | `8080`" in rows["server.port"]
    assert "number, above 0 below 1 | `0.5`" in rows["vad.threshold"]
    assert "`auto` or whole number, from 1 to 256 | `auto`" in rows["threads.asr"]
    assert "text or null | `null`" in rows["llm.api_key"]
    assert "list of `zh`, `en` | `[zh, en]`" in rows["asr.languages"]
    assert "path | `prompts/zh.md`" in rows["prompts.zh"]
    assert "抱歉" in rows["messages.llm_failed.zh"]


# --- doctor ---------------------------------------------------------------------------------


def doctor_options(tmp_path: Path) -> list[str]:
    return ["--set", f"models.dir={tmp_path}", "--set", "server.port=0"]


def test_doctor_passes_without_models_when_none_are_needed(run: Run, tmp_path: Path) -> None:
    options = [*doctor_options(tmp_path), "--engines", "scripted:instant"]
    code, out, _ = run("doctor", *options)
    assert code == 0
    assert "ok   llm" in out
    assert "fail" not in out


def test_doctor_fails_when_models_may_not_be_fetched(run: Run, tmp_path: Path) -> None:
    options = [*doctor_options(tmp_path), "--set", "models.offline=true", "--llm", "scripted"]
    code, out, _ = run("doctor", *options, "--json")
    report = json.loads(out)
    assert (code, report["ok"]) == (1, False)
    failed = [check for check in report["checks"] if check["status"] == "fail"]
    assert [check["name"] for check in failed] == ["model whisper-base", "model kokoro"]
    command = f"`run.py models fetch whisper-base --models-dir {tmp_path}`"
    assert f"Set models.offline to false and run {command}, or copy" in failed[0]["fix"]
    code, out, _ = run("doctor", *options)
    assert code == 1
    assert f"run `run.py models fetch kokoro --models-dir {tmp_path}`, or copy" in out


def test_doctor_says_nothing_of_what_a_wrong_configuration_decides(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "notaurl")
    code, out, _ = run("doctor")
    assert code == 1
    lines = [line.split() for line in out.splitlines()]
    assert [line[:2] for line in lines if line[0] != "fix:"] == [
        ["fail", "config"],
        ["ok", "python"],
        ["ok", "cores"],
        ["ok", "codecs"],
        ["ok", "gpu"],
        ["skip", "others"],
    ]
    assert "fix: Write it as http://host:port/v1." in out


# --- run.py, in processes of its own --------------------------------------------------------


def start(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUN), *args],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        cwd="/",
        env=os.environ | environ,
        check=False,
    )


def test_run_py_works_from_anywhere() -> None:
    done = start("config", "show", "--json", OPENAI_API_KEY="")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["server"]["port"] == 8080


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from pipeline.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'pydantic', 'yaml', 'numpy', 'httpx', 'openai', 'pipecat', 'loguru'}"
        " & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "[]\n")


def test_ctrl_c_leaves_no_traceback(tmp_path: Path) -> None:
    program = (
        "import sys, types, time\n"
        "serve = types.ModuleType('pipeline.commands.serve')\n"
        "def run(config):\n"
        "    print('running', flush=True)\n"
        "    time.sleep(60)\n"
        "serve.run = run\n"
        "import pipeline.commands\n"
        "pipeline.commands.serve = sys.modules['pipeline.commands.serve'] = serve\n"
        "from pipeline.cli import main; main(['serve'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "running\n"
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=30)
    assert (child.returncode, err) == (130, "")


@pytest.fixture
def bare_checkout(tmp_path: Path) -> Path:
    """run.py alone, and no packages in sight."""
    (tmp_path / "run.py").write_text(RUN.read_text())
    return tmp_path


def start_bare(checkout: Path, *args: str) -> subprocess.CompletedProcess[str]:
    # -S: without site-packages
    return subprocess.run(
        [sys.executable, "-S", str(checkout / "run.py"), *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )


def test_a_python_without_the_packages_is_told_what_to_do(bare_checkout: Path) -> None:
    done = start_bare(bare_checkout, "serve")
    assert done.returncode == 1
    assert "has not the packages of duplexd" in done.stderr
    assert "fix:   run `make run` first" in done.stderr


def test_a_python_without_the_packages_goes_on_in_the_environment(bare_checkout: Path) -> None:
    python = bare_checkout / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nshift\necho "in .venv: $*"\n')
    python.chmod(0o755)
    done = start_bare(bare_checkout, "serve", "--set", "a.b=c d")
    assert (done.returncode, done.stdout) == (0, "in .venv: serve --set a.b=c d\n")
