# pyright: strict
"""How a client learns what becomes of the sound that it made over an answer. Pure.

A Realtime client is told of pauses and turns. A device is not: its answer stops coming, and goes
on, or `tts stop` comes before all of it was sent.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.bench.wire import News
from pipeline.talk.stereo import RATE

#: a frame that comes later than this was held back, not late, seconds
_HELD_S = 0.04


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """Since the sound's onset, in monotonic seconds.

    Parameters:
        opened: an interruption was taken; 0: none.
        paused, resumed: the answer stopped, and went on, each time; the last may be still to come.
    """

    opened: float = 0.0
    paused: tuple[float, ...] = ()
    resumed: tuple[float, ...] = ()


def told(news: Iterable[News], *, since: float) -> Signs:
    """What a Realtime client is told."""
    after = [each for each in news if each.at >= since]
    opened = next((each.at for each in after if each.kind == "opened"), 0.0)
    before = [each for each in after if not opened or each.at <= opened]
    return Signs(
        opened=opened,
        paused=tuple(each.at for each in before if each.kind == "paused"),
        resumed=tuple(each.at for each in before if each.kind == "resumed"),
    )


def noticed(
    news: Sequence[News], *, answer: str, whole_s: float, since: float, now: float
) -> Signs:
    """What a device notices.

    Args:
        news: all so far.
        answer: name of the answer.
        whole_s: its length, if nobody interrupts it.
        since: of the onset.
        now: up to when the answer was waited for.
    """
    ours = [each for each in news if each.answer == answer]
    audio = [(each.at, len(each.samples) / RATE) for each in ours if each.samples is not None]
    times = [at for at, _ in audio]
    sent_s = sum(seconds for _, seconds in audio)
    frame_s = max((seconds for _, seconds in audio), default=0.0)
    done = next((each.at for each in ours if each.kind == "done"), 0.0)
    whole = sent_s >= whole_s - frame_s
    opened = done if done >= since and not whole else 0.0
    paused: list[float] = []
    resumed: list[float] = []
    for before, after in itertools.pairwise(times):
        if after - before > frame_s + _HELD_S and after >= since:
            paused.append(before + frame_s)
            resumed.append(after)
    waits = bool(times) and not whole and (done or now) - times[-1] > frame_s + _HELD_S
    if waits and times[-1] + frame_s >= since:
        paused.append(times[-1] + frame_s)
    return Signs(opened=opened, paused=tuple(paused), resumed=tuple(resumed))
