"""Invariant: a device notices by what comes what a Realtime client is told."""

from __future__ import annotations

import numpy as np

from pipeline.bench.bargein_signs import Signs, noticed, told
from pipeline.bench.wire import Kind, News

FRAME_S = 0.06
FRAME = np.ones(1440, np.int16)


def frames(*times: float, answer: str = "a") -> list[News]:
    return [News(at=at, kind="audio", answer=answer, samples=FRAME) for at in times]


def news(at: float, kind: Kind, answer: str = "a") -> News:
    return News(at=at, kind=kind, answer=answer)


def steady(first: float, count: int) -> list[float]:
    return [first + at * FRAME_S for at in range(count)]


def test_what_a_client_is_told() -> None:
    everything = [
        news(0.5, "paused"),
        news(1.1, "paused"),
        news(1.3, "resumed"),
        news(1.5, "paused"),
        news(1.8, "opened"),
        news(2.0, "paused"),
    ]
    expected = Signs(opened=1.8, paused=(1.1, 1.5), resumed=(1.3,))
    assert told(everything, since=1.0) == expected
    assert told([], since=0.0) == Signs()


def test_an_answer_that_goes_on() -> None:
    sent = frames(*steady(0.0, 10), *steady(1.0, 10))
    found = noticed(sent, answer="a", whole_s=60.0, since=0.5, now=1.55)
    assert [round(at, 6) for at in found.paused] == [0.6]
    assert found.resumed == (1.0,)
    assert found.opened == 0.0


def test_what_is_only_late_is_no_pause() -> None:
    sent = frames(0.0, 0.06, 0.15, 0.18)
    assert noticed(sent, answer="a", whole_s=60.0, since=0.0, now=0.2) == Signs()


def test_an_answer_that_is_held() -> None:
    found = noticed(frames(*steady(0.0, 10)), answer="a", whole_s=60.0, since=0.5, now=0.9)
    assert [round(at, 6) for at in found.paused] == [0.6]
    assert (found.resumed, found.opened) == ((), 0.0)


def test_an_answer_that_was_stopped() -> None:
    sent = [*frames(*steady(0.0, 10)), news(0.9, "done"), *frames(2.0, answer="b")]
    found = noticed(sent, answer="a", whole_s=60.0, since=0.5, now=3.0)
    assert found.opened == 0.9
    assert len(found.paused) == 1


def test_an_answer_that_was_over() -> None:
    sent = [*frames(*steady(0.0, 10)), news(0.9, "done")]
    assert noticed(sent, answer="a", whole_s=0.6, since=0.5, now=3.0) == Signs()


def test_a_pause_before_the_sound_is_another_ones() -> None:
    sent = frames(0.0, 0.5, *steady(0.56, 10))
    assert noticed(sent, answer="a", whole_s=60.0, since=0.8, now=1.1) == Signs()
    assert noticed([], answer="a", whole_s=60.0, since=0.8, now=1.1) == Signs()
