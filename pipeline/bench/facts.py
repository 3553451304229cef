"""Where and when something was measured: no figure is worth anything without."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from datetime import date
from pathlib import Path

from pipeline.version import version

_CPUS = Path("/proc/cpuinfo")


def facts() -> dict[str, str]:
    """Date, machine and command by name, for reports and --json."""
    return {
        "date": date.today().isoformat(),
        "machine": f"{len(os.sched_getaffinity(0))} cores, {_processor()}",
        "python": platform.python_version(),
        "duplexd": version(),
        "command": " ".join(["run.py", *map(shlex.quote, sys.argv[1:])]),
    }


def _processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        lines = _CPUS.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
