"""`make screenshots`: photographs the talk page, in a real conversation with scripted engines.

Needs Chromium with its driver, and a font with Hanzi. Writes docs/screenshots/.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from selenium.webdriver.common.keys import Keys

from tests.browser.chromium import MISSING, chromium, programs
from tests.browser.page import Page, has_hanzi
from tests.browser.sound import write_microphone
from tests.daemon.process import ROOT, DaemonProcess

FOLDER = ROOT / "docs" / "screenshots"
#: bytes of a picture; one that is larger gets a palette
MOST_BYTES = 250_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """A device: its name in the file names, and its inside in CSS pixels."""

    name: str
    width: int
    height: int
    scale: float
    mobile: bool


PHONE = Screen(name="phone", width=390, height=844, scale=2, mobile=True)
DESKTOP = Screen(name="desktop", width=1280, height=800, scale=1, mobile=False)

#: (start, length) of what the microphone hears, seconds: two questions, one that interrupts the
#: second answer, and the last one
VOICED = ((0.5, 1.3), (9.5, 1.2), (18.0, 1.0), (27.0, 1.2))
MICROPHONE_S = 30.0
TRANSCRIPTS = (
    "为什么天空是蓝色的？",
    "And why is it red at sunset?",
    "等一下，那月亮呢？",
    "So the air is a filter?",
)
REPLIES = (
    "阳光里什么颜色都有。空气把蓝光散射得最多，所以抬头看，到处都是蓝的。",
    "At sunset, the light crosses so much more air that most of the blue is lost on the way, and "
    "red is what is left to reach you.",
    "月亮自己不发光。它靠近地平线时，光也要穿过很厚的空气，所以看起来偏红。",
    "Yes, it lets red pass and throws blue around. On Mars it is the other way round: pink days, "
    "and blue sunsets.",
)
SETS = {
    "scripted.transcripts": json.dumps(TRANSCRIPTS, ensure_ascii=False),
    "scripted.replies": json.dumps(REPLIES, ensure_ascii=False),
    # this machine also draws the page and packs the pictures: playback shall not run dry of that
    "realtime.lead_ms": 800,
}
ENGINES = "scripted:asr=90,llm=180@40,tts=160@4"
KEY = "a-key-that-only-this-daemon-knows"


class Photographer:
    """Takes pictures of one page.

    Args:
        page: in a window of its own.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self.theme("light")

    def theme(self, theme: str) -> None:
        """What the system of the person prefers."""
        self._page.command(
            "Emulation.setEmulatedMedia",
            features=[
                {"name": "prefers-color-scheme", "value": theme},
                {"name": "prefers-reduced-motion", "value": "reduce"},
            ],
        )

    def screen(self, screen: Screen) -> None:
        """Puts the page on a device."""
        self._page.size(screen.width, screen.height, scale=screen.scale, mobile=screen.mobile)

    def settle(self) -> None:
        """Waits until the page has been painted in its new size and colours."""
        self._page.browser.execute_async_script(
            """
            const done = arguments[0];
            const painted = () => new Promise((go) =>
              requestAnimationFrame(() => requestAnimationFrame(go)));
            const finite = (each) => each.effect.getComputedTiming().endTime < 2000;
            painted()
              .then(() => Promise.allSettled(
                document.getAnimations().filter(finite).map((each) => each.finished)))
              .then(painted)
              .then(done);
            """
        )

    def take(self, screen: Screen, state: str, *, dark: bool = False) -> None:
        """Takes one picture, at once."""
        self.theme("dark" if dark else "light")
        self.screen(screen)
        self.settle()
        png = self._page.browser.get_screenshot_as_png()
        path = FOLDER / f"{screen.name}-{state}{'-dark' if dark else ''}.png"
        path.write_bytes(small(png))
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1000:.0f} kB")


def small(png: bytes) -> bytes:
    """The same picture in fewer bytes."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    result = _written(picture)
    if len(result) > MOST_BYTES:
        result = _written(picture.quantize(256, dither=Image.Dither.NONE))
    return result


def _written(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()


@contextmanager
def serving(**options: Any) -> Iterator[str]:
    """A daemon that is ready; its address."""
    with DaemonProcess(**options) as daemon:
        daemon.line(r" ready: ")
        yield daemon.http


def conversation(page: Page, photographer: Photographer) -> None:
    """Four spoken turns, one of them interrupted; then what they took.

    The desktop's page is in English, the phone's in Chinese.
    """
    page.press("start")
    page.wait_row("user", 4)
    page.wait_state("speaking")
    page.until(lambda: len(page.rows("assistant")[-1].text) > 30, "a part of the last answer")
    photographer.take(DESKTOP, "speaking")
    photographer.take(DESKTOP, "speaking", dark=True)
    page.press("lang")
    photographer.take(PHONE, "speaking")
    photographer.take(PHONE, "speaking", dark=True)
    page.wait_row("assistant", 4)
    page.wait_state("listening")
    photographer.take(PHONE, "listening")
    photographer.take(PHONE, "listening", dark=True)
    page.all("chip")[-1].click()
    photographer.take(PHONE, "waterfall")
    photographer.take(PHONE, "waterfall", dark=True)
    page.press("lang")
    photographer.take(DESKTOP, "waterfall")
    photographer.take(DESKTOP, "waterfall", dark=True)


def listening(page: Page, photographer: Photographer) -> None:
    """Before the first word."""
    page.press("start")
    page.wait_state("listening")
    photographer.take(DESKTOP, "listening")


def denied(page: Page, photographer: Photographer, origin: str) -> None:
    """An error: the microphone is denied."""
    page.permit("microphone", origin, setting="denied")
    page.press("start")
    page.notice("mic-denied")
    photographer.take(DESKTOP, "error")
    page.press("lang")
    photographer.take(PHONE, "error")


def key_page(page: Page, photographer: Photographer) -> None:
    """A daemon that asks for a key, and got a wrong one."""
    page.until(lambda: page.find("#key"), "the field").send_keys("not-the-right-key", Keys.ENTER)
    page.until(lambda: page.find("#said").text, "word of the wrong key")
    photographer.take(DESKTOP, "key")
    page.run("localStorage.setItem('duplexd', JSON.stringify({lang: 'zh'})); location.reload()")
    page.until(lambda: has_hanzi(page.text), "the page in Chinese")
    photographer.take(PHONE, "key", dark=True)


def main() -> int:
    """Takes all pictures."""
    if programs() is None:
        print(f"error: {MISSING}", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        microphone = write_microphone(Path(folder) / "mic.wav", VOICED, seconds=MICROPHONE_S)
        keys = Path(folder) / "keys.json"
        with chromium(microphone=microphone, args=("--hide-scrollbars",)) as browser:
            page = Page(browser)
            photographer = Photographer(page)
            page.size(DESKTOP.width, DESKTOP.height)
            with serving(engines=ENGINES, sets=SETS) as address:
                listening(page.open(address), photographer)
                conversation(page.open(address), photographer)
                denied(page.open(address), photographer, address)
            with serving(
                sets={"server.require_key": "true", "server.keys_file": keys},
                env={"DUPLEXD_API_KEY": KEY},
            ) as address:
                key_page(page.open(address), photographer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
