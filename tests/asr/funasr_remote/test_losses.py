"""Connections that are lost, servers that fail or do not read: nothing is lost, nobody waits."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from services.asr.base import SAMPLE_RATE, Transcript
from tts_engine.errors import AtCapacity, EngineFailed, TimedOut
from tts_engine.restart import RestartPolicy

from ..letters import plain, say
from ..partials import Partials
from .client import FLAVOURS, GIVES_UP, PATIENCE_S, feed, final, pcm, remote
from .runtime import Flavour, running


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_what_a_lost_connection_had_is_sent_again(flavour: Flavour) -> None:
    async with running(flavour) as runtime, remote(runtime) as engine:
        runtime.break_off = [1, 9, 30, 0]
        partials = Partials()
        recogniser = engine.open(session="s", on_partial=partials)
        said = say("今天天气怎么样我想听音乐")
        feed(recogniser, said)
        heard = await final(recogniser)
        assert heard.text == "今天天气怎么样我想听音乐。"
        assert np.array_equal(runtime.finished[-1].pcm, pcm(said))
        assert runtime.connections == 5
        partials.check()
        lengths = [len(partial.text) for partial in partials]
        assert lengths == sorted(lengths)


async def test_a_reply_that_cannot_be_taken_costs_no_more_than_the_connection() -> None:
    async with running() as runtime, remote(runtime) as engine:
        tried = asyncio.Event()

        def refuse(partial: Transcript) -> None:
            if not tried.is_set():
                tried.set()
                raise ValueError("no")

        recogniser = engine.open(session="s", on_partial=refuse)
        feed(recogniser, say("今天天气怎么样我想听音乐"))
        async with asyncio.timeout(PATIENCE_S):
            await tried.wait()
        assert (await final(recogniser)).text == "今天天气怎么样我想听音乐。"
        assert runtime.connections == 2


async def test_a_lost_connection_keeps_what_was_finished() -> None:
    async with running() as runtime, remote(runtime) as engine:
        recogniser = engine.open(session="s")
        feed(recogniser, say("今天"))
        await final(recogniser)
        port = int(runtime.url.rstrip("/").rpartition(":")[2])
        await runtime.stop()
        feed(recogniser, say("天气"))
        await runtime.start(port=port)
        assert (await final(recogniser)).text == "今天。天气。"
        assert len(runtime.finished) == 2


async def test_those_who_wait_are_told_when_it_is_of_no_use() -> None:
    async with running() as runtime, remote(runtime, retry=GIVES_UP) as engine:
        recogniser = engine.open(session="s")
        runtime.refuse = [500] * 3
        feed(recogniser, say("今天"))
        with pytest.raises(EngineFailed, match="HTTP 500"):
            await final(recogniser)
        assert engine.stats.errors == {"engine_failed": 1}
        assert engine.stats.depth == 0
        # It goes on trying, and the audio is still there.
        await runtime.until(lambda: runtime.samples > 6000)
        assert (await final(recogniser)).text == "今天。"


async def test_who_asks_while_it_is_of_no_use_is_told_at_once() -> None:
    policy = RestartPolicy(first_s=0.001, longest_s=3600, give_up_after=1)
    async with running() as runtime, remote(runtime, retry=policy) as engine:
        recogniser = engine.open(session="s")
        runtime.refuse = [503]
        feed(recogniser, say("今天"))
        with pytest.raises(AtCapacity, match="has no room"):
            await final(recogniser)
        with pytest.raises(AtCapacity, match="has no room"):
            await final(recogniser)
        assert engine.stats.errors == {"at_capacity": 2}


async def test_a_turn_that_is_over_before_there_is_a_connection() -> None:
    async with running() as runtime, remote(runtime) as engine:
        recogniser = engine.open(session="s")
        runtime.refuse = [500]
        feed(recogniser, say("今天"))
        recogniser.reset()
        await asyncio.sleep(0)
        feed(recogniser, say("天气"))
        assert (await final(recogniser)).text == "天气。"


async def test_an_error_of_the_server_fails_one_call() -> None:
    async with running("python") as runtime, remote(runtime) as engine:
        recogniser, other = engine.open(session="s"), engine.open(session="t")
        runtime.errors = ["out of memory" * 100]
        feed(recogniser, say("今天"))
        with pytest.raises(EngineFailed, match="failed: out of memory") as failure:
            await final(recogniser)
        assert len(str(failure.value)) < 300
        feed(other, say("你好"))
        assert (await final(other)).text == "你好。"
        # What it failed on is not lost.
        feed(recogniser, say("天气"))
        assert (await final(recogniser)).text == "今天天气。"
        assert engine.stats.errors == {"engine_failed": 1}


async def test_a_server_that_ends_the_connection_instead_of_an_answer() -> None:
    async with running("runtime") as runtime, remote(runtime) as engine:
        runtime.errors = ["once"]
        recogniser = engine.open(session="s")
        feed(recogniser, say("今天"))
        assert (await final(recogniser)).text == "今天。"
        assert runtime.connections == 2


async def test_an_error_that_nobody_waits_for() -> None:
    async with running("python") as runtime, remote(runtime) as engine:
        recogniser = engine.open(session="s")
        runtime.open.clear()
        runtime.errors = ["no"]
        feed(recogniser, say("今天"))
        asking = asyncio.create_task(recogniser.finalise())
        await runtime.until(lambda: runtime.ends == 1)
        recogniser.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        runtime.open.set()
        await runtime.until(lambda: runtime.connections == 2)
        assert (await final(recogniser)).text == "今天。"
        assert engine.stats.errors == {}


async def test_a_server_that_never_answers() -> None:
    async with running() as runtime, remote(runtime, timeout_s=0.3) as engine:
        runtime.deaf = True
        recogniser = engine.open(session="s")
        feed(recogniser, say("今天"))
        with pytest.raises(TimedOut, match=r"more than 0\.3 s"):
            await final(recogniser)
        assert engine.stats.errors == {"timed_out": 1}
        assert engine.stats.depth == 0
        # Its connection is given up, nothing of the turn is.
        runtime.deaf = False
        await runtime.until(lambda: len(runtime.heard) == 2)
        engine.timeout_s = PATIENCE_S
        assert (await final(recogniser)).text == "今天。"


async def test_a_server_that_does_not_read() -> None:
    async with running() as runtime, remote(runtime) as engine:
        recogniser = engine.open(session="s")
        feed(recogniser, say("今"))
        await runtime.until(lambda: runtime.samples > 0)
        runtime.reading.clear()
        said = np.tile(say("天气怎么样"), 80)  # 88 s: more than fits into any buffer on the way
        feed(recogniser, said)
        asking = asyncio.create_task(final(recogniser))
        other = engine.open(session="t")
        feed(other, say("你好"))
        runtime.reading.set()
        assert (await final(other)).text == "你好。"
        assert plain((await asking).text) == "今" + "天气怎么样" * 80
        assert np.array_equal(
            np.concatenate([each.pcm for each in runtime.finished if each.connection == 1]),
            pcm(np.concatenate((say("今"), said))),
        )


async def test_a_server_that_does_not_read_for_too_long() -> None:
    async with running() as runtime, remote(runtime, timeout_s=2) as engine:
        recogniser = engine.open(session="s")
        runtime.reading.clear()
        said = np.tile(say("天气怎么样"), 80)
        feed(recogniser, said)
        with pytest.raises(TimedOut):
            await final(recogniser)
        runtime.reading.set()
        engine.timeout_s = PATIENCE_S
        assert plain((await final(recogniser)).text) == "天气怎么样" * 80


async def test_a_turn_that_is_too_long_keeps_its_end() -> None:
    async with running() as runtime, remote(runtime, max_turn_s=2) as engine:
        recogniser = engine.open(session="s")
        said = np.concatenate((np.tile(say("天气怎么样"), 40), say("今天")))
        feed(recogniser, said)
        assert (await final(recogniser)).text.endswith("天气怎么样今天。")
        [heard] = runtime.finished
        assert 2 * SAMPLE_RATE <= len(heard.pcm) < len(said)
        assert np.array_equal(heard.pcm, pcm(said)[-len(heard.pcm) :])
