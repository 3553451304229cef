"""Invariants: a voice is made of a recording, heard, chosen and deleted on the page; what is
missing is told; where the engine cannot clone, all else works.

The page's content security policy is in force here: nothing of these tests is in the page.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from services.scripted.speech import synthetic_speech
from tests.browser.background import in_background
from tests.browser.chromium import chromium
from tests.browser.page import Page, has_hanzi
from tests.browser.sound import write_microphone
from tests.daemon.process import DaemonProcess
from tests.tts_service.served import CloningVoice, recording

SERVICE = {"speech.service": "true"}
SAID = "你好，我是小明。"
#: what a browser writes about a request that was refused
REFUSED = r"Failed to load resource: the server responded with a status of (404|409)"
#: seconds that are recorded at least
ENOUGH_S = 2.0
#: CSS pixels: the narrowest phone, a phone on its side, a tablet, a desktop
SCREENS = ((320, 568), (844, 390), (820, 1180), (1440, 900))


@pytest.fixture(scope="module")
def voice() -> CloningVoice:
    return CloningVoice()


@pytest.fixture(scope="module")
def address(voice: CloningVoice) -> Iterator[str]:
    with in_background(voice, SERVICE) as address:
        yield address


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A window whose microphone hears somebody speak."""
    folder = tmp_path_factory.mktemp("voices")
    microphone = write_microphone(folder / "speech.wav", [(0.0, 30.0)], seconds=30)
    with chromium(microphone=microphone) as browser:
        yield Page(browser)


@pytest.fixture
def page(window: Page, address: str, voice: CloningVoice) -> Page:
    """The voices, as nobody has used them yet."""
    voice.cloned.clear()
    window.size(1280, 800)
    window.permit("microphone", address)
    window.open(address)
    window.run("localStorage.clear()")
    window.open(f"{address}/#voices").one("voice-row")
    return window


def rows(page: Page) -> list[str]:
    """The voices of the list."""
    return [row.get_attribute("data-voice") or "" for row in page.all("voice-row")]


def offered(page: Page, test_id: str) -> list[str]:
    """What there is to choose."""
    script = "return [...document.querySelector(arguments[0]).options].map(({value}) => value)"
    return page.run(script, f'[data-testid="{test_id}"]')


def button(page: Page, act: str, voice: str) -> WebElement:
    """A button of a voice in the list."""
    return page.find(f'[data-testid="voice-{act}"][data-voice="{voice}"]')


def seconds(page: Page) -> float:
    """Of the recording, as it is shown."""
    return float(page.one("source-file").text.split()[-2])


def record(page: Page) -> None:
    """Records some seconds."""
    page.press("record")
    page.until(lambda: seconds(page) >= ENOUGH_S, "some seconds of a recording")
    page.press("record")
    page.until(lambda: page.one("record").text == "Record again", "an end of the recording")


def fill(page: Page, *, name: str, text: str = SAID) -> None:
    """All but the recording."""
    page.one("clone-text").send_keys(text)
    page.one("clone-name").send_keys(name)
    page.one("clone-consent").click()


def upload(page: Page, path: Path, data: bytes) -> None:
    """Chooses a file."""
    path.write_bytes(data)
    page.find('[data-testid="clone-file"]').send_keys(str(path))


def shown_error(page: Page) -> str:
    return page.one("clone-error").text


def listened(page: Page, voice: str) -> None:
    """Presses play, waits until it plays, and until it has ended."""
    button(page, "listen", voice).click()
    for state in ("yes", "no"):
        page.until(
            lambda state=state: button(page, "listen", voice).get_attribute("data-on") == state,
            f"{voice}: playing: {state}",
        )


def test_a_voice_is_recorded_made_heard_chosen_and_deleted(page: Page, voice: CloningVoice):
    record(page)
    fill(page, name="小明")
    page.press("clone-go")
    page.until(lambda: rows(page) == ["小明", "one", "two"], "the voice in the list")
    assert voice.cloned["小明"].text == SAID
    assert "agreed" in voice.cloned["小明"].consent
    samples, rate = soundfile.read(io.BytesIO(voice.heard[-1]))
    assert rate == 24_000
    assert len(samples) / rate >= ENOUGH_S
    assert np.abs(samples).max() > 0.05
    assert page.one("clone-name").get_attribute("value") == ""
    page.until(lambda: offered(page, "voice") == ["one", "two", "小明"], "the voice to talk with")
    assert offered(page, "say-voice") == ["one", "two", "小明"]
    assert page.one("say-voice").get_attribute("value") == "小明"
    page.one("say-text").send_keys("好的。")
    listened(page, "小明")
    assert voice.used[-1] == "小明"
    delete(page, "小明", answer="question-no")
    assert "小明" in rows(page)
    assert "小明" in voice.cloned
    delete(page, "小明", answer="question-yes")
    page.until(lambda: rows(page) == ["one", "two"], "an end of the voice")
    page.until(lambda: offered(page, "voice") == ["one", "two"], "it is not offered any more")
    assert not voice.cloned


