"""Invariants: the page is of use without a microphone, with the keyboard alone, and on any screen.

Its content security policy is in force here: nothing of these tests is in the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.chromium import chromium
from tests.browser.page import Page, has_hanzi
from tests.browser.sound import write_microphone
from tests.daemon.process import DaemonProcess

ECHO = "你说的是："
#: what is echoed for so long that one can do something meanwhile
LONG = "我想听一个很长很长的故事，" * 6
#: CSS pixels: the narrowest phone, a phone on its side, a tablet, a desktop
SCREENS = ((320, 568), (844, 390), (820, 1180), (1440, 900))


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(engines="scripted:llm=50@100,tts=50")
    try:
        yield daemon.ready()
    finally:
        daemon.close()


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A window whose microphone hears nothing."""
    folder = tmp_path_factory.mktemp("page")
    microphone = write_microphone(folder / "silence.wav", [], seconds=1)
    with chromium(microphone=microphone) as browser:
        yield Page(browser)


@pytest.fixture
def page(window: Page, daemon: DaemonProcess) -> Page:
    """A page that nobody has used yet."""
    window.size(1280, 800)
    window.permit("microphone", daemon.http)
    window.open(daemon.http)
    window.run("localStorage.clear()")
    return window.open(daemon.http)


def test_a_denied_microphone_is_told_and_one_can_write(page: Page, daemon: DaemonProcess):
    page.permit("microphone", daemon.http, setting="denied")
    page.press("start")
    assert "microphone" in page.notice("mic-denied")
    page.write("你好吗")
    assert page.wait_row("assistant").text == f"{ECHO}你好吗"
    assert page.rows("user")[0].text == "你好吗"


def test_both_languages(page: Page):
    def shown() -> tuple[str, bool]:
        language = page.run("return document.documentElement.lang")
        return language[:2], has_hanzi(page.one("start").text)

    assert shown() == ("en", False)
    page.press("lang")
    page.until(lambda: shown() == ("zh", True), "Chinese")
    page.press("lang")
    page.until(lambda: shown() == ("en", False), "English")


def test_both_themes(page: Page):
    before = brightness(page)
    page.press("theme")
    page.until(lambda: abs(brightness(page) - before) > 0.5, "another theme")
    chosen = brightness(page)
    page.run("location.reload()")
    page.until(lambda: abs(brightness(page) - chosen) < 0.05, "the theme that was chosen")


def brightness(page: Page) -> float:
    """Of the background, from 0 to 1."""
    return page.run(
        """
        const dot = new OffscreenCanvas(1, 1).getContext("2d");
        const of = (element) => getComputedStyle(element).backgroundColor;
        dot.fillStyle = of(document.documentElement);
        dot.fillRect(0, 0, 1, 1);
        dot.fillStyle = of(document.body);
        dot.fillRect(0, 0, 1, 1);
        const [red, green, blue] = dot.getImageData(0, 0, 1, 1).data;
        return (red + green + blue) / 765;
        """
    )


def test_the_keyboard_is_enough(page: Page):
    page.tab_to("start")
    page.keys(Keys.ENTER)
    page.wait_state("listening")
    page.keys(Keys.SPACE)
    page.wait_state("muted")
    page.keys(Keys.SPACE)
    page.wait_state("listening")
    page.keys("/")
    page.until(lambda: page.focused() == "text-input", "the focus in the text field")
    page.keys(LONG, Keys.ENTER)
    page.wait_state("speaking")
    page.keys(Keys.ESCAPE)
    row = page.wait_row("assistant", states=("cut",))
    assert row.struck
    page.wait_state("listening")
    page.tab_to("stop")
    page.keys(Keys.ENTER)
    page.wait_state("idle")


@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_nothing_sticks_out(page: Page, screen: tuple[int, int]):
    page.size(*screen)
    page.write("A-very-long-word-that-nobody-can-break-" * 4)
    page.wait_row("assistant", states=("partial",))
    wide = page.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1] == screen[0]
    for name in ("start", "text-input", "lang", "theme"):
        box = page.one(name).rect
        assert box["x"] >= 0, name
        assert box["x"] + box["width"] <= screen[0], name


def test_transcript_and_timings_can_be_copied_and_saved(
    page: Page, daemon: DaemonProcess, tmp_path: Path
):
    page.permit("clipboard-read", daemon.http)
    page.permit("clipboard-write", daemon.http)
    page.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.write("你好吗")
    page.wait_row("assistant")
    page.press("copy")
    copied = page.until(lambda: page.run("return navigator.clipboard.readText()"), "the copy")
    assert "你好吗" in copied
    assert f"{ECHO}你好吗" in copied
    page.press("save")
    page.press("save-json")
    saved = page.until(lambda: next(tmp_path.glob("*.json"), None), "the file")
    assert f"{ECHO}你好吗" in json.dumps(json.loads(saved.read_text("utf-8")), ensure_ascii=False)
