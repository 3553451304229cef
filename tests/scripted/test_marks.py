"""Invariant: a recogniser that reads marks knows what was spoken, wherever the sound was cut."""

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.scripted.asr import ScriptedAsr
from services.scripted.marks import PERIOD, MarkedSpeech, MarkReader, SpeechMark, mark_speech
from services.scripted.spec import ScriptedTexts

TEXT = "今天天气怎么样"
#: a character every 100 ms
ENDS = [1600 * (at + 1) for at in range(len(TEXT))]
SAMPLES = np.random.default_rng(1).normal(0, 3000, ENDS[-1] + 800).astype(np.int16)


def floats(samples):
    return samples.astype(np.float32) * np.float32(1 / 32768)


def test_a_mark_changes_no_sample_by_more_than_one():
    marked = mark_speech(SAMPLES, clip=7, ends=ENDS)
    assert np.abs(marked.astype(int) - SAMPLES).max() == 1
    assert len(marked) == len(SAMPLES)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 700), min_size=1, max_size=12), st.integers(0, 500))
def test_every_mark_is_read_once_whatever_the_blocks(sizes, lead):
    marked = mark_speech(SAMPLES, clip=65_535, ends=ENDS)
    stream = floats(np.concatenate((np.zeros(lead, np.int16), marked)))
    reader, read, at, number = MarkReader(), [], 0, 0
    while at < len(stream):
        size = sizes[number % len(sizes)]
        read += reader.feed(stream[at : at + size])
        at, number = at + size, number + 1
    count = (len(SAMPLES) - 80) // PERIOD + 1
    expected = [np.searchsorted(ENDS, PERIOD * mark, side="right") for mark in range(count)]
    assert [mark.chars for mark in read] == expected
    assert {mark.clip for mark in read} == {65_535}


def test_what_has_no_marks_gives_none():
    loud = np.random.default_rng(2).integers(-20_000, 20_000, 32_000).astype(np.int16)
    assert MarkReader().feed(floats(loud)) == []
    # a mark whose check is wrong is none
    broken = mark_speech(np.zeros(160, np.int16), clip=3, ends=[])
    broken[79] ^= 1
    assert MarkReader().feed(floats(broken)) == []
    whole = mark_speech(np.zeros(160, np.int16), clip=3, ends=[])
    assert MarkReader().feed(floats(whole)) == [SpeechMark(3, 0)]


def test_a_turn_holds_what_was_said_since_the_last_one():
    speech = MarkedSpeech({1: TEXT, 2: "what time is it"}.__getitem__)
    first = floats(mark_speech(SAMPLES, clip=1, ends=ENDS))
    speech.feed(first[: 3 * 1600 + 400])
    assert speech.text == "今天天"
    speech.clear()
    assert speech.text == ""
    speech.feed(first[3 * 1600 + 400 :])
    assert speech.text == "气怎么样"
    # the next clip in the same turn, and the same one once more
    speech.feed(floats(mark_speech(np.zeros(4000, np.int16), clip=2, ends=[400] * 15)))
    speech.feed(floats(mark_speech(np.zeros(4000, np.int16), clip=2, ends=[400] * 5)))
    assert speech.text == "气怎么样what time is itwhat"


@pytest.fixture
def recogniser():
    texts = ScriptedTexts(transcripts=["打开灯", TEXT])
    return ScriptedAsr(texts=texts, marked=True).open(session="s")


async def test_the_recogniser_gives_the_prefix_spoken_so_far(recogniser):
    sound = floats(mark_speech(SAMPLES, clip=2, ends=ENDS))
    recogniser.feed(np.zeros(800, np.float32))
    recogniser.feed(sound[:4000])
    assert (await recogniser.finalise()).text == "今天"
    recogniser.feed(np.zeros(8000, np.float32))
    assert (await recogniser.finalise()).text == "今天"
    recogniser.feed(sound[4000:])
    assert (await recogniser.finalise()).text == TEXT
    assert recogniser.turn == 1
    recogniser.reset()
    assert recogniser.turn == 2


async def test_a_cough_is_no_text_and_no_turn(recogniser):
    recogniser.feed(floats(SAMPLES))
    assert (await recogniser.finalise()).text == ""
    recogniser.reset()
    assert recogniser.turn == 1


async def test_partials_come_from_the_marks_too():
    told = asyncio.Queue()
    texts = ScriptedTexts(transcripts=[TEXT])
    engine = ScriptedAsr(texts=texts, marked=True, partial_every_s=0.2)
    recogniser = engine.open(session="s", on_partial=told.put_nowait)
    sound = floats(mark_speech(SAMPLES, clip=1, ends=ENDS))
    for at in range(0, len(sound), 512):
        recogniser.feed(sound[at : at + 512])
    async with asyncio.timeout(10):
        partials = [(await told.get()).text for _ in range(3)]
    assert all(TEXT.startswith(text) for text in partials)
    assert len(partials[0]) < len(partials[2])
