"""Invariants: a page without an echo canceller, whose microphone hears its loudspeaker, holds a
conversation: the assistant neither interrupts nor answers itself, and a voice over it stops it.

The embedded recogniser and the embedded voice, so that the echo is heard as what it is.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.browser.chromium import chromium
from tests.browser.page import Page, Row
from tests.browser.sound import LEAST_POWER, Sound, write_microphone
from tests.conftest import Speech
from tests.daemon.process import DaemonProcess

pytestmark = [pytest.mark.alone, pytest.mark.models, pytest.mark.timeout(500)]

#: of the loudspeaker, in the microphone: -12 dB, and the way through the room
GAIN, DELAY_S = 0.25, 0.12
ECHO_DB, ECHO_DB_ABS = -12.0, 1.0
#: who asks; the assistant has another voice
USER = "zf_xiaoxiao"
#: bound of the time that the engines need to be warm, seconds
WARM_S = 180.0
#: after an answer the room stays as quiet, before it counts as not answered: longer than the echo,
#: the longest silence that ends a turn, and recognition, seconds
QUIET_S = 3.0
#: of the long answer, before somebody speaks over it, seconds
OVER_S = 2.0
#: the user waits so long before the next question, seconds
BREATH_S = 0.8
#: from the onset of that voice to the last audible sample of the answer, seconds
STOP_S = 0.6

QUESTIONS = (
    "天空为什么是蓝色的？",
    "What is the capital of France?",
    "明天会下雨吗？",
    "How far away is the moon?",
    "你最喜欢什么水果？",
    "Who wrote the play Hamlet?",
    "附近有好吃的餐厅吗？",
    "What time does the train leave?",
    "今天的新闻说了什么？",
    "Can you recommend a book?",
)
ANSWERS = (
    "因为空气把蓝光散射得最多。",
    "It is Paris, on the river Seine.",
    "明天多云，下午可能有小雨。",
    "A little more than a second, for light.",
    "大家都说芒果又香又甜。",
    "William Shakespeare did, in England.",
    "车站旁边有一家面馆。",
    "In ten minutes, from platform four.",
    "城里新开了一座图书馆。",
    "Read a novel about a white whale.",
)
LONG = "很久很久以前，山里住着一位老人，他每天清早都去河边打水，" * 4
STORY, OVER = "给我讲一个故事。", "等一下，我想问你另外一件事情。"
AFTER = "好的，您请说。"
SETS = {"scripted.replies": json.dumps([*ANSWERS, LONG, AFTER], ensure_ascii=False)}
ROOM = f"window.room = {{gain: {GAIN}, delay: {DELAY_S}}};"

# What is waited for is measured in the page: all of its sound, many times a second, is too much to
# fetch for a machine that recognises and speaks meanwhile.
#: for how long nothing has been louder in the microphone, seconds
STILL = """
const [{ rate, parts }] = probe.read();
let quanta = 0;
for (const [, part] of parts.toReversed()) {
  for (let at = part.length - 1; at > 0; at -= 3, quanta += 1) {
    if (part[at] > arguments[0]) return quanta * 128 / rate;
  }
}
return quanta * 128 / rate;
"""
#: how much was played that was louder, since a time, seconds
PLAYED = """
const [{ rate, parts }] = probe.read();
let quanta = 0;
for (const [start, part] of parts) {
  if (start < arguments[1]) continue;
  for (let at = 0; at < part.length; at += 3) quanta += part[at] > arguments[0];
}
return quanta * 128 / rate;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was there after the ten answers."""

    rows: list[Row]
    sound: Sound
    metrics: dict[str, float]


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with DaemonProcess(engines="scripted:llm=100@40", sets=SETS) as daemon:
        daemon.line(r" ready: ", timeout_s=WARM_S)  # the voice takes long where others work too
        yield daemon.ready()


@pytest.fixture(scope="module")
def page(daemon: DaemonProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page in a room, whose user has turned the canceller off."""
    microphone = write_microphone(tmp_path_factory.mktemp("room") / "quiet.wav", [], seconds=1)
    with chromium(microphone=microphone) as browser:
        page = Page(browser, listen=True)
        page.before(ROOM)
        page.size(1280, 800)
        page.open(daemon.http)
        page.press("cancel-echo")
        page.press("start")
        yield page


