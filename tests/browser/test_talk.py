"""Invariants: a spoken question gets an audible answer, and speaking again silences it at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By

from services.scripted.tts import char_times
from tests.browser.chromium import chromium
from tests.browser.page import Page
from tests.browser.sound import Sound, Span, write_microphone
from tests.daemon.process import DaemonProcess
from tts_engine.text.stream import segment

#: (start, length) of the question and of the interruption, seconds of the microphone
QUESTION, INTERRUPTION = (0.6, 1.0), (5.6, 0.8)
MICROPHONE_S = 8.0
#: from the onset of a voice to the last audible sample of the answer, seconds
STOP_S = 0.4
#: processing between the file and the page, seconds: echo cancellation works in blocks
BLOCK_S = 0.05
#: between the energy rule of the page and that of the test, and the loudspeaker's own delay
CLOCKS_MS = 80
#: of durations as they are shown, a dozen of them
ROUNDED_MS = 10
#: how long a pause is
PAUSE_S = 1.0
#: the same moment on the same clock, summed up in two ways, seconds
ROUNDING_S = 1e-6
#: longest silence between two syllables, seconds
SYLLABLES_S = 0.3

pytestmark = pytest.mark.alone

QUESTIONS = ("为什么天空是蓝色的？", "等一下，换个话题。")
ANSWERS = (
    "天空是蓝色的，因为阳光在空气里散开了。" * 6,
    "好的，您说。",
    "月亮绕着地球转，一个月转一圈。",
)
#: lets a test bring the page a message, as if it came from the daemon
SOCKETS = """
    const sockets = [];
    window.WebSocket = class extends WebSocket {
      constructor(...args) {
        super(...args);
        sockets.push(this);
      }
    };
    window.receive = (event) => {
      const now = probe.now();
      const data = JSON.stringify(event);
      sockets.at(-1).dispatchEvent(new MessageEvent("message", { data }));
      return now;
    };
"""

SETS = {
    "scripted.transcripts": json.dumps(QUESTIONS, ensure_ascii=False),
    "scripted.replies": json.dumps(ANSWERS, ensure_ascii=False),
}


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with DaemonProcess(engines="scripted:asr=60,llm=100@50,tts=100", sets=SETS) as daemon:
        yield daemon.ready()


@pytest.fixture(scope="module")
def page(daemon: DaemonProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page after a conversation: a question, a long answer, an interruption, a short answer."""
    folder: Path = tmp_path_factory.mktemp("microphone")
    microphone = write_microphone(
        folder / "microphone.wav", [QUESTION, INTERRUPTION], seconds=MICROPHONE_S
    )
    with chromium(microphone=microphone) as browser:
        page = Page(browser, listen=True)
        page.before(SOCKETS)
        page.size(1280, 800)
        page.open(daemon.http)
        page.press("start")
        page.wait_row("assistant", 2)
        page.wait_state("listening")
        yield page


@pytest.fixture(scope="module")
def sound(page: Page) -> Sound:
    return page.quiet()


@pytest.fixture(scope="module")
def voice(sound: Sound) -> tuple[Span, Span]:
    """Question and interruption, as the page got them."""
    question, interruption = sound.microphone.spans(join_s=SYLLABLES_S)
    return question, interruption


@pytest.fixture(scope="module")
def answers(sound: Sound) -> tuple[Span, Span]:
    """What was audible of the two answers."""
    long, short = sound.speaker.spans(join_s=SYLLABLES_S)
    return long, short


def test_the_microphone_keeps_the_time_of_the_file(voice: tuple[Span, Span]):
    question, interruption = voice
    assert interruption.start - question.start == pytest.approx(
        INTERRUPTION[0] - QUESTION[0], abs=BLOCK_S
    )


def test_a_spoken_question_gets_an_audible_answer(
    page: Page, voice: tuple[Span, Span], answers: tuple[Span, Span]
):
    assert answers[0].start > voice[0].end
    assert answers[0].seconds > 1
    assert page.rows("user")[0].text == QUESTIONS[0]
    first = page.rows("assistant")[0]
    assert ANSWERS[0].startswith(first.text + first.struck)


def test_speaking_again_silences_the_answer(
    page: Page,
    voice: tuple[Span, Span],
    answers: tuple[Span, Span],
    record_property: Any,
):
    onset, stopped = voice[1].start, answers[0].end
    record_property("stop_ms", round((stopped - onset) * 1000))
    print(f"silent {(stopped - onset) * 1000:.0f} ms after the onset")
    assert onset < stopped <= onset + STOP_S
    assert page.rows("user")[1].text == QUESTIONS[1]


def test_what_was_cut_off_is_struck_through(page: Page):
    first, second = page.rows("assistant")
    assert (first.state, second.state) == ("cut", "final")
    assert first.text
    assert first.struck
    assert not second.struck


def test_the_next_answer_is_heard_to_its_end(
    page: Page, voice: tuple[Span, Span], answers: tuple[Span, Span]
):
    assert answers[1].start > voice[1].end
    assert page.rows("assistant")[1].text == ANSWERS[1]


def test_the_waterfall_explains_the_response_time(
    page: Page, voice: tuple[Span, Span], answers: tuple[Span, Span]
):
    for chip, before, after in zip(page.all("chip"), voice, answers, strict=True):
        shown = milliseconds(chip.text)
        assert shown == pytest.approx((after.start - before.end) * 1000, abs=CLOCKS_MS)
        chip.click()
        waterfall = page.one("waterfall")
        assert milliseconds(waterfall.find_element(By.TAG_NAME, "b").text) == shown
        parts = waterfall.find_elements(By.CSS_SELECTOR, "tbody tr td:last-child")
        assert sum(milliseconds(part.text) for part in parts) == pytest.approx(
            shown, abs=ROUNDED_MS
        )
    shown = sorted(milliseconds(chip.text) for chip in page.all("chip"))
    assert milliseconds(page.one("p50").text) == pytest.approx(sum(shown) / 2, abs=ROUNDED_MS)
    assert shown[0] <= milliseconds(page.one("p95").text) <= shown[1]


def milliseconds(text: str) -> float:
    """Reads a duration as the page writes it."""
    found = re.search(r"([\d.]+) (ms|s)\b", text)
    assert found, text
    return float(found[1]) * (1000 if found[2] == "s" else 1)


def test_a_pause_keeps_its_place(page: Page, answers: tuple[Span, Span]):
    page.write("月亮呢？")
    page.wait_state("speaking")

    def playing() -> bool:
        third = page.sound().speaker.spans(join_s=SYLLABLES_S)[2:]
        return bool(third) and third[0].seconds > PAUSE_S

    page.until(playing, "a second of the answer")
    paused = page.run("return receive({type: 'duplexd.playback.paused'})")
    page.wait_state("paused")
    page.until(lambda: page.run("return probe.now()") > paused + PAUSE_S, "time to pass")
    resumed = page.run("return receive({type: 'duplexd.playback.resumed'})")
    page.wait_row("assistant", 3)
    page.wait_state("listening")
    *earlier, before, after = page.quiet().speaker.spans(join_s=SYLLABLES_S)
    assert earlier == [*answers]
    assert paused - ROUNDING_S <= before.end <= paused + STOP_S
    assert resumed - ROUNDING_S <= after.start <= resumed + STOP_S
    whole = sum(char_times(clause.text)[-1] for clause in segment(ANSWERS[2]))
    assert before.seconds + after.seconds == pytest.approx(whole, abs=BLOCK_S)
