"""Invariants: a text sounds while it is still being made, as long as the page says, and no longer
than it is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.background import in_background
from tests.browser.chromium import chromium
from tests.browser.page import Page
from tests.browser.sound import write_microphone
from tests.tts_service.served import CloningVoice, seconds_of

#: the engine's first audio, and how much faster than speech it then is
FIRST_S, RATE = 0.3, 2.0
TEXT = "一二三四五六七八九十" * 4
#: rounding of what is shown, and the length of a render quantum
NEAR_S = 0.1

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder: Path = tmp_path_factory.mktemp("heard")
    microphone = write_microphone(folder / "silence.wav", [], seconds=1)
    voice = CloningVoice("小明", first_chunk_s=FIRST_S, rate=RATE)
    with (
        in_background(voice, {"speech.service": "true"}) as address,
        chromium(microphone=microphone) as browser,
    ):
        page = Page(browser, listen=True)
        page.size(1280, 800)
        page.open(f"{address}/#voices").one("voice-row")
        yield page
        page.leave()


def shown(page: Page, test_id: str) -> float:
    """A time on the page, seconds."""
    found = re.search(r"([\d.]+)\s(ms|s)\b", page.one(test_id).text)
    assert found
    return float(found[1]) / (1000 if found[2] == "ms" else 1)


def test_a_text_is_heard_while_it_is_made(page: Page):
    page.one("say-text").send_keys(TEXT)
    page.press("say-go")
    first = shown(page, "say-first")
    assert page.one("say-seconds").text == "…"
    assert FIRST_S <= shown(page, "say-server") <= first
    page.until(lambda: page.sound().speaker.spans(), "its first sound")
    assert page.one("say-seconds").text == "…"
    page.until(lambda: page.one("say-seconds").text != "…", "the whole text")
    assert page.one("say-go").text == "Stop"
    (span,) = page.quiet().speaker.spans(join_s=NEAR_S)
    length = seconds_of(TEXT)
    assert span.seconds == pytest.approx(length, abs=NEAR_S)
    assert shown(page, "say-seconds") == pytest.approx(length, abs=NEAR_S)
    page.until(lambda: page.one("say-go").text == "Speak", "its end")


def test_who_stops_it_hears_no_more(page: Page):
    before = len(page.sound().speaker.spans(join_s=NEAR_S))
    page.press("say-go")

    def sounds() -> bool:
        spans = page.sound().speaker.spans(join_s=NEAR_S)[before:]
        return bool(spans) and spans[0].seconds > 1

    page.until(sounds, "a second of it")
    page.press("say-go")
    page.until(lambda: page.one("say-go").text == "Speak", "an end")
    (span,) = page.quiet().speaker.spans(join_s=NEAR_S)[before:]
    assert span.seconds < seconds_of(TEXT) - 1
