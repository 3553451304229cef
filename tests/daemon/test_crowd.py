"""Invariants: conversations at the same time never cross, and no client's playback starves."""

from __future__ import annotations

import asyncio

from tests.daemon.crowd import CLIENTS, ENGINES, GAP_MS, SETS, TURNS, check_tones, talk_by_sdk
from tests.daemon.process import serving


def test_the_answers_can_be_told_apart():
    check_tones(CLIENTS)


async def test_clients_that_talk_at_once_get_their_own_answers(record_property):
    async with serving(engines=ENGINES, sets=SETS) as daemon:
        results = await asyncio.gather(*(talk_by_sdk(daemon.http) for _ in range(CLIENTS)))
        assert len({session for session, _ in results}) == CLIENTS
        worst = max(gap for _, gap in results)
        record_property("worst_gap_ms", worst)
        print(f"worst gap {worst:.0f} ms")
        assert worst <= GAP_MS
        lines = daemon.turn_lines(CLIENTS * TURNS)
        assert {(line[1], line[2], line[3]) for line in lines} == {
            (session, str(turn), "answered") for session, _ in results for turn in (1, 2)
        }
        daemon.metric("sessions", 0)
