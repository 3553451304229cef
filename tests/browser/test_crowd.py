"""Invariants: browsers and `openai` clients at once get their own answers, without gaps."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.browser.chromium import chromium
from tests.browser.page import Page
from tests.browser.sound import write_microphone
from tests.daemon.crowd import (
    CLIENTS,
    ENGINES,
    GAP_MS,
    SETS,
    TURNS,
    answer,
    check_tones,
    longest_gap,
    question,
    talk_by_sdk,
    tones,
)
from tests.daemon.process import serving

#: (start, length) of the questions, seconds of the microphone: when the pages are all there, and
#: when the first answer is over
VOICED = ((3.0, 0.8), (13.0, 0.8))
MICROPHONE_S = 15.0
#: silence between two answers is longer, seconds
BETWEEN_S = 1.5
#: the first clause is still being spoken so long after the start of an answer, seconds
CLAUSE_S = 0.5


def test_the_answers_can_be_told_apart():
    check_tones(2 * CLIENTS)


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[list[Page]]:
    """Four windows, each with a microphone and a loudspeaker of its own.

    They are minimised: painting four pages takes more than the two cores of a small machine.
    """
    microphone = write_microphone(tmp_path / "microphone.wav", VOICED, seconds=MICROPHONE_S)
    with chromium(microphone=microphone) as browser:
        pages = [Page(browser, listen=True)]
        while len(pages) < CLIENTS:
            browser.switch_to.new_window("window")
            pages.append(Page(browser, listen=True))
        for page in pages:
            page.front()
            browser.minimize_window()
        yield pages


def start(pages: list[Page], http: str) -> None:
    """Starts the conversations of all pages."""
    for page in pages:
        page.open(http)
        page.one("start")
    for page in pages:
        # a window that is minimised takes no clicks
        page.run("document.querySelector('[data-testid=start]').click()")
    for page in pages:
        page.wait_state("listening")


def finish(pages: list[Page]) -> list[tuple[str, float]]:
    """Waits for the end of all conversations; returns the id and the longest gap of each."""
    for page in pages:
        page.wait_row("assistant", TURNS)
    return [check_page(page) for page in pages]


def check_page(page: Page) -> tuple[str, float]:
    """The page shows and plays the answers of one session; returns it, and the longest gap."""
    users, answers = page.rows("user"), page.rows("assistant")
    named = re.search(r"会话(s\d+)第", users[0].text)
    assert named, users
    session, turns = named[1], range(1, TURNS + 1)
    assert [row.text for row in users] == [question(session, turn) for turn in turns]
    assert [row.text for row in answers] == [answer(session, turn) for turn in turns]
    sound = page.quiet()
    spans = sound.speaker.spans(join_s=BETWEEN_S)
    assert len(spans) == TURNS, spans
    for turn, span in zip(turns, spans, strict=True):
        heard = sound.tone(span.start + 0.1, span.start + CLAUSE_S)
        assert heard == pytest.approx(tones(session, turn)[0], abs=20)
    assert page.complaints() == []
    # one silence lies between the answers, all others inside of one
    silences = sorted(after.start - before.end for before, after in pairwise(sound.speaker.spans()))
    return session, max([0.0, *silences[: 1 - TURNS]]) * 1000


async def crowd(pages: list[Page]) -> float:
    """All conversations at once, on a daemon of their own; returns the longest gap."""
    async with serving(engines=ENGINES, sets=SETS) as daemon:
        await asyncio.to_thread(start, pages, daemon.http)
        browsers, *clients = await asyncio.gather(
            asyncio.to_thread(finish, pages),
            *(talk_by_sdk(daemon.http) for _ in range(CLIENTS)),
        )
        results = [*browsers, *clients]
        assert len({session for session, _ in results}) == 2 * CLIENTS
        lines = daemon.turn_lines(2 * CLIENTS * TURNS)
        assert {(line[1], line[2], line[3]) for line in lines} == {
            (session, str(turn), "answered") for session, _ in results for turn in (1, 2)
        }
        return max(gap for _, gap in results)


@pytest.mark.alone
@pytest.mark.timeout(400)
async def test_browsers_and_clients_that_talk_at_once(pages: list[Page]):
    assert await longest_gap(lambda: crowd(pages)) <= GAP_MS
