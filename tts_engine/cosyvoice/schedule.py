# pyright: strict
"""Which piece of work comes next among the utterances that are being made: pure, no clock.

An utterance goes through three stages: speech tokens are decoded, a block of tokens becomes mel
frames, frames become samples. One step is one stage of some utterances:

- Every utterance has a time at which its next audio is due: where nothing has been delivered yet,
  the time at which it came, later the end of the playback of what was. The earliest due leads.
  So first chunks go before later chunks of those that are ahead of their playback, one that runs
  out goes before one that came later, and nobody waits for ever: a due time never moves by itself.
- The leader does the last stage that it can, for that is nearest to its audio.
- Others join the step where that is nearly free: decoding costs little more for several rows than
  for one, so everybody who can decodes with the leader. Blocks of mel cost more, so only those join
  that need theirs nearly as soon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Stage = Literal["decode", "flow", "vocode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What may be done at a time.

    Parameters:
        requests: utterances that are being made at a time, and rows of a decoding step.
        flow_rows: utterances whose blocks are computed in one step; 1 where that saves nothing.
        join_s: another one's block joins the leader's when it is due within so many seconds.
        live_s: seconds of speech over all utterances being made, for which there is memory.
    """

    requests: int = 8
    flow_rows: int = 1
    join_s: float = 1.0
    live_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What an utterance could do next.

    Parameters:
        id: ascending in the order in which they came.
        due: when its next audio is needed, seconds.
        decode: it lacks tokens, and more may come.
        flow: a block of mel can be computed.
        vocode: there are frames that are no samples yet.
    """

    id: int
    due: float
    decode: bool = False
    flow: bool = False
    vocode: bool = False

    def can(self, stage: Stage) -> bool:
        """It could go through the stage now."""
        return getattr(self, stage)

    @property
    def last_stage(self) -> Stage | None:
        """The stage nearest to its audio that it can do; None: it can do nothing."""
        if self.vocode:
            return "vocode"
        if self.flow:
            return "flow"
        return "decode" if self.decode else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One step.

    Parameters:
        stage: what is done.
        ids: of the utterances, the leader first.
    """

    stage: Stage
    ids: tuple[int, ...]


def plan(now: float, needs: Sequence[Need], limits: Limits) -> Work | None:
    """The next step; None when nobody can do anything.

    Args:
        now: the time, on the clock of the due times.
        needs: of all utterances that are being made.
        limits: how many may share a step.
    """
    able = sorted((need for need in needs if need.last_stage), key=_urgency)
    if not able:
        return None
    leader = able[0]
    stage = leader.last_stage
    assert stage is not None
    others = [need for need in able if need.can(stage)]
    if stage == "decode":
        chosen = others[: limits.requests]
    elif stage == "flow":
        soon = max(now, leader.due) + limits.join_s
        chosen = [need for need in others[: limits.flow_rows] if need.due <= soon]
    else:
        chosen = [leader]
    return Work(stage=stage, ids=tuple(need.id for need in chosen))


def due_after(due: float, now: float, seconds: float) -> float:
    """When the next audio is due after some was delivered.

    Args:
        due: when this was due.
        now: when it was delivered; playback that had run out goes on now.
        seconds: its length.
    """
    return max(now, due) + seconds


def admitted(waiting: Sequence[float], live: Sequence[float], limits: Limits) -> int:
    """How many of those that wait may begin: the first ones, nobody is passed over.

    One that would not fit even alone begins alone: what is too long is refused elsewhere.

    Args:
        waiting: seconds of speech that each will be, in the order in which they came.
        live: the same of those that are being made.
        limits: places, and seconds.
    """
    count, total = len(live), sum(live)
    begin = 0
    for seconds in waiting:
        fits = total + seconds <= limits.live_s or count == 0
        if count >= limits.requests or not fits:
            break
        begin, count, total = begin + 1, count + 1, total + seconds
    return begin


def _urgency(need: Need) -> tuple[float, int]:
    return need.due, need.id
