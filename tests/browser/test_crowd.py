"""Invariants: browsers and `openai` clients at once get their own answers, without gaps."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

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
    question,
    talk_by_sdk,
    tones,
)
from tests.daemon.process import serving

#: (start, length) of the questions, seconds of the microphone: when the pages are all there, and
#: when the first answer is over
VOICED = ((3.0, 0.8), (11.0, 0.8))
MICROPHONE_S = 13.0
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
    """The page shows and plays the answers of one session, and played each without a gap."""
    users, answers = page.rows("user"), page.rows("assistant")
    named = re.search(r"会话(s\d+)第", users[0].text)
    assert named, users
    session = named[1]
    sound = page.quiet()
    spans = sound.speaker.spans(join_s=GAP_MS / 1000)
    assert len(spans) == TURNS, spans
    for turn, span in enumerate(spans, 1):
        assert question(session, turn) in users[turn - 1].text
        assert answer(session, turn) in answers[turn - 1].text
        heard = sound.tone(span.start + 0.1, span.start + CLAUSE_S)
        assert heard == pytest.approx(tones(session, turn)[0], abs=10)
    assert page.complaints() == []
    # one silence lies between the answers, all others inside of one
    silences = sorted(after.start - before.end for before, after in pairwise(sound.speaker.spans()))
    return session, max([0.0, *silences[: 1 - TURNS]]) * 1000


async def test_browsers_and_clients_that_talk_at_once(pages: list[Page], record_property: Any):
    async with serving(engines=ENGINES, sets=SETS) as daemon:
        await asyncio.to_thread(start, pages, daemon.http)
        browsers, *clients = await asyncio.gather(
            asyncio.to_thread(finish, pages),
            *(talk_by_sdk(daemon.http) for _ in range(CLIENTS)),
        )
        results = [*browsers, *clients]
        assert len({session for session, _ in results}) == 2 * CLIENTS
        worst = max(gap for _, gap in results)
        record_property("worst_gap_ms", worst)
        print(f"worst gap {worst:.0f} ms")
        assert worst <= GAP_MS
        lines = daemon.turn_lines(2 * CLIENTS * TURNS)
        assert {(line[1], line[2], line[3]) for line in lines} == {
            (session, str(turn), "answered") for session, _ in results for turn in (1, 2)
        }
