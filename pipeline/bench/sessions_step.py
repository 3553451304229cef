"""One step of `bench sessions`: so many conversations at once, and what they cost the server."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pipeline.bench.rig import Server
from pipeline.bench.sessions_load import LoadPlan, LoadResult, result_of
from pipeline.talk.daemon import RUN
from tts_engine.errors import EngineFailed

#: late frames from which on a server has fallen behind
MOST_LATE = 0.01
#: conversations that one process holds without being late itself
_PER_PROCESS = 100
#: from a word to its processes to the first connection, seconds
_AHEAD_S = 0.3
#: how long they may take to say what came of it, seconds
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsStep:
    """What so many conversations came to.

    Parameters:
        n: conversations at once.
        cpu_core: share of one core that the server used, its children left out.
        late_rate: share of audio frames that came more than 20 ms after they were due.
        dry_rate: share that came after the client had played out all it had.
        answered_rate: turns whose answer came whole, and nothing else, before the next turn.
        v2v_ms, v2v_p95_ms: from the end of the speech to the first frame of the answer; median and
            95th percentile.
        memory_mb: of the server, while all of them lived.
        behind_ms: the most that the clients were behind with their own sending.
        failures: conversations that were refused or broke off.
    """

    n: int
    cpu_core: float
    late_rate: float
    dry_rate: float
    answered_rate: float
    v2v_ms: float
    v2v_p95_ms: float
    memory_mb: float
    behind_ms: float
    failures: int

    @property
    def real_time(self) -> bool:
        """The server kept up: every turn was answered, and under 1 % of frames were late."""
        return self.late_rate < MOST_LATE and self.answered_rate == 1.0 and not self.failures

    def to_json(self) -> dict[str, Any]:
        """As `bench sessions --json` shows it."""
        shown = {name: round(value, 4) for name, value in asdict(self).items()}
        return {**shown, "real_time": self.real_time}


def measure(server: Server, plan: LoadPlan, *, cores: Sequence[int]) -> SessionsStep:
    """Holds `plan.total` conversations and measures the server meanwhile.

    Args:
        server: what is measured.
        plan: for all of them; `numbers` and `cores` are set here.
        cores: what the clients may run on; empty: any.

    Raises:
        EngineFailed: a process of the clients failed.
    """
    count = 1 + (plan.total - 1) // _PER_PROCESS
    with ExitStack() as stack:
        loads = [
            stack.enter_context(
                _process(replace(plan, numbers=list(range(first, plan.total, count))), cores)
            )
            for first in range(count)
        ]
        for load in loads:
            _line(load)  # it has started, and can begin at once
        began = time.monotonic() + _AHEAD_S
        for load in loads:
            _tell(load, str(began))
        start, end = plan.window_s
        time.sleep(max(0.0, began + start - time.monotonic()))
        at, cpu_s = time.monotonic(), server.cpu_s
        time.sleep(max(0.0, began + end - time.monotonic()))
        cpu = (server.cpu_s - cpu_s) / (time.monotonic() - at)
        memory_mb = server.memory_mb
        result = LoadResult.merged([result_of(_line(load)) for load in loads])
    return _step(plan.total, result, cpu=cpu, memory_mb=memory_mb)


def _step(n: int, result: LoadResult, *, cpu: float, memory_mb: float) -> SessionsStep:
    frames = max(result.frames, 1)
    times = sorted(result.v2v_ms)
    return SessionsStep(
        n=n,
        cpu_core=cpu,
        late_rate=result.late / frames,
        dry_rate=result.dry / frames,
        answered_rate=result.answered / max(result.asked, 1),
        v2v_ms=times[len(times) // 2] if times else 0.0,
        v2v_p95_ms=float(np.percentile(times, 95)) if times else 0.0,
        memory_mb=memory_mb,
        behind_ms=result.behind_ms,
        failures=len(result.failures),
    )


@contextmanager
def _process(plan: LoadPlan, cores: Sequence[int]) -> Iterator[subprocess.Popen[str]]:
    """A process of clients; it does not outlive the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "pipeline.bench.sessions_load"],
        cwd=RUN.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            _tell(process, json.dumps(asdict(replace(plan, cores=list(cores)))))
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    except BrokenPipeError as error:
        raise _failed() from error


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise _failed()
    return line


def _failed() -> EngineFailed:
    return EngineFailed("The clients of the bench failed", mend="See above what they said")
