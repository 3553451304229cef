"""Clauses that carry on from each other, and texts that come in pieces: the engine's side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.cosyvoice.test_engine import PATIENCE_S, faked, voices
from tts_engine.cosyvoice.context import Before
from tts_engine.cosyvoice.engine import CosyVoiceEngine
from tts_engine.engine import Reading, SpeechChunk
from tts_engine.errors import BadAudio, DuplexdError, EngineFailed, TimedOut

__all__ = ["voices"]

pytestmark = pytest.mark.timeout(PATIENCE_S)


async def collect(reading: Reading, text: str, **manner: Any) -> None:
    """Has a clause said."""
    async with asyncio.timeout(PATIENCE_S), aclosing(reading.synthesize(text, **manner)) as chunks:
        assert [chunk async for chunk in chunks]


async def before(reading: Reading, **manner: str) -> str:
    """What the next clause carries on from."""
    with pytest.raises(BadAudio) as found:
        await collect(reading, "before?", **manner)
    return found.value.message


async def test_a_clause_carries_on_from_the_one_before(voices: Path) -> None:
    async with faked(voices) as engine:
        await engine.start()
        reading = engine.reading()
        assert await before(reading) == " []"
        await collect(reading, "一二三")
        assert await before(reading) == "一二三 [0, 1, 2]"
        # One that failed is nothing to carry on from.
        assert await before(reading) == " []"
        await collect(reading, "一二")
        await collect(reading, "……")  # nothing is said
        assert await before(reading) == "一二 [0, 1]"


@pytest.mark.parametrize("manner", [{"voice": "bert"}, {"style": "开心"}])
async def test_not_in_another_voice_or_style(voices: Path, manner: dict[str, str]) -> None:
    async with faked(voices) as engine:
        await engine.start()
        reading = engine.reading()
        await collect(reading, "一二三")
        assert await before(reading, **manner) == " []"
        await collect(reading, "一二三", **manner)
        assert await before(reading, **manner) == "一二三 [0, 1, 2]"


async def test_texts_have_nothing_to_do_with_each_other(voices: Path) -> None:
    async with faked(voices) as engine:
        await engine.start()
        one, other = engine.reading(), engine.reading()
        await collect(one, "一二三")
        assert await before(other) == " []"
        assert await before(engine) == " []"
    async with faked(voices, context="none") as engine:
        assert engine.reading() is engine


async def test_one_that_was_left_is_nothing_to_carry_on_from(voices: Path) -> None:
    async with faked(voices) as engine:
        await engine.start()
        reading = engine.reading()
        await collect(reading, "一二三")
        async with aclosing(reading.synthesize("一二")) as chunks:
            await anext(chunks)
        assert await before(reading) == " []"


async def said(
    engine: CosyVoiceEngine, texts: AsyncIterator[str]
) -> tuple[list[int], list[tuple[int, int]]]:
    """Samples of each chunk, and all marks."""
    job = engine.synthesize_pieces(texts)
    async with aclosing(job) as chunks:
        found: list[SpeechChunk] = [chunk async for chunk in chunks]
    marks = [(mark.sample, mark.chars) for chunk in found for mark in chunk.marks]
    return [len(chunk.pcm) // 2 for chunk in found], marks


async def pieces(*texts: str) -> AsyncGenerator[str, None]:
    for text in texts:
        yield text


async def test_a_text_in_pieces_is_one_utterance(voices: Path) -> None:
    async with faked(voices, text_stream=True) as engine:
        assert engine.streams_text
        await engine.start()
        samples, marks = await said(engine, pieces("今天", "天气，", "好"))
        assert samples == [100, 100]
        assert marks == [(100, 5), (200, 6)]
        assert (engine.stats.jobs, engine.stats.depth) == (1, 0)


async def test_what_cannot_be_heard_before_it_is_no_utterance(voices: Path) -> None:
    async with faked(voices) as engine:
        assert not engine.streams_text
        await engine.start()
        samples, marks = await said(engine, pieces("……", "好", "的"))
        assert samples == [0, 100]
        assert marks == [(0, 2), (100, 4)]
        assert await said(engine, pieces()) == ([], [])


async def test_a_long_text_is_several_utterances(voices: Path) -> None:
    """So that none is cut off."""
    async with faked(voices) as engine:
        await engine.start()
        long = "字" * 100  # 22 s
        samples, marks = await said(engine, pieces("好", long, "好", "吧"))
        assert engine.stats.jobs == 2
        assert samples == [100, 100]
        assert marks == [(100, 101), (200, 103)]


async def test_one_that_is_cut_off_leaves_the_rest_to_the_next(voices: Path) -> None:
    more = asyncio.Event()

    async def texts() -> AsyncGenerator[str, None]:
        yield "一"
        yield "cut"
        await more.wait()
        yield "二"
        yield "三"

    async with faked(voices) as engine:
        await engine.start()
        job = asyncio.create_task(said(engine, texts()))
        async with asyncio.timeout(PATIENCE_S):
            while not engine.stats.jobs:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        more.set()
        samples, marks = await job
        assert samples == [100, 100]
        assert marks == [(100, 4), (200, 6)]
        assert engine.stats.jobs == 2


@pytest.mark.parametrize(
    ("error", "kind"), [(TimedOut("no more"), TimedOut), (ZeroDivisionError(), EngineFailed)]
)
async def test_a_text_that_breaks_off_breaks_its_utterance_off(
    voices: Path, error: Exception, kind: type[DuplexdError]
) -> None:
    async def texts() -> AsyncGenerator[str, None]:
        yield "今天"
        raise error

    async with faked(voices) as engine:
        await engine.start()
        with pytest.raises(kind):
            await said(engine, texts())
        assert engine.stats.depth == 0
        await collect(engine, "好")


async def test_waiting_for_text_is_no_hanging(voices: Path) -> None:
    """However long the text takes; once it is whole, the voice has to answer."""
    more = asyncio.Event()

    async def texts() -> AsyncGenerator[str, None]:
        yield "今天"
        await more.wait()
        yield "好"

    async with faked(voices, timeout_s=0.2) as engine:
        await engine.start()
        job = asyncio.create_task(said(engine, texts()))
        await asyncio.sleep(0.6)
        assert not job.done()
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)
        assert engine.stats.depth == 0


def test_nothing_before_is_nothing() -> None:
    assert Before() == Before("", ())
