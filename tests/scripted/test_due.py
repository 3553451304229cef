"""Invariant: a wait never ends before its deadline, and withdrawn waits leave nothing behind."""

import asyncio
import math
import time

import pytest

from services.scripted.due import Due


async def test_returns_at_the_deadline_and_not_before():
    due = time.monotonic() + 0.03
    await Due().until(due)
    assert due <= time.monotonic() <= due + 0.1


async def test_a_timer_that_fires_early_is_set_again(monkeypatch):
    loop = asyncio.get_running_loop()
    real = loop.call_later
    asked: list[float] = []

    def early(delay, *args):
        asked.append(delay)
        return real(delay / 2, *args)

    monkeypatch.setattr(loop, "call_later", early)
    due = time.monotonic() + 0.02
    await Due().until(due)
    assert time.monotonic() >= due
    assert len(asked) > 1


async def test_a_passed_deadline_does_not_wait():
    before = time.monotonic()
    await Due().until(before - 1)
    assert time.monotonic() - before < 0.05


@pytest.mark.parametrize("failure", [None, ValueError("why")])
async def test_withdraw_ends_endless_waits(failure):
    due = Due()
    tasks = [asyncio.create_task(due.until(math.inf)) for _ in range(3)]
    await asyncio.sleep(0)
    due.withdraw(failure)
    due.withdraw(failure)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    expected = asyncio.CancelledError if failure is None else ValueError
    assert [type(result) for result in results] == [expected] * 3
    await due.until(time.monotonic() + 0.001)


async def test_a_wait_withdrawn_in_the_moment_it_ends_stays_withdrawn():
    due = Due()
    at = time.monotonic() + 0.02
    task = asyncio.create_task(due.until(at))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.005, due.withdraw, ValueError("first"))
    while time.monotonic() < at + 0.005:
        pass
    # both timers are overdue now: the loop runs them in one go, the withdrawal first
    with pytest.raises(ValueError, match="first"):
        await task
