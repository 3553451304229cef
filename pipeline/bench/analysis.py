# pyright: strict
"""What a conversation's news and recording mean: pure functions, the same for every server.

Definitions, as docs/benchmarks.md has them:

- voice to voice: from the true end of an utterance to the first audible sample of the answer to a
  turn that was committed at or after it; both by the energy rule of `pipeline.latency`;
- false cutoff: the server committed a turn before the true end of the utterance;
- missed: no such answer was heard in time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline.bench.wire import News
from pipeline.latency import PARTS, TurnReport, first_sound
from pipeline.talk.stereo import RATE, Piece
from services.scripted.chat import split_tokens
from services.scripted.spec import AsrSpec, LlmSpec, ScriptedSpec, TtsSpec
from tts_engine.text.stream import ClauseStream

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """An utterance and what came of it. Times are milliseconds.

    Parameters:
        clip: name of what was said.
        kind: what it is a case of.
        v2v_ms: None: it was missed.
        cutoff: it was cut off at least once.
        heard: what was understood, turn by turn.
        answer: text of the answer, as far as it was sent.
        stamps: the server's, with the client's own at both ends; empty if it tells none.
        v2v_server_ms: the server's own account.
        underruns: times the answer's audio came too late.
    """

    clip: str
    kind: str
    v2v_ms: float | None
    cutoff: bool
    heard: tuple[str, ...] = ()
    answer: str = ""
    stamps: dict[str, float] = field(default_factory=dict[str, float])
    v2v_server_ms: float | None = None
    underruns: int = 0

    @property
    def parts_ms(self) -> dict[str, float]:
        """Milliseconds by part; they sum to v2v."""
        return TurnReport(turn=0, stamps=self.stamps).parts_ms

    @property
    def ready_at_gate(self) -> bool:
        """The answer's audio waited for the decision."""
        return self.stamps.get("chunk", math.inf) <= self.stamps.get("endpoint", -math.inf)

    def to_json(self) -> dict[str, Any]:
        """The turn as reports have it."""
        return {
            "clip": self.clip,
            "kind": self.kind,
            "v2v_ms": rounded(self.v2v_ms),
            "v2v_server_ms": rounded(self.v2v_server_ms),
            "cutoff": self.cutoff,
            "heard": [*self.heard],
            "answer": self.answer,
            "parts_ms": {part: round(ms, 1) for part, ms in self.parts_ms.items()},
            "underruns": self.underruns,
        }


# --- one utterance ----------------------------------------------------------------------------
def commits(news: Iterable[News], *, start: float) -> list[News]:
    """Turns with a text that were committed since `start`."""
    return [each for each in news if each.kind == "turn" and each.text and each.at >= start]


def answers_after(news: Sequence[News], *, end: float) -> list[str]:
    """Names of the answers to turns that were committed at or after `end`, the first one first.

    An answer belongs to the last turn before its first message.
    """
    result: list[str] = []
    committed = False
    seen: set[str] = set()
    for each in news:
        if each.kind == "turn" and each.text:
            committed = each.at >= end
        elif each.answer and each.answer not in seen and each.kind != "turn":
            seen.add(each.answer)
            if committed:
                result.append(each.answer)
    return result


def first_audible(pieces: Sequence[Piece]) -> int | None:
    """Position of the first audible sample of what was played."""
    if not pieces:
        return None
    start = pieces[0].start
    samples = np.zeros(pieces[-1].end - start, np.int16)
    for piece in pieces:
        samples[piece.start - start : piece.end - start] = piece.samples
    at = first_sound(samples, RATE)
    return None if at is None else start + at


def measured(
    news: Sequence[News],
    *,
    clip: str,
    kind: str,
    start: float,
    end: float,
    heard_at: Sequence[tuple[str, float]],
) -> Measured:
    """Puts an utterance's account together.

    Args:
        news: since the utterance began, up to when all of its answers were over.
        clip, kind: of what was said.
        start, end: of the utterance's sound, monotonic seconds.
        heard_at: answers by name with the monotonic time of their first audible sample.
    """
    turns = commits(news, start=start)
    after = answers_after(news, end=end)
    audible = {name: at for name, at in heard_at if name in after}
    answer = next((name for name in after if name in audible), None)
    cutoff = any(turn.at < end for turn in turns)
    understood = tuple(turn.text for turn in turns)
    if answer is None:
        return Measured(clip=clip, kind=kind, v2v_ms=None, cutoff=cutoff, heard=understood)
    reports = [each for each in news if each.kind == "report" and each.answer == answer]
    report: dict[str, Any] = reports[0].event["report"] if reports else {}
    stamps: dict[str, float] = dict(report.get("stamps", {}))
    if stamps:
        # A stamp taken just after a send may be later than the sound it let out.
        stamps = {name: min(at, audible[answer]) for name, at in stamps.items()}
        stamps |= {"voiced_end": end, "heard": audible[answer]}
    return Measured(
        clip=clip,
        kind=kind,
        v2v_ms=(audible[answer] - end) * 1e3,
        cutoff=cutoff,
        heard=understood,
        answer="".join(each.text for each in news if each.kind == "text" and each.answer == answer),
        stamps=stamps,
        v2v_server_ms=report.get("v2v_server_ms"),
        underruns=report.get("underruns", 0),
    )


