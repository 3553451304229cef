"""Invariants: how a text was cut into pieces changes nothing, what must not be said is seen, and
louder speech is never cut off.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts_engine.audio.gain import with_gain
from tts_engine.errors import BadRequest, ConfigError, TimedOut
from tts_engine.service.feed import TextFeed, TextTooLong
from tts_engine.service.shaping import MAX_SPEED, MIN_SPEED, Shaping
from tts_engine.service.words import BlockedText, BlockedWords

TEXT = "好的，今天天气很好。Let us go to the park, then eat. 价格是12元！" * 3


async def clauses(feed: TextFeed) -> list[str]:
    return [clause.raw async for clause in feed.clauses()]


@given(st.lists(st.integers(0, len(TEXT)), max_size=8))
def test_pieces_make_the_clauses_of_the_whole(cuts: list[int]):
    async def both() -> tuple[list[str], list[str]]:
        feed = TextFeed()
        places = [0, *sorted(cuts), len(TEXT)]
        reading = asyncio.create_task(clauses(feed))
        for start, end in pairwise(places):
            feed.push(TEXT[start:end])
            await asyncio.sleep(0)
        feed.finish()
        assert (feed.text, feed.chars) == (TEXT, len(TEXT))
        return await reading, await clauses(TextFeed.whole(TEXT))

    pieces, whole = asyncio.run(both())
    assert pieces == whole
    assert "".join(pieces) == TEXT


async def test_a_piece_too_much_is_not_taken():
    feed = TextFeed(most=5)
    feed.push("12345")
    with pytest.raises(TextTooLong):
        feed.push("6")
    feed.finish()
    assert feed.text == "12345"


async def test_a_text_is_awaited_for_so_long():
    with pytest.raises(TimedOut):
        await TextFeed(idle_s=0.01).begun()
    feed = TextFeed(idle_s=0.01)
    feed.push("好")
    await feed.begun()
    with pytest.raises(TimedOut):
        await clauses(feed)


def test_texts_are_told_apart_by_a_hash():
    one, same, other = map(TextFeed.whole, ("你好", "你好", "再见\ud800"))
    assert one.digest == same.digest != other.digest
    assert len(one.digest) == 12


# --- words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["坏词", "坏 词", "坏，词", "x坏词x", "an ASS", "a ｓｐａｍ-Egg!", "spam, egg"]
)
def test_a_blocked_word_is_found_however_it_is_written(text: str):
    with pytest.raises(BlockedText):
        BlockedWords(["坏词", "ass", "Spam egg"])(text)


@pytest.mark.parametrize("text", ["坏的词", "a class", "assess", "spam", "egg spam", "eggspam", ""])
def test_other_words_are_not(text: str):
    BlockedWords(["坏词", "ass", "Spam egg", "", "。", "..."])(text)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xfa"])
def test_a_list_that_cannot_be_read_is_told(tmp_path: Path, content: bytes | None):
    path = tmp_path / "words"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        BlockedWords.read(path)
    assert "speech.blocked_words" in caught.value.mend


# --- pitch and energy ---------------------------------------------------------------------------


@given(
    st.lists(st.integers(-32768, 32767), min_size=1, max_size=50),
    st.floats(0.1, 4),
)
def test_louder_speech_keeps_its_order_and_its_bounds(samples: list[int], factor: float):
    wave = np.array(samples, "<i2")
    got = np.frombuffer(with_gain(wave.tobytes(), factor), "<i2")
    assert len(got) == len(wave)
    order = np.argsort(wave, kind="stable")
    assert np.all(np.diff(got[order].astype(int)) >= 0)
    quiet = np.abs(wave.astype(int)) * factor < 0.8 * 32767
    assert np.all(np.abs(got[quiet] - wave[quiet] * factor) <= 2)


@given(st.floats(0.5, 2), st.floats(0.5, 2))
def test_a_pace_is_one_that_engines_have_or_it_is_refused(speed: float, pitch: float):
    shaping = Shaping(pitch=pitch)
    if MIN_SPEED <= speed / pitch <= MAX_SPEED:
        assert shaping.engine_speed(speed) == speed / pitch
        return
    with pytest.raises(BadRequest) as caught:
        shaping.engine_speed(speed)
    assert "speed / pitch" in caught.value.mend