def delete(page: Page, voice: str, *, answer: str) -> None:
    """Presses delete, and answers the question."""
    button(page, "delete", voice).click()
    assert voice in page.one("question").text
    page.press(answer)
    page.until(lambda: not page.all("question"), "an end of the question")


def test_a_file_is_sent_as_it_is(page: Page, voice: CloningVoice, tmp_path: Path):
    data = recording(form="FLAC")
    upload(page, tmp_path / "mine.flac", data)
    page.until(lambda: "mine.flac" in page.one("source-file").text, "the file's name")
    assert seconds(page) == pytest.approx(3.0, abs=0.1)
    fill(page, name="flac")
    page.press("clone-go")
    page.until(lambda: "flac" in rows(page), "the voice")
    assert voice.heard[-1] == data


def test_what_only_browsers_read_is_made_a_wav_file(
    page: Page, voice: CloningVoice, tmp_path: Path
):
    upload(page, tmp_path / "memo.webm", webm(seconds=3.0))
    page.until(lambda: "memo.webm" in page.one("source-file").text, "the file's name")
    fill(page, name="memo")
    page.press("clone-go")
    page.until(lambda: "memo" in rows(page), "the voice")
    samples, rate = soundfile.read(io.BytesIO(voice.heard[-1]))
    assert len(samples) / rate == pytest.approx(3.0, abs=0.1)


def webm(*, seconds: float) -> bytes:
    """What MediaRecorder makes, or a phone."""
    rate, file = 48_000, io.BytesIO()
    with av.open(file, "w", format="webm") as container:
        stream = container.add_stream("libopus", rate=rate, layout="mono")
        samples = synthetic_speech(seconds=seconds, rate=rate)
        frame = av.AudioFrame.from_ndarray(samples[None, :], format="s16", layout="mono")
        frame.sample_rate = rate
        for packet in (*stream.encode(frame), *stream.encode(None)):
            container.mux(packet)
    return file.getvalue()


def test_what_is_missing_is_told_one_after_the_other(
    page: Page, voice: CloningVoice, tmp_path: Path
):
    heard = len(voice.heard)

    def told(word: str) -> None:
        page.press("clone-go")
        page.until(lambda: word in shown_error(page), word)

    told("Record something")
    upload(page, tmp_path / "short.wav", recording(0.4))
    page.until(lambda: "shorter" in shown_error(page), "word of its length")
    upload(page, tmp_path / "long.wav", recording(31))
    page.until(lambda: "longer" in shown_error(page), "word of its length")
    upload(page, tmp_path / "none.webm", b"\x1a\x45\xdf\xa3 and no more")
    page.until(lambda: "cannot read" in shown_error(page), "word of what it is")
    upload(page, tmp_path / "good.wav", recording())
    page.until(lambda: "good.wav" in page.one("source-file").text, "the file")
    told("Write down")
    assert page.focused() == "clone-text"
    assert page.one("clone-text").get_attribute("aria-invalid") == "true"
    page.keys(SAID)
    assert not page.all("clone-error")
    told("a name")
    page.keys("no spaces")
    told("A name has")
    assert page.focused() == "clone-name"
    page.one("clone-name").clear()
    page.one("clone-name").send_keys("one")
    told("agreed")
    page.keys(Keys.SPACE)
    assert page.one("clone-consent").is_selected()
    page.allowed.append(REFUSED)
    told("a voice of that name")
    assert page.focused() == "clone-name"
    page.press("lang")
    assert not page.all("clone-error")
    page.press("clone-go")
    page.until(lambda: has_hanzi(shown_error(page)), "the same in Chinese")
    assert len(voice.heard) == heard


def test_what_the_service_says_of_a_recording_is_shown(page: Page, tmp_path: Path):
    page.allowed.append(r"status of 400")
    upload(page, tmp_path / "text.wav", b"this is no sound")
    page.until(lambda: "text.wav" in page.one("source-file").text, "the file")
    assert not page.all("source-play")
    fill(page, name="text")
    page.press("clone-go")
    page.until(lambda: "no sound file" in shown_error(page), "the service's word")
    assert page.focused() == "record"
    assert rows(page) == ["one", "two"]


def test_a_recording_can_be_heard_before_it_is_sent(page: Page, tmp_path: Path):
    upload(page, tmp_path / "mine.wav", recording(1.5))
    page.press("source-play")
    playing = page.one("source-play")
    page.until(lambda: playing.get_attribute("data-on") == "yes", "playing")
    page.until(lambda: playing.get_attribute("data-on") == "no", "its end")
    page.press("source-play")
    page.press("source-play")
    page.until(lambda: playing.get_attribute("data-on") == "no", "its end")


