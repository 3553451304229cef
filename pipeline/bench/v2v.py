"""`bench v2v`: how long after the user the answer is heard, beside how often the user is cut off.

The daemon, and the stock pipecat pipeline where it is wanted, are processes of their own over
engines of the same delays. One client says the same speech to all of them, some utterances to one,
then to the next, and measures all by its own clock and recording; docs/benchmarks.md has the
definitions.
"""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.bench import rig
from pipeline.bench.analysis import (
    Measured,
    by_kind,
    own_summary,
    percentiles,
    ratios,
    rounded,
    summary,
)
from pipeline.bench.contest import Contestant, Outcome, Rules, contest
from pipeline.bench.faces import Face, Name, no_peer
from pipeline.bench.progress import OnProgress
from pipeline.bench.rig import Server
from pipeline.bench.speech import Clip
from pipeline.bench.texts import REPLIES
from services.scripted.spec import ScriptedSpec
from tts_engine.errors import BadRequest

#: delays of the scripted engines, unless others are asked for
ENGINES = "scripted:asr=60,llm=150@50,tts=150"
OWN = "duplexd"
#: variants of the peer, see `pipeline.bench.peer`
PEERS = ("default", "timeout")
#: floors and ceilings of a sweep, milliseconds
FLOORS, CEILINGS = (100, 200, 300, 400), (600, 1200, 2000)
#: silence from which on scripted engines are asked: three windows, as suits fast ones
_FINALISE_MS = 96
#: conversations at a time in a sweep: waits are what it compares
_SWEEP_CLIENTS = 4
#: how often the first utterance is said again, each time first in its conversation
_AGAIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class V2vPlan:
    """What is to be measured.

    Parameters:
        options: of `run.py serve`, for the daemon and the peer alike.
        spec: delays of scripted engines, as far as they are; None: all are real.
        clips: what is said, in this order.
        repeat: how often all of it is said.
        rules: how.
        speculation: the daemon makes answers before the turn is over.
        face: by which protocol the daemon is asked.
        peer: the stock pipecat pipeline is measured too.
        sweep: the daemon is measured with every pair of FLOORS and CEILINGS too.
        log: where the daemon's log goes; None discards it.
    """

    options: tuple[str, ...]
    spec: ScriptedSpec | None
    clips: tuple[Clip, ...]
    repeat: int = 1
    rules: Rules = field(default_factory=Rules)
    speculation: bool = True
    face: Name = "realtime"
    peer: bool = False
    sweep: bool = False
    log: Path | None = None

    def __post_init__(self) -> None:
        if not self.clips:
            raise BadRequest("There is nothing to say")
        if self.peer:
            no_peer(self.face)
        self.spoken_to()
        if self._recogniser_is_scripted and not all(clip.text for clip in self.clips):
            raise BadRequest(
                "A scripted recogniser has to be told what is said",
                mend="Write the text of NAME.wav into NAME.txt, or use real engines",
            )

    @property
    def _recogniser_is_scripted(self) -> bool:
        return self.spec is not None and self.spec.asr is not None

    @property
    def sets(self) -> dict[str, str]:
        """Keys of the configuration: the real detector for all, and what is said and answered."""
        keys = {"vad.provider": "silero", "turns.speculate": json.dumps(self.speculation)}
        keys |= self.spoken_to().sets
        if self.spec is not None:
            keys["turns.finalise_ms"] = str(_FINALISE_MS)
        if self.spec is not None and self.spec.llm is not None:
            keys["scripted.replies"] = json.dumps(REPLIES, ensure_ascii=False)
        if self.spec is not None and self.spec.tts is not None:
            keys["tts.speed"] = "2.0"  # the end of an answer measures nothing
        if self._recogniser_is_scripted:
            texts = [clip.text for clip in self.clips]
            keys |= {
                "scripted.marked": "true",
                "scripted.transcripts": json.dumps(texts, ensure_ascii=False),
            }
        return keys

    def spoken_to(self) -> Face:
        """How the daemon is reached. Devices wait until they are asked; they send Opus, unless
        marks are to be read in what they say.

        Raises:
            BadRequest: devices do not send such frames.
        """
        codec = "pcm" if self._recogniser_is_scripted else "opus"
        return Face(name=self.face, frame_ms=self.rules.frame_ms, mode="auto", codec=codec)

    def spoken(self) -> list[Clip]:
        """The clips as they are said."""
        clips = [*self.clips]
        if self._recogniser_is_scripted:
            clips = [clip.marked(number) for number, clip in enumerate(clips, start=1)]
        return clips * self.repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """What the daemon makes of one pair of waits."""

    floor_ms: int
    ceiling_ms: int
    v2v: Mapping[str, float | None]
    false_cutoff_rate: float
    missed_rate: float

    def to_json(self) -> dict[str, Any]:
        """The point as --json has it."""
        return {
            "floor_ms": self.floor_ms,
            "ceiling_ms": self.ceiling_ms,
            "v2v": dict(self.v2v),
            "false_cutoff_rate": self.false_cutoff_rate,
            "missed_rate": self.missed_rate,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTurn:
    """The first turn after the daemon's start, beside the same one later. Milliseconds.

    Parameters:
        v2v_ms: None: it was missed.
        again_ms: the median of the same utterance, first in its conversation too.
    """

    v2v_ms: float | None
    again_ms: float | None

    @classmethod
    def of(cls, first: Measured, again: Sequence[Measured]) -> FirstTurn:
        """Compares them."""
        known = [turn.v2v_ms for turn in again if turn.v2v_ms is not None]
        return cls(v2v_ms=first.v2v_ms, again_ms=statistics.median(known) if known else None)

    def to_json(self) -> dict[str, float | None]:
        """As --json has it; `excess_ms` is what the first one took longer."""
        excess = (
            None if self.v2v_ms is None or self.again_ms is None else self.v2v_ms - self.again_ms
        )
        return {
            "v2v_ms": rounded(self.v2v_ms),
            "again_ms": rounded(self.again_ms),
            "excess_ms": rounded(excess),
        }


@dataclass(slots=True, kw_only=True)
class V2vResult:
    """What `bench v2v` found out.

    Parameters:
        plan: what was measured.
        own: the daemon's turns.
        first: the first of them.
        peers: those of the peer, by variant.
        sweep: one point for each pair of waits.
    """

    plan: V2vPlan
    own: Outcome
    first: FirstTurn
    peers: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    sweep: list[SweepPoint] = field(default_factory=list[SweepPoint])

    def to_json(self) -> dict[str, Any]:
        """The one object that --json prints."""
        plan = self.plan
        own = own_summary(self.own.turns, spec=plan.spec, speculation=plan.speculation)
        peers = {name: summary(outcome.turns) for name, outcome in self.peers.items()}
        outcomes = {OWN: self.own, **self.peers}
        return {
            "face": plan.face,
            **own,
            "first_turn": self.first.to_json(),
            "peer": peers,
            "ratio_p50": ratios(own, peers),
            "by_kind": {name: by_kind(each.turns) for name, each in outcomes.items()},
            "client_late_ms": percentiles(
                late for each in outcomes.values() for late in each.client_late_ms
            ),
            **({"sweep": [point.to_json() for point in self.sweep]} if self.sweep else {}),
        }

    def turns_json(self) -> dict[str, Any]:
        """Every turn of every server."""
        outcomes = {OWN: self.own, **self.peers}
        return {name: [turn.to_json() for turn in each.turns] for name, each in outcomes.items()}


def run_v2v(plan: V2vPlan, *, on_progress: OnProgress = lambda share, words: None) -> V2vResult:
    """Runs the bench.

    Raises:
        DuplexdError: a server does not start, refuses, or hangs up.
    """
    clips = plan.spoken()
    pairs = _pairs() if plan.sweep else []
    count = len(clips) * (1 + len(PEERS) * plan.peer + len(pairs)) + _AGAIN
    steps = _Steps(count, on_progress)
    steps.say("starting the servers")
    with _contestants(plan) as contestants:
        outcomes = asyncio.run(contest(contestants, clips, plan.rules, advance=steps.turn))
        own = outcomes.pop(OWN)
        again = asyncio.run(_again(contestants[0], clips[0], plan.rules, steps))
    first = FirstTurn.of(own.turns[0], again)
    result = V2vResult(plan=plan, own=own, first=first, peers=outcomes)
    for floor_ms, ceiling_ms in pairs:
        result.sweep.append(_sweep_point(plan, clips, floor_ms, ceiling_ms, steps))
    return result


@contextmanager
def _contestants(plan: V2vPlan) -> Iterator[list[Contestant]]:
    """The servers, ready."""
    with ExitStack() as stack:
        own = stack.enter_context(rig.daemon(plan.options, sets=plan.sets, log=plan.log))
        contestants = [_own(plan, own, name=OWN)]
        if plan.peer:
            from pipeline.bench.peer_wire import PeerWire

            peer = stack.enter_context(rig.peer(plan.options, sets=plan.sets))
            contestants += [
                Contestant(
                    name=name,
                    endpoint=peer.at(rig.path_of(name, frame_ms=plan.rules.frame_ms)),
                    wire=PeerWire,
                )
                for name in PEERS
            ]
        yield contestants


def _own(plan: V2vPlan, server: Server, *, name: str, client: str = "bench") -> Contestant:
    face = plan.spoken_to()
    return Contestant(name=name, endpoint=face.endpoint(server, client), wire=face.wire)


async def _again(own: Contestant, clip: Clip, rules: Rules, steps: _Steps) -> list[Measured]:
    """The first utterance as the first of further conversations."""
    turns: list[Measured] = []
    for _ in range(_AGAIN):
        outcomes = await contest([own], [clip], rules, advance=steps.turn)
        turns += outcomes[own.name].turns
    return turns


# --- the sweep --------------------------------------------------------------------------------
def _pairs() -> list[tuple[int, int]]:
    return [(floor, ceiling) for floor in FLOORS for ceiling in CEILINGS if floor <= ceiling]


def _sweep_point(
    plan: V2vPlan, clips: Sequence[Clip], floor_ms: int, ceiling_ms: int, steps: _Steps
) -> SweepPoint:
    waits = {"turns.floor_ms": str(floor_ms), "turns.ceiling_ms": str(ceiling_ms)}
    with rig.daemon(plan.options, sets={**plan.sets, **waits}) as server:
        name = f"{floor_ms}-{ceiling_ms} ms"
        clients = [
            _own(plan, server, name=name, client=f"bench-{at}") for at in range(_SWEEP_CLIENTS)
        ]
        turns = asyncio.run(_together(clients, clips, plan.rules, steps))
    found = summary(turns)
    return SweepPoint(
        floor_ms=floor_ms,
        ceiling_ms=ceiling_ms,
        v2v=found["v2v"],
        false_cutoff_rate=found["false_cutoff_rate"],
        missed_rate=found["missed_rate"],
    )


async def _together(
    clients: Sequence[Contestant], clips: Sequence[Clip], rules: Rules, steps: _Steps
) -> list[Measured]:
    """Some conversations at a time, each with its share of the clips."""
    shares = [clips[at :: len(clients)] for at in range(len(clients))]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(contest([client], share, rules, advance=steps.turn))
                for client, share in zip(clients, shares, strict=True)
                if share
            ]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [turn for task in tasks for each in task.result().values() for turn in each.turns]


class _Steps:
    """Counts utterances."""

    def __init__(self, total: int, on_progress: OnProgress) -> None:
        self._total = total
        self._done = 0
        self._tell = on_progress

    def say(self, words: str) -> None:
        """Tells what goes on."""
        self._tell(self._done / self._total, words)

    def turn(self, contestant: Contestant, turn: Measured) -> None:
        """An utterance is over."""
        self._done += 1
        what = "missed" if turn.v2v_ms is None else f"{turn.v2v_ms:.0f} ms"
        cut = ", cut off" if turn.cutoff else ""
        self.say(f"{self._done} of {self._total}  {contestant.name}: {what}{cut}")
