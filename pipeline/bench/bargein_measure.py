"""What the trials of `bench bargein` amount to. Pure: arrays and times in, numbers out."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.bench.bargein_trials import Heard, Trial
from services.scripted.tts import SAMPLE_RATE, ScriptedVoice, char_ends
from tts_engine.text.stream import segment

#: less than a sample is no silence, seconds
_GAP_S = 0.5 / SAMPLE_RATE

Fate = Literal["unnoticed", "resumed", "interrupted", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """An answer as it sounds when nobody interrupts it.

    Parameters:
        text: the raw answer.
        samples: all of its sound.
        ends: the sample after which each of `chars` has been spoken.
        chars: characters of the raw answer, ascending.
    """

    text: str
    samples: NDArray[np.int16]
    ends: tuple[int, ...]
    chars: tuple[int, ...]

    @property
    def seconds(self) -> float:
        """How long it plays."""
        return len(self.samples) / SAMPLE_RATE

    def heard(self, samples: int) -> int:
        """Characters of the raw answer that were spoken completely in its first samples."""
        count = bisect_right(self.ends, samples)
        return self.chars[count - 1] if count else 0


async def reference_of(text: str) -> Reference:
    """Synthesises an answer without anybody interrupting, clause by clause as the daemon does.

    Args:
        text: the raw answer, as the language model writes it.
    """
    voice = ScriptedVoice()
    parts: list[bytes] = []
    ends: list[int] = []
    chars: list[int] = []
    samples = raw = 0
    for clause in segment(text):
        parts += [chunk.pcm async for chunk in voice.synthesize(clause.text)]
        for end, length in zip(char_ends(clause.text), clause.ends, strict=True):
            ends.append(samples + end)
            chars.append(raw + length)
        samples, raw = ends[-1], raw + len(clause.raw)
    whole = np.frombuffer(b"".join(parts), np.int16)
    return Reference(text=text, samples=whole, ends=tuple(ends), chars=tuple(chars))


def is_exact(answer: Heard, reference: Reference) -> bool:
    """No gap and no repeat in what came over the wire: it is the reference, up to its end or to
    where the answer was interrupted.
    """
    length = len(reference.samples)
    # A device's last frame is filled up with silence.
    filled = not answer.sent[length:].any()
    whole = answer.status != "completed" or len(answer.sent) >= length
    same = np.array_equal(answer.sent[:length], reference.samples[: len(answer.sent)])
    return whole and filled and same


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one sound. Times are milliseconds; None: it does not apply.

    Parameters:
        kind, clip: what was made.
        honours: by a client that falls silent at a pause.
        fate: "unnoticed": the answer was never paused. "lost": paused, and neither resumed nor
            interrupted in time.
        stop_ms: from the voiced onset to the last sample of the answer that was played.
        beyond_ms: from the decision to pause to that sample.
        resume_ms: from the end of the sound to where the pause's silence ended; 0 if that was
            before, or there was none.
        exact: see `is_exact`.
        truncation: characters that the context holds, less those that were played.
        prefix: what it holds is the beginning of the answer.
    """

    kind: str
    clip: str
    honours: bool
    fate: Fate
    stop_ms: float | None = None
    beyond_ms: float | None = None
    resume_ms: float | None = None
    exact: bool | None = None
    truncation: int | None = None
    prefix: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """For the report."""
        shown = {name: getattr(self, name) for name in self.__slots__}
        return {
            name: round(value, 1) if isinstance(value, float) else value
            for name, value in shown.items()
        }


def outcome_of(trial: Trial, reference: Reference, *, context: str | None) -> Outcome:
    """Measures a trial.

    Args:
        trial: as the client saw it; the answer's books are closed.
        reference: of the answer that it was made over.
        context: what the request that followed holds of that answer; None: there was none.
    """
    fate = _fate(trial)
    common: dict[str, Any] = {
        "kind": trial.sound.kind,
        "clip": trial.sound.clip.name,
        "honours": trial.honours,
        "fate": fate,
    }
    pieces = trial.answer.pieces
    if fate == "interrupted":
        last = max((end for _, end in pieces), default=trial.onset)
        played = round(sum(end - start for start, end in pieces) * SAMPLE_RATE)
        signs = trial.signs
        decided = signs.paused[-1] if signs.paused else signs.opened
        return Outcome(
            **common,
            stop_ms=max(0.0, last - trial.onset) * 1000,
            beyond_ms=(last - decided) * 1000,
            truncation=None if context is None else len(context) - reference.heard(played),
            prefix=None if context is None else reference.text.startswith(context),
        )
    if fate == "resumed":
        again = _gap_end(pieces, since=trial.onset, until=trial.signs.resumed[-1])
        return Outcome(
            **common,
            resume_ms=max(0.0, again - trial.end) * 1000,
            exact=is_exact(trial.answer, reference),
        )
    return Outcome(**common)


def _gap_end(pieces: Sequence[tuple[float, float]], *, since: float, until: float) -> float:
    """When the last silence of a loudspeaker that began in a span ended; `since` without one."""
    gaps = (
        start
        for (_, end), (start, _) in itertools.pairwise(pieces)
        if since < end < until and start - end > _GAP_S
    )
    return max(gaps, default=since)


def _fate(trial: Trial) -> Fate:
    signs = trial.signs
    if signs.opened:
        return "interrupted"
    if not signs.paused:
        return "unnoticed"
    ends = [end for _, end in trial.answer.pieces]
    resumed = len(signs.resumed) == len(signs.paused) and max(ends, default=0.0) > trial.end
    return "resumed" if resumed else "lost"


def heard_in_context(messages: Sequence[dict[str, Any]]) -> str:
    """What a request holds of the answer before the user's last words."""
    before = [each for each in messages[:-1] if each.get("role") != "tool"]
    if before and before[-1].get("role") == "assistant":
        return str(before[-1].get("content") or "")
    return ""


def quantiles(values: Iterable[float], *names: tuple[str, float]) -> dict[str, float | None]:
    """Named percentiles, one decimal; None without values."""
    found = sorted(values)
    return {
        name: round(float(np.percentile(found, share)), 1) if found else None
        for name, share in names
    }
