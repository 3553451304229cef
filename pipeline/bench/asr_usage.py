"""Processor time and memory of a process and of what it has started."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress

import psutil


def cpu_s(pid: int | None = None, *, but: Collection[int] = ()) -> float:
    """Processor time of a process and its children that live, seconds.

    Args:
        pid: None is this process; one that has died uses nothing.
        but: children that do not count.
    """
    used = 0.0
    for each in _family(pid, but):
        with suppress(psutil.NoSuchProcess):
            if each.pid == os.getpid():
                used += time.process_time()  # finer than what the system tells of others
            else:
                times = each.cpu_times()
                used += times.user + times.system
    return used


def memory_mb(pid: int | None = None, *, but: Collection[int] = ()) -> float:
    """Memory that they hold (RSS), megabytes; the arguments are those of `cpu_s`."""
    held = 0
    for each in _family(pid, but):
        with suppress(psutil.NoSuchProcess):
            held += each.memory_info().rss
    return held / 1e6


def _family(pid: int | None, but: Collection[int]) -> Iterator[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        yield first
        yield from (each for each in first.children(recursive=True) if each.pid not in but)
