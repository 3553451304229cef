"""The talk page, as a person sees, hears and uses it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from selenium.common.exceptions import (
    NoSuchElementException,
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.chromium import PROBE
from tests.browser.sound import Sound

T = TypeVar("T")
#: bound of every wait, on a machine that others use as well, seconds
PATIENCE_S = 30.0
#: after so much silence an answer is over, seconds
QUIET_S = 0.4
#: elements that the tab key stops at, more than there are
MOST_TABS = 60


def has_hanzi(text: str) -> bool:
    """Whether there is a Chinese character in a text."""
    return re.search(r"[\u4e00-\u9fff]", text) is not None


@dataclass(frozen=True, slots=True)
class Row:
    """A turn of the transcript: "user" or "assistant"; "partial", "final" or "cut"."""

    role: str
    state: str
    text: str
    #: what follows the text, and is struck through
    struck: str


class Page:
    """One window of a browser.

    Args:
        browser: the browser; the page belongs to the window that it has now.
        listen: hear what the page plays, see `probe.js`. The probe is an audio worklet of a foreign
            address, so that the page's content security policy is off.
    """

    def __init__(self, browser: Chrome, *, listen: bool = False) -> None:
        self.browser = browser
        #: patterns of what may stand in the console
        self.allowed: list[str] = []
        self._window = browser.current_window_handle
        if listen:
            self.command("Page.setBypassCSP", enabled=True)
            self.before(PROBE)

    # --- the window -------------------------------------------------------------------------
    def front(self) -> None:
        """What follows is for this window."""
        if self.browser.current_window_handle != self._window:
            self.browser.switch_to.window(self._window)

    def leave(self) -> None:
        """Ends the page, which otherwise goes on trying to reach a daemon that is gone."""
        self.front()
        self.browser.get("about:blank")

    def open(self, address: str) -> Page:
        """Goes to an address; what was said in the console before is forgotten."""
        self.front()
        self.browser.get("about:blank")
        self.browser.get_log("browser")
        self.browser.get(address)
        return self

    def command(self, name: str, **params: Any) -> Any:
        """A command of the DevTools protocol."""
        self.front()
        return self.browser.execute_cdp_cmd(name, params)

    def before(self, script: str) -> None:
        """Runs a script at the start of every page of this window, before its own."""
        self.command("Page.addScriptToEvaluateOnNewDocument", source=script)

    def run(self, script: str, *args: Any) -> Any:
        """Runs a function body in the page."""
        self.front()
        return self.browser.execute_script(script, *args)

    def permit(self, name: str, origin: str, *, setting: str = "granted") -> None:
        """Answers what the browser asks before a page of `origin` may do something."""
        permission = {"name": name}
        self.command("Browser.setPermission", permission=permission, setting=setting, origin=origin)

    def size(self, width: int, height: int, *, scale: float = 1.0, mobile: bool = False) -> None:
        """Gives the window's inside a size, in CSS pixels."""
        self.front()
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=mobile,
        )

    def complaints(self) -> list[str]:
        """Errors and warnings in the console since the last call, but for the allowed ones."""
        return [
            entry["message"]
            for entry in self.browser.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING")
            and not any(re.search(pattern, entry["message"]) for pattern in self.allowed)
        ]

    # --- what one sees ----------------------------------------------------------------------
    def all(self, test_id: str) -> list[WebElement]:
        """The elements of a name that one can see."""
        self.front()
        found = self.browser.find_elements(By.CSS_SELECTOR, f'[data-testid="{test_id}"]')
        return [element for element in found if element.is_displayed()]

    def find(self, selector: str) -> WebElement:
        """The one element of a CSS selector that is there already."""
        self.front()
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def one(self, test_id: str) -> WebElement:
        """Waits for the element of a name to be seen."""
        return self.until(lambda: next(iter(self.all(test_id)), None), f"element {test_id}")

    def until(self, condition: Callable[[], T | None], what: str) -> T:
        """Waits until the condition gives something, and returns it."""
        self.front()

        def found(_: Chrome) -> T | Literal[False]:
            return condition() or False

        wait = WebDriverWait(
            self.browser,
            PATIENCE_S,
            poll_frequency=0.05,
            ignored_exceptions=(StaleElementReferenceException, NoSuchElementException),
        )
        try:
            return wait.until(found)
        except TimeoutException:
            raise AssertionError(
                f"{what} did not come; the page is {self.state!r} and says: {self.text}; "
                f"its console: {self.complaints()}"
            ) from None

    @property
    def state(self) -> str:
        """The name of what goes on."""
        return self.run("return document.body?.dataset.state ?? ''")

    def wait_state(self, *states: str) -> str:
        """Waits until the page is in one of the states."""
        return self.until(lambda: self.state if self.state in states else None, f"{states}")

    @property
    def text(self) -> str:
        """All that is written on the page."""
        return self.run("return document.body?.innerText ?? ''")

    def rows(self, role: str | None = None) -> list[Row]:
        """The turns of the transcript."""
        found = self.run(
            """
            const rows = document.querySelectorAll('[data-testid="turn"]');
            return [...rows].map((row) => {
              const text = row.querySelector(".text").cloneNode(true);
              text.querySelectorAll(".unseen").forEach((each) => each.remove());
              const struck = text.querySelector("del")?.textContent ?? "";
              text.querySelector("del")?.remove();
              return [row.dataset.role, row.dataset.state, text.textContent, struck];
            });
            """
        )
        return [row for each in found if (row := Row(*each)).role == (role or row.role)]

    def wait_row(self, role: str, count: int = 1, *, states: tuple[str, ...] = ("final",)) -> Row:
        """Waits for the count-th row of a role to be in one of the states."""

        def there() -> Row | None:
            rows = self.rows(role)
            return (
                rows[count - 1] if len(rows) >= count and rows[count - 1].state in states else None
            )

        return self.until(there, f"row {count} of the {role} in {states}")

    def notice(self, code: str) -> str:
        """Waits for the message of a code; returns its text."""

        def there() -> str | None:
            shown = [each for each in self.all("notice") if each.get_attribute("data-code") == code]
            return shown[0].text if shown else None

        return self.until(there, f"notice {code}")

    # --- what one does ----------------------------------------------------------------------
    def press(self, test_id: str) -> None:
        """Clicks."""
        self.one(test_id).click()

    def write(self, text: str) -> None:
        """Writes a message and sends it with the enter key."""
        field = self.one("text-input")
        field.clear()
        field.send_keys(text, Keys.ENTER)

    def keys(self, *keys: str) -> None:
        """Presses keys, wherever the focus is."""
        self.front()
        ActionChains(self.browser).send_keys(*keys).perform()

    def focused(self) -> str:
        """The name of the element that has the focus."""
        return self.run("return document.activeElement?.dataset.testid ?? ''")

    def tab_to(self, test_id: str) -> None:
        """Presses the tab key until an element has the focus."""
        for _ in range(MOST_TABS):
            if self.focused() == test_id:
                return
            self.keys(Keys.TAB)
        raise AssertionError(f"the tab key does not lead to {test_id}")

    # --- what one hears ---------------------------------------------------------------------
    def sound(self) -> Sound:
        """The page's one audio context that has a loudspeaker."""
        (context,) = self.run("return probe.read()")
        return Sound.read(context)

    def quiet(self) -> Sound:
        """Waits until what was played is over; returns all of it."""

        def over() -> Sound | None:
            sound = self.sound()
            spans = sound.speaker.spans()
            return sound if spans and sound.speaker.times[-1] > spans[-1].end + QUIET_S else None

        return self.until(over, "silence")
