"""Invariants: whoever cannot get in is told why, and gets in as soon as that has changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys
from websockets.sync.client import connect

from tests.browser.chromium import chromium
from tests.browser.page import Page, has_hanzi
from tests.browser.sound import write_microphone
from tests.daemon.process import DaemonProcess

KEY = "correct-horse-battery-staple"
#: what a browser writes about a handshake that was refused, or a page that is not there
FAILED_LOAD = r"Failed to load resource: (the server responded with a status of 4\d\d|net::ERR_)"
FAILED_SOCKET = r"WebSocket connection to .* failed"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A window that every test opens its own page in."""
    folder = tmp_path_factory.mktemp("refusals")
    microphone = write_microphone(folder / "silence.wav", [], seconds=1)
    with chromium(microphone=microphone) as browser:
        yield Page(browser)


@pytest.fixture(autouse=True)
def left(page: Page) -> Iterator[None]:
    """No page outlives its test, to complain in the console of the next one."""
    yield
    page.leave()


def test_a_full_server_lets_one_in_when_a_place_is_free(page: Page):
    page.allowed += [FAILED_LOAD, FAILED_SOCKET]
    with DaemonProcess(sets={"server.max_sessions": 1}) as daemon:
        with connect(daemon.ready().url) as other:
            assert "session.created" in str(other.recv())
            page.open(daemon.http).press("start")
            assert page.notice("full")
        page.wait_state("listening")
        page.until(lambda: not page.all("notice"), "an end of the notice")


def test_the_conversation_goes_on_after_a_restart(page: Page):
    page.allowed += [FAILED_LOAD, FAILED_SOCKET]
    with DaemonProcess() as first:
        page.open(first.ready().http).press("start")
        page.wait_state("listening")
        page.write("第一句")
        page.wait_row("assistant")
    page.wait_state("reconnecting")
    assert page.all("notice")
    with DaemonProcess(sets={"server.port": first.port}) as second:
        second.ready()
        page.run("dispatchEvent(new Event('online'))")  # or it would wait for its next try
        page.wait_state("listening")
        page.write("第二句")
        assert page.wait_row("assistant", 2).text == "你说的是：第二句"
        assert [row.state for row in page.rows()] == ["final"] * 4


def test_a_wrong_key_is_told_and_the_right_one_lets_in(page: Page, tmp_path: Path):
    page.allowed += [FAILED_LOAD]
    with DaemonProcess(
        sets={"server.require_key": "true", "server.keys_file": tmp_path / "keys.json"},
        env={"DUPLEXD_API_KEY": KEY},
    ) as daemon:
        daemon.line(r" ready: ")
        try:
            page.open(daemon.http)
            field = page.until(lambda: page.find("#key"), "a field for the key")
            field.send_keys("this-is-another-key", Keys.ENTER)
            assert "wrong" in page.until(lambda: page.find("#said").text, "word of the wrong key")
            assert field.get_attribute("aria-invalid") == "true"
            assert field.get_attribute("type") == "password"
            page.find("#show").click()
            assert field.get_attribute("type") == "text"
            page.find("#lang").click()
            assert has_hanzi(page.find("#title").text)
            page.find("#lang").click()
            assert not has_hanzi(page.find("#title").text)
            field.clear()
            field.send_keys(KEY, Keys.ENTER)
            page.press("start")
            page.wait_state("listening")
            assert KEY not in page.run("return location.href + document.documentElement.outerHTML")
        finally:
            page.leave()
