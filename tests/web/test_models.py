"""Invariants: those of the *.test.mjs beside this file, run by node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from services.web.assets import FOLDER

NODE = shutil.which("node")
TESTS = sorted(Path(__file__).parent.glob("*.test.mjs"))


def _major(node: str) -> int:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.strip().removeprefix("v").partition(".")[0])


@pytest.mark.skipif(NODE is None, reason="there is no node to run the page's modules with")
@pytest.mark.parametrize("tests", TESTS, ids=lambda path: path.name)
def test_the_pages_modules(tests: Path, tmp_path: Path):
    assert NODE is not None
    if _major(NODE) < 20:
        pytest.skip("this node has no test runner: 20 is the oldest that has")
    for file in (tests, *FOLDER.glob("*.js")):
        shutil.copy(file, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    command = [NODE, "--test", str(tmp_path / tests.name)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stdout + result.stderr