@pytest.fixture(scope="module")
def told(page: Page, daemon: DaemonProcess, speech: Speech) -> Told:
    """The conversation, until nothing more came after the tenth answer."""
    page.wait_state("listening")
    for count, question in enumerate(QUESTIONS, 1):
        say(page, speech, question)
        page.wait_row("assistant", count, states=("final", "cut"))
        settle(page, BREATH_S)
    settle(page, QUIET_S)
    return Told(rows=page.rows(), sound=page.sound(), metrics=daemon.metrics())


def say(page: Page, speech: Speech, text: str) -> tuple[float, float]:
    """Somebody in the room says something; when the voice begins and ends, on the page's clock."""
    samples = speech(text, voice=USER)
    pcm = np.rint(samples.clip(-1, 1) * 32767).astype("<i2").tobytes()
    at = page.run("return probe.say(arguments[0])", base64.b64encode(pcm).decode())
    voiced = np.flatnonzero(np.abs(samples) > LEAST_POWER**0.5) / 16_000
    return at + voiced[0], at + voiced[-1]


def settle(page: Page, quiet_s: float) -> None:
    """Waits until nothing has been heard in the room for so long."""
    page.wait_state("listening")
    page.until(lambda: page.run(STILL, LEAST_POWER) > quiet_s, "quiet in the room")


def test_the_microphone_hears_the_loudspeaker(page: Page, told: Told):
    (asked,) = page.run("return probe.asked")
    assert asked["audio"]["echoCancellation"] is False
    # nobody else spoke while the page did: what the microphone had then is its echo
    speaker, microphone = told.sound.speaker, told.sound.microphone
    step = float(speaker.times[1] - speaker.times[0])
    played = sum(
        float(speaker.power[inside(speaker.times, span.start, span.end)].sum())
        for span in speaker.spans(join_s=DELAY_S)
    )
    late = DELAY_S + 2 * step
    echoed = sum(
        float(microphone.power[inside(speaker.times, span.start + late, span.end + late)].sum())
        for span in speaker.spans(join_s=DELAY_S)
    )
    assert 10 * np.log10(echoed / played) == pytest.approx(ECHO_DB, abs=ECHO_DB_ABS)


def inside(times: NDArray[np.float64], start: float, end: float) -> NDArray[np.bool_]:
    return (times >= start) & (times < end)


def test_the_assistant_does_not_answer_itself(told: Told):
    assert [row.role for row in told.rows] == ["user", "assistant"] * len(QUESTIONS)
    assert told.metrics["turns_total{answered}"] == len(QUESTIONS)


def test_the_daemon_learns_what_the_echo_is_like(told: Told):
    halts = sum(n for name, n in told.metrics.items() if name.startswith("dismissed_total{"))
    # it heard it, and an answer that halts at every syllable cannot be listened to
    assert 0 < halts <= len(QUESTIONS)


def test_the_assistant_does_not_interrupt_itself(told: Told):
    answers = [row for row in told.rows if row.role == "assistant"]
    assert [(row.state, row.text, row.struck) for row in answers] == [
        ("final", answer, "") for answer in ANSWERS
    ]
    assert told.metrics.get("turns_total{interrupted}", 0.0) == 0.0


def test_a_voice_over_the_echo_stops_the_answer(page: Page, told: Told, speech: Speech):
    count = len(told.rows) // 2
    _, asked = say(page, speech, STORY)
    page.until(lambda: page.run(PLAYED, LEAST_POWER, asked) > OVER_S, "the beginning of the story")
    onset, end = say(page, speech, OVER)
    page.wait_row("assistant", count + 2)
    settle(page, QUIET_S)
    rows = page.rows()[len(told.rows) :]
    assert [row.role for row in rows] == ["user", "assistant"] * 2
    story, after = (row for row in rows if row.role == "assistant")
    assert LONG.startswith(story.text)
    assert 0 < len(story.text) < len(LONG)
    assert (after.state, after.text) == ("final", AFTER)
    spans = page.sound().speaker.spans()
    stopped = max(span.end for span in spans if span.start < end)
    print(f"silent {(stopped - onset) * 1000:.0f} ms after the onset")
    assert stopped <= onset + STOP_S