def test_a_denied_microphone_is_told_and_a_file_will_do(page: Page, address: str, tmp_path: Path):
    page.permit("microphone", address, setting="denied")
    page.press("record")
    assert page.notice("mic-denied")
    assert page.one("record").text == "Record"
    upload(page, tmp_path / "mine.wav", recording())
    page.until(lambda: "mine.wav" in page.one("source-file").text, "the file")


def test_the_keyboard_is_enough(page: Page):
    page.run("location.hash = ''; location.reload()")
    page.tab_to("tab-talk")
    page.keys(Keys.ARROW_RIGHT)
    page.one("voice-row")
    assert page.focused() == "tab-voices"
    assert page.one("tab-voices").get_attribute("aria-selected") == "true"
    assert not page.all("text-input")
    page.keys(Keys.HOME)
    assert page.one("text-input")
    page.keys(Keys.END)
    assert page.focused() == "tab-devices"
    page.keys(Keys.ARROW_LEFT, "/")
    assert page.focused() == "say-text"
    page.one("say-text").send_keys("一二三四五六七八九十" * 5, Keys.CONTROL, Keys.ENTER)
    page.until(lambda: page.one("say-go").text == "Stop", "speech")
    page.keys(Keys.ESCAPE)
    page.until(lambda: page.one("say-go").text == "Speak", "silence")
    page.tab_to("record")
    page.keys(Keys.SPACE)
    page.until(lambda: page.one("record").text == "Stop recording", "a recording")
    page.keys(Keys.ESCAPE)
    page.until(lambda: page.one("record").text == "Record again", "its end")
    page.tab_to("tab-voices")
    page.keys(Keys.ARROW_LEFT)
    assert page.one("text-input")


def test_the_conversation_keeps_still_meanwhile(page: Page):
    page.press("start")
    page.wait_state("listening", "hearing", "thinking", "speaking")
    page.press("record")
    page.wait_state("muted")
    page.press("record")
    page.wait_state("listening", "hearing", "thinking", "speaking")
    page.one("say-text").send_keys("一二三四五六七八九十" * 3)
    page.press("say-go")
    page.wait_state("muted")
    page.press("tab-talk")
    page.wait_state("listening", "hearing", "thinking", "speaking")
    page.press("stop")
    page.wait_state("idle")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_nothing_sticks_out(
    page: Page, screen: tuple[int, int], language: str, voice: CloningVoice
):
    voice.cloned["x" * 64] = CloningVoice("x" * 64).cloned["x" * 64]
    page.run("localStorage.setItem('duplexd', JSON.stringify({lang: arguments[0]}))", language)
    page.run("location.reload()")
    page.size(*screen)
    page.until(lambda: "x" * 64 in rows(page), "a long name")
    page.press("say-go")
    page.one("say-first")
    assert has_hanzi(page.one("say-go").text) == (language == "zh")
    wide = page.run(
        """
        const voices = document.getElementById("voices");
        return [document.documentElement.scrollWidth, voices.scrollWidth - voices.clientWidth];
        """
    )
    assert wide == [screen[0], 0]
    for name in ("tab-talk", "tab-voices", "lang", "theme"):
        box = page.one(name).rect
        assert box["x"] >= 0, name
        assert box["x"] + box["width"] <= screen[0], name


def test_an_engine_that_cannot_clone_says_so_and_speaks(window: Page):
    with DaemonProcess(sets=SERVICE) as daemon:
        window.open(f"{daemon.ready().http}/#voices")
        assert "cannot clone" in window.one("clone-off").text
        assert not window.all("clone-fields")
        assert window.find("#clone-fields").get_property("disabled")
        assert rows(window) == ["one", "two"]
        listened(window, "two")
        assert window.one("say-voice").get_attribute("value") == "two"
        assert window.complaints() == []
        window.leave()


def test_a_daemon_without_the_service_says_what_mends_it(window: Page):
    with DaemonProcess(sets={"speech.service": "false"}) as daemon:
        window.open(f"{daemon.ready().http}/#voices")
        assert "speech.service: true" in window.one("voices-off").text
        assert not window.all("say-go")
        assert not window.all("clone")
        assert not window.all("notice")
        window.leave()


def test_a_daemon_that_is_gone_is_told_and_asked_again(window: Page):
    with DaemonProcess(sets=SERVICE) as first:
        window.open(f"{first.ready().http}/#voices").one("voice-row")
    window.press("say-go")
    assert window.notice("unloaded")
    window.press("tab-talk")
    window.press("tab-voices")
    assert window.notice("service-unreachable")
    with DaemonProcess(sets={**SERVICE, "server.port": first.port}) as second:
        second.ready()
        window.find("#notice-act").click()
        window.until(lambda: not window.all("notice"), "an end of the notice")
        listened(window, "one")
        window.leave()
