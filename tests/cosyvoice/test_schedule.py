"""The next step is always the most urgent one's, and what is ready never starves."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts_engine.cosyvoice.schedule import Limits, Need, Work, admitted, due_after, plan

times = st.floats(min_value=0, max_value=100)
flags = st.booleans()


@st.composite
def needs(draw: st.DrawFn) -> list[Need]:
    dues = draw(st.lists(times, max_size=12))
    return [
        Need(id=id, due=due, decode=draw(flags), flow=draw(flags), vocode=draw(flags))
        for id, due in enumerate(dues)
    ]


limits = st.builds(
    Limits,
    requests=st.integers(1, 16),
    flow_rows=st.integers(1, 8),
    join_s=st.floats(min_value=0, max_value=10),
)


def able(live: list[Need]) -> list[Need]:
    return sorted((each for each in live if each.last_stage), key=lambda each: (each.due, each.id))


@given(times, needs(), limits)
def test_the_most_urgent_leads(now: float, live: list[Need], allowed: Limits):
    work = plan(now, live, allowed)
    if not (order := able(live)):
        assert work is None
        return
    assert work is not None
    assert work.ids[0] == order[0].id
    assert work.stage == order[0].last_stage
    # Nobody is passed over for one who is less urgent.
    chosen = [each.id for each in order if each.can(work.stage)][: len(work.ids)]
    assert list(work.ids) == chosen


@given(times, needs(), limits)
def test_a_step_is_bounded(now: float, live: list[Need], allowed: Limits):
    work = plan(now, live, allowed)
    if work is None:
        return
    most = {"decode": allowed.requests, "flow": allowed.flow_rows, "vocode": 1}[work.stage]
    assert 1 <= len(work.ids) <= most
    dues = {each.id: each.due for each in live}
    if work.stage == "flow":
        soon = max(now, dues[work.ids[0]]) + allowed.join_s
        assert all(dues[id] <= soon for id in work.ids)


@given(times, needs(), limits)
def test_everybody_decodes_with_the_leader(now: float, live: list[Need], allowed: Limits):
    work = plan(now, live, allowed)
    if work is not None and work.stage == "decode":
        assert len(work.ids) == min(allowed.requests, sum(each.decode for each in live))


def test_a_first_chunk_goes_before_a_later_chunk_of_one_that_is_ahead():
    ahead = Need(id=1, due=12.0, decode=True, flow=True)
    waiting = Need(id=2, due=9.9, decode=True)
    assert plan(10.0, [ahead, waiting], Limits()) == Work(stage="decode", ids=(2, 1))
    ready = Need(id=2, due=9.9, flow=True)
    assert plan(10.0, [ahead, ready], Limits(flow_rows=4)) == Work(stage="flow", ids=(2,))


def test_one_that_ran_out_goes_before_one_that_came_later():
    out = Need(id=1, due=9.5, flow=True)
    new = Need(id=2, due=9.9, flow=True)
    assert plan(10.0, [new, out], Limits()) == Work(stage="flow", ids=(1,))
    assert plan(10.0, [new, out], Limits(flow_rows=2)) == Work(stage="flow", ids=(1, 2))


def test_what_is_nearest_to_audio_is_done_first():
    both = Need(id=1, due=0.0, decode=True, flow=True, vocode=True)
    assert plan(0.0, [both], Limits()) == Work(stage="vocode", ids=(1,))


@pytest.mark.parametrize(
    ("waiting", "live", "allowed", "begin"),
    [
        ([], [], Limits(), 0),
        ([5, 5, 5], [], Limits(requests=2), 2),
        ([5, 5], [5], Limits(requests=8, live_s=12), 1),
        ([50, 5], [], Limits(live_s=12), 1),  # what fits nowhere is alone
        ([50, 5], [5], Limits(live_s=12), 0),  # and is not passed over
    ],
)
def test_admission(waiting: list[float], live: list[float], allowed: Limits, begin: int):
    assert admitted(waiting, live, allowed) == begin


seconds = st.lists(st.floats(min_value=0.1, max_value=60), max_size=10)


@given(seconds, seconds, st.integers(1, 6), st.one_of(st.just(math.inf), st.floats(1, 100)))
def test_admission_keeps_the_bounds(
    waiting: list[float], live: list[float], requests: int, live_s: float
):
    allowed = Limits(requests=requests, live_s=live_s)
    count = admitted(waiting, live, allowed)
    after = [*live, *waiting[:count]]
    assert count <= len(waiting)
    if count:
        assert len(after) <= requests
        assert sum(after) <= live_s or len(after) == 1
    if waiting and not live:
        assert count  # somebody is always being served


@given(times, times, st.floats(min_value=0.01, max_value=10))
def test_audio_is_due_when_playback_ends(due: float, now: float, length: float):
    after = due_after(due, now, length)
    assert after >= now + length
    assert after == (due if due > now else now) + length


@given(st.data())
def test_everybody_is_served_in_the_end(data: st.DataObject):
    """A playthrough with costs: all finish, and no first chunk waits for one who is ahead."""
    allowed = Limits(requests=data.draw(st.integers(1, 4)), flow_rows=data.draw(st.integers(1, 3)))
    lengths = data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=6))
    cost = {"decode": 0.01, "flow": data.draw(st.floats(0.01, 2)), "vocode": 0.02}
    block, now = 10, 0.0
    left = dict(enumerate(lengths))
    decoded, mel, due = dict.fromkeys(left, 0), dict.fromkeys(left, 0), dict.fromkeys(left, 0.0)
    waiting, live, heard = list(left), [], set[int]()
    for _ in range(10_000):
        count = admitted([1.0] * len(waiting), [1.0] * len(live), allowed)
        live, waiting = live + waiting[:count], waiting[count:]
        state = [
            Need(
                id=id,
                due=due[id],
                decode=decoded[id] < lengths[id],
                flow=decoded[id] - mel[id] >= min(block, lengths[id] - mel[id])
                and mel[id] < lengths[id],
                vocode=mel[id] > lengths[id] - left[id],
            )
            for id in live
        ]
        work = plan(now, state, allowed)
        if work is None:
            break
        now += cost[work.stage]
        for id in work.ids:
            if work.stage == "decode":
                decoded[id] += 1
            elif work.stage == "flow":
                mel[id] += min(block, lengths[id] - mel[id])
            else:
                [other] = [each for each in state if each.id == id]
                silent = [each for each in state if each.id not in heard and each.vocode]
                assert id not in heard or not silent or other.due <= silent[0].due
                due[id] = due_after(due[id], now, 0.1)
                left[id] = lengths[id] - mel[id]
                heard.add(id)
                if not left[id]:
                    live.remove(id)
    assert not live
    assert not waiting
    assert heard == set(left)
