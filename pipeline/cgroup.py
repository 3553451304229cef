"""Limits that a control group (version 2) puts on this process: containers, systemd units."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def cpu_quota(root: Path = _ROOT, own: Path = _OWN) -> float | None:
    """The tightest CPU quota around this process, in cores; None without one.

    Args:
        root: where control groups are mounted.
        own: the file that names the process's group.
    """
    quotas: list[float] = []
    for folder in _groups(root, own):
        fields = _read(folder / "cpu.max").split()
        if len(fields) == 2 and all(field.isdigit() for field in fields) and int(fields[1]):
            quotas.append(int(fields[0]) / int(fields[1]))
    return min(quotas, default=None)


def memory_left(root: Path = _ROOT, own: Path = _OWN) -> int | None:
    """Bytes until the tightest memory limit around this process; None without one."""
    left: list[int] = []
    for folder in _groups(root, own):
        limit, used = _read(folder / "memory.max"), _read(folder / "memory.current")
        if limit.isdigit() and used.isdigit():
            left.append(max(0, int(limit) - int(used)))
    return min(left, default=None)


def _groups(root: Path, own: Path) -> Iterator[Path]:
    """The folders of the process's group and of every group around it."""
    group = PurePosixPath("/")
    for line in _read(own).splitlines():
        if line.startswith("0::/"):
            group = PurePosixPath(line.removeprefix("0::"))
    for each in (group, *group.parents):
        yield root / each.relative_to("/")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
