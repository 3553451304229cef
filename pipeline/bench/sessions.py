"""`bench sessions`: how many conversations one core holds in real time, and what each costs.

Every conversation speaks for 3 s and hears an answer of 4 s in every 9 s; all begin evenly spread
over one such cycle. The server is a process of its own, pinned to one core; the clients are
processes on the other cores, with every message of the microphone made beforehand, so that what is
measured is the server. The microphone is open all the time, the detector is the real one.

A frame of an answer is due when the pacing profile says so, counted from the answer's first frame:
those of the lead at once, then one every `frame_ms`. It is late when it comes more than 20 ms after
that. A step is in real time when under 1 % of its frames are late and every turn is answered in
full before the next. `max_real_time` is the largest such step below the first that is not; it is
looked for by doubling, then by halving the interval.

Memory is the server's RSS: `mb_per_session` is what it grows by while `MEMORY_SESSIONS` live, from
its first conversations on; `growth_mb` by how much it grows over 200 more that were closed, counted
from after those. `gc_pause_ms_max` is the longest pause of the garbage collector in all of it while
anybody talked, `gc_idle_ms_max` while nobody did, as the server tells in
`duplexd_gc_pause_seconds_max`; the peer does not tell. `alone` is the step of one conversation,
held longer; `beyond_alone_ms` how much later than there the first frame of an answer comes in the
largest step that was in real time, 95th percentiles.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
from prometheus_client.parser import text_string_to_metric_families

from pipeline.bench import rig
from pipeline.bench.analysis import rounded
from pipeline.bench.faces import Face, Name, no_peer
from pipeline.bench.progress import OnProgress
from pipeline.bench.rig import Server
from pipeline.bench.sessions_load import LoadPlan
from pipeline.bench.sessions_search import Steps
from pipeline.bench.sessions_step import SessionsStep, measure
from pipeline.bench.sessions_talk import Talk, spoken_talk
from tts_engine.errors import BadRequest

if TYPE_CHECKING:
    from pipeline.config import Config

#: conversations that live at once while memory is measured
MEMORY_SESSIONS = 40
#: conversations that are closed while growth is measured
CLOSED_SESSIONS = 200
#: the daemon collects closed conversations soon after
_SETTLED_S = 2.5
#: cycles of a single conversation for each of the others': its 95th percentile needs some turns
_ALONE_CYCLES = 3
GC_PAUSE = "duplexd_gc_pause_seconds_max"


@dataclass(slots=True, kw_only=True)
class SessionsResult:
    """What `bench sessions` found out.

    Parameters:
        steps: by their number of conversations.
        alone: a single one.
        mb_per_session, growth_mb, gc_pause_ms_max, gc_idle_ms_max: see the module; None: not
            measured, or not told.
        peer: the same of the stock pipecat pipeline.
    """

    steps: list[SessionsStep] = field(default_factory=list[SessionsStep])
    alone: SessionsStep | None = None
    mb_per_session: float | None = None
    growth_mb: float | None = None
    gc_pause_ms_max: float | None = None
    gc_idle_ms_max: float | None = None
    peer: SessionsResult | None = None

    @property
    def max_real_time(self) -> int:
        """The largest step that was in real time, below the first that was not."""
        return self._best.n if self._best else 0

    @property
    def beyond_alone_ms(self) -> float | None:
        """How much later the first frame comes in that step than in a conversation alone."""
        if self._best is None or self.alone is None:
            return None
        return self._best.v2v_p95_ms - self.alone.v2v_p95_ms

    @property
    def _best(self) -> SessionsStep | None:
        held = [*itertools.takewhile(lambda step: step.real_time, self.steps)]
        return held[-1] if held else None

    def to_json(self) -> dict[str, Any]:
        """The one object that --json prints."""
        shown: dict[str, Any] = {
            "steps": [step.to_json() for step in self.steps],
            "max_real_time": self.max_real_time,
            "alone": self.alone.to_json() if self.alone else None,
            "beyond_alone_ms": rounded(self.beyond_alone_ms),
            "mb_per_session": rounded(self.mb_per_session, 2),
            "growth_mb": rounded(self.growth_mb, 2),
            "gc_pause_ms_max": rounded(self.gc_pause_ms_max, 2),
            "gc_idle_ms_max": rounded(self.gc_idle_ms_max, 2),
        }
        return {**shown, "peer": self.peer.to_json()} if self.peer else shown


def run_sessions(
    config: Config,
    *,
    options: Sequence[str] = ("--engines", "scripted:instant"),
    face: Name = "realtime",
    frame_ms: int = 60,
    counts: Sequence[int] | None = None,
    start: int = 10,
    most: int = 160,
    core: int | None = None,
    peer: bool = False,
    memory: bool = True,
    quick: bool = False,
    talk: Talk | None = None,
    log: Path | None = None,
    on_progress: OnProgress = lambda share, words: None,
) -> SessionsResult:
    """Runs the bench.

    Args:
        config: names the folder of the embedded voice, which speaks.
        options: of `run.py serve`.
        face: by which protocol the daemon is asked; devices listen while they play.
        frame_ms: length of audio messages, both ways; devices are always sent 60 ms.
        counts: the steps; None: they are searched for, from `start` up to `most`.
        core: what the server runs on; None: the last core of this machine, if it has another one.
        peer: measures the stock pipecat pipeline as well, afterwards.
        memory: measures memory too.
        quick: one cycle a step, and a tenth of the closed conversations.
        talk: what every conversation does; None: 3 s of speech and 4 s of an answer in 9 s.
        log: the servers' log.
        on_progress: told what goes on.

    Raises:
        BadRequest: there is no such core, the frame does not divide a cycle, or the peer does not
            speak the protocol.
        DuplexdError: a server does not start, or the clients fail.
    """
    if peer:
        no_peer(face)
    spoken_to = Face(name=face, frame_ms=frame_ms)
    talk = talk or spoken_talk(config)
    if round(talk.cycle_s * 1000) % frame_ms:
        raise BadRequest(
            f"Frames of {frame_ms} ms do not fill {talk.cycle_s:g} s", mend="Take 20 or 60"
        )
    with tempfile.TemporaryDirectory() as folder:
        bench = _Bench(
            folder=Path(folder),
            talk=talk,
            face=spoken_to,
            lead_ms=spoken_to.lead_ms(config),
            cores=_cores(core),
            options=options,
            log=log,
            cycles=1 if quick else 2,
        )
        steps = Steps(counts=counts, start=start, most=most)
        closed = CLOSED_SESSIONS // 10 if quick else CLOSED_SESSIONS
        progress = _Progress(on_progress, 0.0, 0.6 if peer else 1.0)
        result = bench.ours(steps, closed=closed if memory else 0, progress=progress)
        if peer:
            progress = _Progress(on_progress, 0.6, 1.0)
            result.peer = bench.peer(steps, progress=progress)
    return result


@dataclass(frozen=True, slots=True)
class _Progress:
    """A stretch of the whole bench."""

    tell: OnProgress
    first: float
    last: float

    def __call__(self, share: float, words: str) -> None:
        self.tell(self.first + share * (self.last - self.first), words)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """What the servers of a bench have in common.

    Parameters:
        folder: for the clients' files.
        talk: what each conversation does.
        face: by which protocol our daemon is asked.
        lead_ms: how far our daemon's sending runs ahead of playing.
        cores: the server's, then the clients'; both may be empty.
        cycles: measured cycles of a step.
    """

    folder: Path
    talk: Talk
    face: Face
    lead_ms: int
    cores: tuple[tuple[int, ...], tuple[int, ...]]
    options: Sequence[str]
    log: Path | None
    cycles: int

    def ours(self, steps: Steps, *, closed: int, progress: _Progress) -> SessionsResult:
        """Our daemon."""
        sets = {
            **self.talk.sets,
            **self.face.sets,
            "realtime.frame_ms": str(self.face.frame_ms),
            "server.max_sessions": "10000",
        }
        with self._server(rig.daemon, sets) as server:
            path = self.face.path("{client}")
            plan = self._plan(server, path=path, dialect=self.face.name, lead_ms=self.lead_ms)
            result = self._measured(server, plan, steps, closed=closed, progress=progress)
            pauses = _gc_pauses_ms(server)
            result.gc_pause_ms_max = pauses.get("talk")
            result.gc_idle_ms_max = pauses.get("idle")
        return result

    def peer(self, steps: Steps, *, progress: _Progress) -> SessionsResult:
        """The stock pipecat pipeline, which sends without a lead."""
        with self._server(rig.peer, self.talk.sets) as server:
            path = rig.path_of("timeout", frame_ms=self.face.frame_ms)
            plan = self._plan(server, path=path, dialect="peer", lead_ms=0.0)
            steps = replace(steps, start=max(1, steps.start // 4))
            return self._measured(server, plan, steps, closed=0, progress=progress)

    @contextmanager
    def _server(
        self, kind: Callable[..., AbstractContextManager[Server]], sets: dict[str, str]
    ) -> Iterator[Server]:
        cores = self.cores[0] or None
        with kind(self.options, sets=sets, cores=cores, log=self.log) as server:
            yield server

    def _plan(self, server: Server, *, path: str, dialect: Any, lead_ms: float) -> LoadPlan:
        file = self.folder / "cycle.pcm"
        file.write_bytes(self.talk.microphone())
        address = urlsplit(server.endpoint.base)
        return LoadPlan(
            host=address.hostname or "",
            port=address.port or 80,
            path=path,
            headers=[[name, value] for name, value in server.endpoint.headers.items()],
            dialect=dialect,
            lead_ms=lead_ms,
            cycle=str(file),
            frame_ms=self.face.frame_ms,
            speech_s=self.talk.speech_s,
            answer_s=self.talk.answer_s,
            cycles=1 + self.cycles,
            numbers=[],
            total=1,
            spread_s=self.talk.cycle_s,
            window_s=[self.talk.cycle_s, (1 + self.cycles) * self.talk.cycle_s],
        )

    def _measured(
        self, server: Server, plan: LoadPlan, steps: Steps, *, closed: int, progress: _Progress
    ) -> SessionsResult:
        result = SessionsResult()
        parts = steps.about + 2 + -(-closed // MEMORY_SESSIONS)
        done = 0

        def step(n: int, plan: LoadPlan) -> SessionsStep:
            nonlocal done
            progress(min(done / parts, 0.99), f"{n} conversations")
            done += 1
            return measure(server, replace(plan, total=n), cores=self.cores[1])

        cycle_s = self.talk.cycle_s
        brief = replace(plan, cycles=1, spread_s=cycle_s / 4, window_s=[cycle_s / 4, cycle_s])
        step(2, brief)  # what is made once per process
        cycles = _ALONE_CYCLES * self.cycles
        alone = replace(plan, cycles=1 + cycles, window_s=[cycle_s, (1 + cycles) * cycle_s])
        result.alone = step(1, alone)
        if closed:
            self._memory(server, result, brief, closed=closed, step=step)

        def holds(n: int) -> bool:
            result.steps.append(step(n, plan))
            return result.steps[-1].real_time

        for _ in steps.tried(holds):
            pass
        result.steps.sort(key=lambda each: each.n)
        return result

    def _memory(
        self,
        server: Server,
        result: SessionsResult,
        plan: LoadPlan,
        *,
        closed: int,
        step: Callable[[int, LoadPlan], SessionsStep],
    ) -> None:
        time.sleep(_SETTLED_S)
        empty_mb = server.memory_mb
        live = step(MEMORY_SESSIONS, plan)
        result.mb_per_session = (live.memory_mb - empty_mb) / MEMORY_SESSIONS
        time.sleep(_SETTLED_S)
        before_mb = server.memory_mb
        while closed > 0:
            step(min(closed, MEMORY_SESSIONS), plan)
            closed -= MEMORY_SESSIONS
        time.sleep(_SETTLED_S)
        result.growth_mb = server.memory_mb - before_mb


def _cores(core: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The server's cores, and the clients'.

    Raises:
        BadRequest: this machine does not have the core that is wanted.
    """
    all_cores = sorted(os.sched_getaffinity(0))
    if core is None:
        if len(all_cores) == 1:
            return (), ()
        core = all_cores[-1]
    if core not in all_cores:
        raise BadRequest(f"There is no core {core} here", mend=f"Choose one of {all_cores}")
    return (core,), tuple(each for each in all_cores if each != core)


def _gc_pauses_ms(server: Server) -> dict[str, float]:
    """The longest pauses so far, by when they were."""
    endpoint = server.endpoint
    with httpx.Client(trust_env=False, headers=endpoint.headers) as client:
        page = client.get(f"{endpoint.base}/metrics").text
    return {
        sample.labels["during"]: sample.value * 1000
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == GC_PAUSE
    }
