"""Invariants: a text sounds while it is still being made, as long as the page says, and no longer
than it is wanted.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from services.scripted.tts import CHUNK
from tests.browser.background import in_background
from tests.browser.chromium import chromium
from tests.browser.page import Page
from tests.browser.sound import write_microphone
from tests.tts_service.served import RATE, CloningVoice, seconds_of
from tts_engine.engine import SpeechChunk

#: the engine's first audio
FIRST_S = 0.3
#: what the engine gives before it is held, seconds
BEFORE_S = 1.0
TEXT = "一二三四五六七八九十" * 4
#: rounding of what is shown, and the length of a render quantum
NEAR_S = 0.1
SETS = {"speech.service": "true", "tts.clause_timeout_s": 120}

pytestmark = pytest.mark.alone


class HeldVoice(CloningVoice):
    """A voice that gives so much of its first clause, and the rest when it is let go."""

    def __init__(self) -> None:
        super().__init__(first_chunk_s=FIRST_S)
        self.free = threading.Event()

    async def synthesize(
        self, text: str, *, voice: str | None = None, speed: float = 1.0, style: str = ""
    ) -> AsyncGenerator[SpeechChunk, None]:
        left = round(BEFORE_S * RATE / CHUNK)
        async for chunk in super().synthesize(text, voice=voice, speed=speed, style=style):
            if not left:
                await asyncio.to_thread(self.free.wait)
            left -= 1
            yield chunk


@pytest.fixture(scope="module")
def voice() -> HeldVoice:
    return HeldVoice()


@pytest.fixture(scope="module")
def page(voice: HeldVoice, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder: Path = tmp_path_factory.mktemp("heard")
    microphone = write_microphone(folder / "silence.wav", [], seconds=1)
    with in_background(voice, SETS) as address, chromium(microphone=microphone) as browser:
        page = Page(browser, listen=True)
        page.size(1280, 800)
        page.open(f"{address}/#voices").one("voice-row")
        yield page
        page.leave()
        voice.free.set()


def shown(page: Page, test_id: str) -> float:
    """A time on the page, seconds."""
    found = re.search(r"([\d.]+)\s(ms|s)\b", page.one(test_id).text)
    assert found
    return float(found[1]) / (1000 if found[2] == "ms" else 1)


def heard(page: Page) -> float:
    """How much has sounded so far, seconds."""
    return sum(span.seconds for span in page.sound().speaker.spans())


def test_a_text_is_heard_while_it_is_made(page: Page, voice: HeldVoice):
    page.one("say-text").send_keys(TEXT)
    page.press("say-go")
    assert FIRST_S <= shown(page, "say-server") <= shown(page, "say-first")
    page.until(lambda: heard(page) > BEFORE_S / 2, "its first sound")
    assert page.one("say-seconds").text == "…"
    assert page.one("say-go").text == "Stop"
    voice.free.set()
    page.until(lambda: page.one("say-seconds").text != "…", "the whole text")
    page.until(lambda: page.one("say-go").text == "Speak", "its end")
    page.quiet()
    assert heard(page) == pytest.approx(seconds_of(TEXT), abs=NEAR_S)
    assert shown(page, "say-seconds") == pytest.approx(seconds_of(TEXT), abs=NEAR_S)


def test_who_stops_it_hears_no_more(page: Page, voice: HeldVoice):
    voice.free.clear()
    before = heard(page)
    page.press("say-go")
    page.until(lambda: heard(page) > before + BEFORE_S / 2, "a part of it")
    page.press("say-go")
    page.until(lambda: page.one("say-go").text == "Speak", "an end")
    voice.free.set()
    page.quiet()
    assert heard(page) - before <= BEFORE_S + NEAR_S
