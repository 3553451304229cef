"""Invariants: the page is of use without a microphone, with the keyboard alone, and on any screen.

Its content security policy is in force here: nothing of these tests is in the page.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.browser.chromium import chromium
from tests.browser.page import Page, has_hanzi
from tests.browser.sound import write_microphone
from tests.daemon.process import DaemonProcess

ECHO = "你说的是："
#: what is echoed for so long that one can do something meanwhile
LONG = "我想听一个很长很长的故事，" * 6
#: of what one can use, and of the bars of a chart, to what is behind: WCAG 2.2, 1.4.11
LEAST_CONTRAST = 3.0
#: CSS pixels: the narrowest phone, a phone on its side, a tablet, a desktop
SCREENS = ((320, 568), (844, 390), (820, 1180), (1440, 900))


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with DaemonProcess(engines="scripted:llm=50@100,tts=50") as daemon:
        yield daemon.ready()


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
    assert "Microphone blocked" in page.notice("mic-denied")
    assert page.wait_state("blocked")
    assert page.one("start").text == "Try again"
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


def test_the_microphone_is_asked_for_and_may_be_allowed_later(page: Page, daemon: DaemonProcess):
    page.permit("microphone", daemon.http, setting="prompt")
    page.run(
        """
        window.ask = navigator.mediaDevices.getUserMedia;
        navigator.mediaDevices.getUserMedia = () => new Promise((_, refuse) => {
          window.refuse = () => refuse(new DOMException("", "NotAllowedError"));
        });
        """
    )
    page.press("start")
    page.wait_state("asking")
    assert page.one("status").text == "Allow the microphone"
    assert not page.all("start")
    assert not page.one("mute").is_enabled()
    page.permit("microphone", daemon.http, setting="denied")
    page.run("refuse()")
    page.wait_state("blocked")
    assert page.one("status").text == "Microphone blocked"
    page.permit("microphone", daemon.http)
    page.wait_state("idle")
    assert not page.all("notice")
    page.run("navigator.mediaDevices.getUserMedia = ask")
    page.press("start")
    page.wait_state("listening")


def test_the_daemon_learns_whether_the_microphone_hears_the_loudspeaker(page: Page):
    page.run(
        """
        window.asked = [];
        window.told = [];
        const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
        navigator.mediaDevices.getUserMedia = (wish) => {
          asked.push(wish.audio.echoCancellation);
          return ask(wish);
        };
        const { send } = WebSocket.prototype;
        WebSocket.prototype.send = function (data) {
          const event = JSON.parse(data);
          if (event.type === "session.update") told.push(event.session.duplexd);
          return send.call(this, data);
        };
        """
    )

    def wait_told(echo_cancelled: bool) -> None:
        wanted = {"pauses": True, "echo_cancelled": echo_cancelled}
        page.until(lambda: page.run("return told.at(-1)") == wanted, f"word of it: {wanted}")

    page.press("start")
    wait_told(True)
    page.wait_state("listening")
    page.press("cancel-echo")
    wait_told(False)
    assert page.run("return asked") == [True, False]
    assert page.state == "listening"
    page.run("location.reload()")
    assert not page.one("cancel-echo").is_selected()


def test_who_ends_it_is_not_asked_any_more(page: Page, daemon: DaemonProcess):
    page.permit("microphone", daemon.http, setting="prompt")
    page.run(
        """
        navigator.mediaDevices.getUserMedia = () => new Promise((_, refuse) => {
          window.refuse = () => refuse(new DOMException("", "NotAllowedError"));
        });
        """
    )
    page.press("start")
    page.wait_state("asking")
    page.press("stop")
    page.wait_state("idle")
    page.browser.execute_async_script("refuse(); setTimeout(arguments[0], 0)")
    assert page.state == "idle"
    assert not page.all("notice")


def test_the_buttons_keep_their_place(page: Page):
    def places() -> list[tuple[float, float]]:
        found = [page.one(name).rect for name in ("mute", "stop", "persona")]
        return [(each["x"], each["y"]) for each in found]

    page.press("start")
    page.wait_state("listening")
    listening = places()
    page.write(LONG)
    page.wait_state("speaking")
    assert places() == listening
    page.press("chip")
    assert page.one("waterfall")
    assert places() == listening
    page.press("mute")
    page.until(lambda: page.one("mute").text == "Unmute", "the other word")
    assert places() == listening


def test_a_new_chat_can_be_undone(page: Page):
    page.write("你好吗")
    page.wait_row("assistant")
    page.one("chip")
    before = page.rows()
    page.find("#clear").click()
    assert page.notice("cleared")
    assert page.rows() == []
    page.find("#notice-act").click()
    page.until(lambda: page.rows() == before, "the chat before")
    assert page.one("chip")
    page.wait_state("ready")
    page.find("#clear").click()
    page.wait_state("ready")
    page.write("再见")
    page.wait_row("assistant")
    assert not page.all("notice")
    assert [row.text for row in page.rows()] == ["再见", f"{ECHO}再见"]


def test_a_waterfall_opens_at_its_turn_and_closes(page: Page):
    page.write("你好吗")
    page.wait_row("assistant")
    page.press("chip")
    waterfall = page.one("waterfall")
    row = page.find('[data-testid="turn"][data-role="assistant"]')
    assert row.find_elements(By.ID, "waterfall") == [waterfall]
    assert page.one("chip").get_attribute("aria-expanded") == "true"
    page.find("#timing-close").click()
    page.until(lambda: not page.all("waterfall"), "an end of the waterfall")
    assert page.focused() == "chip"
    page.find(".turn-bar").click()
    assert page.one("waterfall")
    page.keys(Keys.ESCAPE)
    page.until(lambda: not page.all("waterfall"), "an end of the waterfall")
    page.size(390, 844)
    assert not page.all("p50")
    page.find("#timing-open").click()
    assert page.one("p50")
    page.find(".turn-bar").click()
    assert page.one("waterfall")
    assert page.focused() == "chip"
    assert not page.all("p50")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_controls_and_bars_stand_out(page: Page, theme: str):
    page.run("localStorage.setItem('duplexd', JSON.stringify({theme: arguments[0]}))", theme)
    page.run("location.reload()")
    page.one("start")
    colours = page.run(
        """
        const style = getComputedStyle(document.documentElement);
        const of = (name) => style.getPropertyValue(name).trim();
        const names = ["--edge", "--bar-ear", "--bar-mind", "--bar-voice", "--bar-outside"];
        return [["--bg", "--panel"].map(of), names.map(of)];
        """
    )
    for behind, front in itertools.product(*colours):
        assert contrast(behind, front) >= LEAST_CONTRAST, (behind, front)


def contrast(one: str, other: str) -> float:
    """Of two colours as #rrggbb, by WCAG 2.2."""

    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)
