"""A headless Chromium whose microphone is a WAV file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

MISSING = "there is no chromium with a chromedriver (on Debian: chromium, chromium-driver)"

PROBE = (Path(__file__).parent / "probe.js").read_text("utf-8")

_LANGUAGE = "en-US"

_FLAGS = (
    f"--lang={_LANGUAGE}",
    "--headless=new",
    "--no-sandbox",
    "--use-fake-device-for-media-stream",
    "--deny-permission-prompts",
    "--autoplay-policy=no-user-gesture-required",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    # a window that nobody looks at is as awake as any other
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)


def programs() -> tuple[str, str] | None:
    """Chromium and its driver, or None: selenium's own manager would fetch them."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


@contextmanager
def chromium(*, microphone: Path, args: Sequence[str] = ()) -> Iterator[webdriver.Chrome]:
    """Starts a browser in English, with a profile of its own.

    Args:
        microphone: WAV file that every `getUserMedia` hears from its start to its end.
        args: further flags.

    Raises:
        FileNotFoundError: there is no Chromium, or no driver of it.
    """
    found = programs()
    if found is None:
        raise FileNotFoundError(MISSING)
    program, driver = found
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.add_experimental_option("prefs", {"intl.accept_languages": _LANGUAGE})
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        file = f"--use-file-for-fake-audio-capture={microphone}%noloop"
        for flag in (*_FLAGS, f"--user-data-dir={profile}", *args, file):
            options.add_argument(flag)
        browser = webdriver.Chrome(options=options, service=Service(driver))
        try:
            browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["audioCapture"]})
            yield browser
        finally:
            browser.quit()