# --- the bound --------------------------------------------------------------------------------
def clause_tokens(answer: str) -> int:
    """Tokens of a scripted LLM after which the first clause of its answer is whole."""
    stream = ClauseStream()
    tokens = split_tokens(answer)
    for count, token in enumerate(tokens, start=1):
        if stream.push(token):
            return count
    return len(tokens)


def engines_s(spec: ScriptedSpec, answer: str) -> float:
    """Seconds from the question to the recogniser to the voice's first chunk, engines alone."""
    asr, llm, tts = spec.asr or AsrSpec(), spec.llm or LlmSpec(), spec.tts or TtsSpec()
    tokens = max(clause_tokens(answer) - 1, 0) / llm.tokens_per_s
    return asr.final_s + llm.first_token_s + tokens + tts.first_chunk_s


def bound_excess_ms(turn: Measured, spec: ScriptedSpec) -> float | None:
    """How much later the first frame was sent than decision and engines allow; None: unknown."""
    stamps = turn.stamps
    if not {"asked", "endpoint", "sent"} <= stamps.keys():
        return None
    bound = max(stamps["endpoint"], stamps["asked"] + engines_s(spec, turn.answer))
    return (stamps["sent"] - bound) * 1e3


# --- many of them -----------------------------------------------------------------------------
def percentiles(values: Iterable[float | None], digits: int = 1) -> dict[str, float | None]:
    """p50, p90, p95, p99 and max; between neighbours they are interpolated. None without any."""
    known = [value for value in values if value is not None]
    names = [f"p{each}" for each in PERCENTILES]
    if not known:
        return dict.fromkeys([*names, "max"])
    found = np.percentile(known, PERCENTILES)
    return {
        **{name: round(float(each), digits) for name, each in zip(names, found, strict=True)},
        "max": round(max(known), digits),
    }


def rate(turns: Sequence[Measured], cases: int) -> float:
    """A share of all turns."""
    return round(cases / len(turns), 4) if turns else 0.0


def rounded(value: float | None, digits: int = 1) -> float | None:
    """For the object; None stays."""
    return None if value is None else round(value, digits)


def summary(turns: Sequence[Measured]) -> dict[str, Any]:
    """What can be told of every server."""
    return {
        "turns": len(turns),
        "v2v": percentiles(turn.v2v_ms for turn in turns),
        "false_cutoff_rate": rate(turns, sum(turn.cutoff for turn in turns)),
        "missed_rate": rate(turns, sum(turn.v2v_ms is None for turn in turns)),
    }


def own_summary(
    turns: Sequence[Measured], *, spec: ScriptedSpec | None, speculation: bool
) -> dict[str, Any]:
    """What can be told of a server that reports its stamps: duplexd.

    Args:
        turns: all of them; those without an answer count in the rates alone.
        spec: delays of scripted engines; None: they are real, and there is no bound.
        speculation: it was on; the framework's share is only told when it was off.
    """
    answered = [turn for turn in turns if {"endpoint", "sent"} <= turn.stamps.keys()]
    gate = [_span_ms(turn, ("endpoint",), "sent") for turn in answered if turn.ready_at_gate]
    framework = (
        [] if speculation else [_span_ms(turn, ("final", "endpoint"), "sent") for turn in answered]
    )
    excess = [bound_excess_ms(turn, spec) for turn in answered] if spec is not None else []
    parts = {part: [turn.parts_ms.get(part) for turn in answered] for part in PARTS}
    return {
        **summary(turns),
        "v2v_server": percentiles(turn.v2v_server_ms for turn in turns),
        "commit_to_byte_ms": percentiles(gate),
        "framework_ms": percentiles(framework),
        "bound_excess_ms": percentiles(excess),
        "ready_at_gate_rate": rate(answered, len(gate)),
        "underruns": sum(turn.underruns for turn in turns),
        "parts_p50_ms": {part: percentiles(values)["p50"] for part, values in parts.items()},
    }


def ratios(own: dict[str, Any], peers: dict[str, dict[str, Any]]) -> dict[str, float | None]:
    """p50 of v2v over each peer's; None where one of them has none."""
    mine = own["v2v"]["p50"]
    theirs = {name: peer["v2v"]["p50"] for name, peer in peers.items()}
    return {name: round(mine / p50, 3) if mine and p50 else None for name, p50 in theirs.items()}


def by_kind(turns: Sequence[Measured]) -> dict[str, dict[str, Any]]:
    """The same for each kind of utterance."""
    kinds = dict.fromkeys(turn.kind for turn in turns)
    return {kind: summary([turn for turn in turns if turn.kind == kind]) for kind in kinds}


def _span_ms(turn: Measured, begin: Sequence[str], until: str) -> float:
    stamps = turn.stamps
    return (stamps[until] - max(stamps[name] for name in begin if name in stamps)) * 1e3
