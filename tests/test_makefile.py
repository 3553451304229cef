"""`make` asks the network only when a lock has changed, and never takes away the test packages."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

_PYTHON = """#!/bin/sh
case "$*" in
  "-m pip config get global.index-url") echo "$PIP_SAYS"; [ -n "$PIP_SAYS" ];;
  "-m pip config get global.cert") exit 1;;
  *'"torch"'*) [ -n "$HAS_TORCH" ];;
  *) echo "python $*" >>log;;
esac
"""
_UV = """#!/bin/sh
echo "uv $1 $2 index=$UV_DEFAULT_INDEX" >>log
"""


_OFFLINE_PYTHON = """#!/bin/sh
case "$*" in
  -c*) echo 3.12;;
  "-m venv "*) mkdir -p .venv/bin && cp "$0" .venv/bin/python;;
  *) echo "WARNING: Retrying" >&2; echo "ERROR: No matching distribution found" >&2; exit 1;;
esac
"""
NO_NETWORK = "fix:   the first start needs the network, or an index named by PIP_INDEX_URL"


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


class Checkout:
    """A copy of the Makefile and the locks; what it would run is written to a log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(ROOT / "Makefile", folder)
        self.locks = folder / "configs/locks"
        self.locks.mkdir(parents=True)
        (self.locks / "default.txt").write_text("a==1\n")
        (self.locks / "engines.txt").write_text("a==1\nc==1\n")
        (self.locks / "test.txt").write_text("a==1\nc==1\nt==1\n")

    def environment(self) -> None:
        """Puts a virtual environment there that only writes the log."""
        script(self.folder / ".venv/bin/python", _PYTHON)
        script(self.folder / ".venv/bin/uv", _UV)

    def make(self, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
        quiet = {"XDG_CONFIG_HOME": str(self.folder / "none"), "HAS_TORCH": "yes"}
        return subprocess.run(
            ["make", *args],
            cwd=self.folder,
            env=kept | quiet | environ,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def log(self, *args: str, **environ: str) -> list[str]:
        """What a successful make ran."""
        log = self.folder / "log"
        log.write_text("")
        done = self.make(*args, **environ)
        assert done.returncode == 0, done.stderr
        return log.read_text().splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.fixture
def ready(checkout: Checkout) -> Checkout:
    checkout.environment()
    return checkout


def test_the_second_time_nothing_is_installed(ready: Checkout) -> None:
    assert ready.log("run") == ["uv pip install index=", "python run.py serve"]
    assert ready.log("run", "ARGS=--set a.b=c") == ["python run.py serve --set a.b=c"]


def test_a_lock_that_is_only_touched_installs_nothing(ready: Checkout) -> None:
    ready.log("docs")
    os.utime(ready.locks / "default.txt", (4e9, 4e9))
    assert ready.log("docs") == ["python run.py config docs"]


def test_a_lock_that_has_changed_is_installed(ready: Checkout) -> None:
    ready.log("docs")
    (ready.locks / "default.txt").write_text("a==2\n")
    os.utime(ready.locks / "default.txt", (4e9, 4e9))
    assert ready.log("docs") == ["uv pip install index=", "python run.py config docs"]


def test_run_after_test_leaves_the_test_packages(ready: Checkout) -> None:
    assert ready.log("types") == ["uv pip install index=", "python -m pyright"]
    assert ready.log("run") == ["python run.py serve"]
    assert ready.log("types") == ["python -m pyright"]


def test_the_sets_hold_each_other(ready: Checkout) -> None:
    assert ready.log("engines") == ["uv pip install index="]
    assert ready.log("run") == ["python run.py serve"]
    assert ready.log("types") == ["uv pip install index=", "python -m pyright"]
    assert ready.log("engines") == []


def test_torch_is_installed_where_there_is_none(ready: Checkout) -> None:
    torch = "python -m pip install --quiet --disable-pip-version-check torch==2.13.0"
    for verb in ("engines", "types"):
        assert ready.log(verb, HAS_TORCH="")[:2] == [torch, "uv pip install index="]
    assert ready.log("run", HAS_TORCH="") == ["python run.py serve"]


def test_the_tests_are_covered_unless_a_part_is_asked_for(ready: Checkout) -> None:
    fetch = "python run.py models fetch whisper-base kokoro qwen2.5-coder-0.5b"
    assert ready.log("test")[1:] == [
        fetch,
        "python -m coverage erase",
        "python -m coverage run -m pytest -n 2 --dist loadfile -m not alone",
        "python -m coverage run -m pytest -m alone",
        "python -m coverage combine --quiet",
        "python -m coverage report --fail-under=90",
    ]
    part = ready.log("test", "ARGS=tests/asr -x")
    assert part == [fetch, "python -m pytest tests/asr -x"]


def test_the_bench_has_a_daemon_of_its_own(ready: Checkout) -> None:
    assert ready.log("bench", "ARGS=--json")[1:] == [
        "python run.py bench v2v --peer pipecat --json"
    ]


@pytest.mark.parametrize(
    ("environ", "index"),
    [
        ({}, ""),
        ({"PIP_SAYS": "https://pip.example/simple"}, "https://pip.example/simple"),
        ({"PIP_INDEX_URL": "https://env.example"}, "https://env.example"),
        (
            {"UV_DEFAULT_INDEX": "https://uv.example", "PIP_INDEX_URL": "https://env.example"},
            "https://uv.example",
        ),
    ],
)
def test_an_index_set_for_pip_is_passed_on(
    ready: Checkout, environ: dict[str, str], index: str
) -> None:
    assert ready.log("docs", **environ)[0] == f"uv pip install index={index}"


def test_an_index_of_uv_itself_is_left_alone(ready: Checkout) -> None:
    (ready.folder / "none/uv").mkdir(parents=True)
    (ready.folder / "none/uv/uv.toml").write_text("")
    assert ready.log("docs", PIP_SAYS="https://pip.example")[0] == "uv pip install index="


def test_a_python_that_does_not_fit_is_named(checkout: Checkout) -> None:
    python = script(checkout.folder / "python3.13", "#!/bin/sh\necho 3.13\n")
    done = checkout.make("run", f"PYTHON={python}")
    assert done.returncode == 2
    assert "needs Python 3.11 or 3.12" in done.stderr
    assert f"found: {python} is 3.13;" in done.stderr


def test_no_python_at_all(checkout: Checkout) -> None:
    done = checkout.make("run", "PYTHON=/no/such/python")
    assert done.returncode == 2
    assert "found: no Python at all at /no/such/python" in done.stderr


def test_a_python_that_cannot_make_environments(checkout: Checkout) -> None:
    python = script(
        checkout.folder / "python3.12", '#!/bin/sh\n[ "$1" = -c ] && echo 3.12 || exit 1\n'
    )
    done = checkout.make("run", f"PYTHON={python}")
    assert done.returncode == 2
    assert "apt install python3.12-venv" in done.stderr
    assert not (checkout.folder / ".venv").exists()


def test_a_first_start_without_a_network_says_what_it_needs(checkout: Checkout) -> None:
    python = script(checkout.folder / "python3.12", _OFFLINE_PYTHON)
    done = checkout.make("run", f"PYTHON={python}")
    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert said == ["error: pip cannot install uv: No matching distribution found", NO_NETWORK]


@pytest.mark.parametrize("verb", ["run", "types"])
def test_packages_that_cannot_be_had(ready: Checkout, verb: str) -> None:
    script(ready.folder / ".venv/bin/uv", "#!/bin/sh\necho 'error: no route' >&2; exit 2\n")
    done = ready.make(verb)
    assert done.returncode == 2
    assert done.stderr.splitlines()[:2] == ["error: no route", NO_NETWORK]
    assert not list((ready.folder / ".venv").glob(".set-*"))


def test_packages_are_installed_quietly(ready: Checkout) -> None:
    uv = '#!/bin/sh\necho "$*" >>log\n'
    script(ready.folder / ".venv/bin/uv", uv)
    for verb in ("run", "types"):
        assert " --quiet " in ready.log(verb)[0]


@pytest.mark.parametrize("verb", ["run", "bench"])
def test_ctrl_c_is_no_error_of_make(ready: Checkout, verb: str) -> None:
    script(ready.folder / ".venv/bin/python", '#!/bin/sh\necho "$DUPLEXD_UNDER_MAKE" >>log\n')
    assert ready.log(verb)[-1:] == ["1"]
    assert ready.log("docs") == [""]


def test_help_is_what_make_does_by_itself(checkout: Checkout) -> None:
    verbs = [line.split()[0] for line in checkout.make().stdout.splitlines() if line[:1].isalpha()]
    assert {"run", "test", "bench", "lint", "types", "docs", "clean", "lock"} <= {*verbs}
