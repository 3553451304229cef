"""What is not wanted any more ends nothing, and gets into nothing."""

from __future__ import annotations

import asyncio

import pytest

from services.asr.funasr_remote import recogniser as handles
from tts_engine.errors import AtCapacity, EngineFailed

from ..letters import say
from .client import FLAVOURS, feed, final, remote
from .runtime import Flavour, running


async def test_what_is_cancelled_before_its_end_was_sent_ends_nothing() -> None:
    async with running() as runtime, remote(runtime) as engine:
        recogniser = engine.open(session="s")
        runtime.reading.clear()
        feed(recogniser, say("今天"))
        asking = asyncio.create_task(recogniser.finalise())
        await asyncio.sleep(0)
        recogniser.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        feed(recogniser, say("天气"))
        runtime.reading.set()
        assert (await final(recogniser)).text == "今天天气。"
        assert len(runtime.heard) == 1


async def test_what_is_cancelled_after_its_end_was_sent_counts_all_the_same() -> None:
    async with running() as runtime, remote(runtime) as engine:
        recogniser = engine.open(session="s")
        runtime.open.clear()
        feed(recogniser, say("今天"))
        asking = asyncio.create_task(recogniser.finalise())
        await runtime.until(lambda: runtime.ends == 1)
        recogniser.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        feed(recogniser, say("天气"))
        runtime.open.set()
        await runtime.until(lambda: len(runtime.finished) == 1)
        assert (await final(recogniser)).text == "今天。天气。"
        assert engine.stats.jobs == 1


async def test_callers_share_a_final() -> None:
    async with running() as runtime, remote(runtime) as engine:
        recogniser = engine.open(session="s")
        runtime.open.clear()
        feed(recogniser, say("今天"))
        callers = [asyncio.create_task(final(recogniser)) for _ in range(3)]
        await runtime.until(lambda: runtime.samples == 7040)
        callers[0].cancel()
        feed(recogniser, say("天气"))
        later = asyncio.create_task(final(recogniser))
        runtime.open.set()
        assert await callers[1] == await callers[2]
        assert callers[1].result().text == "今天。"
        assert (await later).text == "今天。天气。"
        assert engine.stats.jobs == 2


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("asked", [False, True])
async def test_nothing_of_a_turn_gets_into_the_next(flavour: Flavour, asked: bool) -> None:
    async with running(flavour) as runtime, remote(runtime) as engine:
        recogniser = engine.open(session="s")
        runtime.open.clear()
        feed(recogniser, say("今天天气"))
        asking = asyncio.create_task(recogniser.finalise()) if asked else None
        await runtime.until(lambda: runtime.samples > 9600)
        recogniser.reset()
        if asking is not None:
            with pytest.raises(asyncio.CancelledError):
                await asking
        feed(recogniser, say("怎么样"))
        runtime.open.set()
        heard = await final(recogniser)
        assert (heard.text, heard.audio_s) == ("怎么样。", 0.66)
        assert runtime.connections == 1
        assert engine.stats.depth == 0


async def test_what_is_left_of_a_turn_does_not_hold_up_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handles, "_PATIENCE_S", 0.1)
    async with running() as runtime, remote(runtime) as engine:
        recogniser = engine.open(session="s")
        runtime.deaf = True
        feed(recogniser, say("今天"))
        await runtime.until(lambda: runtime.samples > 0)
        recogniser.reset()
        await runtime.until(lambda: runtime.ends == 1)
        feed(recogniser, say("天气"))
        await runtime.until(lambda: runtime.connections == 2)
        runtime.deaf = False
        assert (await final(recogniser)).text == "天气。"


async def test_too_many_finals() -> None:
    async with running() as runtime, remote(runtime, queue_limit=1) as engine:
        recogniser, other = engine.open(session="s"), engine.open(session="t")
        runtime.open.clear()
        feed(recogniser, say("今天"))
        feed(other, say("你好"))
        asking = asyncio.create_task(final(recogniser))
        await asyncio.sleep(0)
        with pytest.raises(AtCapacity, match="1 utterances wait"):
            await final(other)
        runtime.open.set()
        assert (await asking).text == "今天。"
        assert (await final(other)).text == "你好。"


async def test_a_closed_handle() -> None:
    async with running() as runtime, remote(runtime) as engine:
        recogniser = engine.open(session="s")
        runtime.open.clear()
        feed(recogniser, say("今天"))
        asking = asyncio.create_task(recogniser.finalise())
        await runtime.until(lambda: runtime.samples > 0)
        recogniser.close()
        recogniser.close()
        with pytest.raises(asyncio.CancelledError):
            await asking
        with pytest.raises(EngineFailed, match="session s is closed"):
            await recogniser.finalise()
        never_fed = engine.open(session="t")
        never_fed.close()
