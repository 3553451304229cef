"""Invariants: conversations at the same time never cross, and no client's playback starves."""

from __future__ import annotations

import asyncio

import pytest

from tests.daemon.crowd import (
    CLIENTS,
    ENGINES,
    GAP_MS,
    SETS,
    TURNS,
    check_tones,
    longest_gap,
    talk_by_sdk,
)
from tests.daemon.process import serving


def test_the_answers_can_be_told_apart():
    check_tones(CLIENTS)


async def crowd() -> float:
    """All conversations at once, on a daemon of their own; returns the longest gap."""
    async with serving(engines=ENGINES, sets=SETS) as daemon:
        results = await asyncio.gather(*(talk_by_sdk(daemon.http) for _ in range(CLIENTS)))
        assert len({session for session, _ in results}) == CLIENTS
        lines = daemon.turn_lines(CLIENTS * TURNS)
        assert {(line[1], line[2], line[3]) for line in lines} == {
            (session, str(turn), "answered") for session, _ in results for turn in (1, 2)
        }
        daemon.metric("sessions", 0)
        return max(gap for _, gap in results)


@pytest.mark.alone
@pytest.mark.timeout(300)
async def test_clients_that_talk_at_once_get_their_own_answers():
    assert await longest_gap(crowd) <= GAP_MS
