"""Invariants: a device that waits appears on the page by itself, is let in by its code, and taken
out again; what is wrong is told.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from services.scripted.tts import ScriptedVoice
from services.xiaozhi.device_file import DeviceFile
from tests.browser.background import in_background
from tests.browser.chromium import chromium
from tests.browser.page import Page, has_hanzi
from tests.browser.sound import write_microphone

MAC, OTHER = "aa:bb:cc:dd:ee:01", "aa:bb:cc:dd:ee:02"
#: CSS pixels: the narrowest phone, a phone on its side, a desktop
SCREENS = ((320, 568), (844, 390), (1440, 900))
REFUSED = r"Failed to load resource: the server responded with a status of (400|404)"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> DeviceFile:
    return DeviceFile(tmp_path_factory.mktemp("devices") / "devices.json")


@pytest.fixture(scope="module")
def address(file: DeviceFile) -> Iterator[str]:
    sets = {
        "xiaozhi.devices_file": file.path,
        "xiaozhi.auth": "on",
        "xiaozhi.enrolment": "code",
    }
    with in_background(ScriptedVoice(), sets) as address:
        yield address


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("window")
    with chromium(microphone=write_microphone(folder / "quiet.wav", [], seconds=1)) as browser:
        yield Page(browser)


@pytest.fixture
def page(window: Page, address: str, file: DeviceFile) -> Page:
    """The devices, as nobody has let any in."""
    file.path.unlink(missing_ok=True)
    window.size(1280, 800)
    window.open(address)
    window.run("localStorage.clear()")
    window.open("about:blank").open(f"{address}/#devices").one("admit")
    return window


def boots(address: str, mac: str = MAC) -> str:
    """A device asks the OTA address; gives its code."""
    headers = {"Device-Id": mac, "Client-Id": f"uuid-{mac}", "User-Agent": "kitchen-box/2.2.2"}
    answer = httpx.post(f"{address}/xiaozhi/ota/", headers=headers, json={}).json()
    return answer["activation"]["code"]


def rows(page: Page) -> list[str]:
    return [row.get_attribute("data-device") or "" for row in page.all("device-row")]


def test_a_device_is_let_in_and_taken_out(page: Page, address: str, file: DeviceFile):
    assert f"{address}/xiaozhi/ota/" in page.one("devices-none").text
    code = boots(address)
    page.until(lambda: rows(page) == [MAC], "the device, without a reload")
    row = page.one("device-row")
    assert "Waiting" in row.text
    assert "kitchen-box 2.2.2" in row.text
    assert code in page.one("device-use").text
    page.press("device-use")
    assert page.focused() == "admit-name"
    page.keys("kitchen")
    page.press("admit-go")
    page.until(lambda: not page.all("device-use"), "an end of its waiting")
    assert page.one("device-row").text.startswith("kitchen")
    [known] = file.read().devices
    assert (known.id, known.name) == (MAC, "kitchen")
    assert page.one("admit-code").get_attribute("value") == ""
    page.press("device-revoke")
    assert "kitchen" in page.one("question").text
    page.press("question-no")
    assert file.read().devices
    page.press("device-revoke")
    page.press("question-yes")
    page.until(lambda: rows(page) == [], "an end of it")
    assert not file.read().devices


def test_a_code_that_nobody_shows_is_told(page: Page, address: str, file: DeviceFile):
    page.allowed.append(REFUSED)
    page.press("admit-go")
    page.until(lambda: "Enter the code" in page.one("admit-error").text, "what is missing")
    assert page.one("admit-code").get_attribute("aria-invalid") == "true"
    code = boots(address)
    page.one("admit-code").send_keys("nobody")
    page.press("admit-go")
    page.until(lambda: "No device waits" in page.one("admit-error").text, "why")
    page.one("admit-code").clear()
    page.one("admit-code").send_keys(code)
    assert not page.all("admit-error")
    page.press("admit-go")
    page.until(lambda: bool(file.read().devices), "the device is in")


def test_a_list_that_is_looked_at_again_keeps_what_is_typed(page: Page, address: str):
    page.one("admit-code").send_keys("12")
    boots(address)
    page.until(lambda: rows(page) == [MAC], "the first")
    boots(address, OTHER)
    page.until(lambda: sorted(rows(page)) == [MAC, OTHER], "the second")
    assert page.one("admit-code").get_attribute("value") == "12"
    assert page.focused() == "admit-code"


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_nothing_sticks_out(page: Page, address: str, screen: tuple[int, int], language: str):
    boots(address)
    page.run("localStorage.setItem('duplexd', JSON.stringify({lang: arguments[0]}))", language)
    page.run("location.reload()")
    page.size(*screen)
    page.until(lambda: rows(page) == [MAC], "the device")
    assert has_hanzi(page.one("admit-go").text) == (language == "zh")
    wide = page.run(
        """
        const devices = document.getElementById("devices");
        return [document.documentElement.scrollWidth, devices.scrollWidth - devices.clientWidth];
        """
    )
    assert wide == [screen[0], 0]


def test_a_daemon_without_devices(window: Page):
    window.allowed.append(REFUSED)
    with in_background(ScriptedVoice(), {"xiaozhi.enabled": False}) as address:
        window.open(f"{address}/#devices")
        assert "xiaozhi.enabled" in window.one("devices-off").text
        assert not window.all("admit")
        window.leave()
