"""Invariant: a question is asked once, told to all who wait, and given up by the last of them."""

from __future__ import annotations

import asyncio

import pytest

from services.asr.asked import Answer, Asked
from tts_engine.errors import AtCapacity


class Engine:
    """Answers when a test does."""

    def __init__(self) -> None:
        self.futures: list[asyncio.Future[str]] = []
        self.given_up: list[int] = []

    def ask(self) -> Answer[str]:
        number = len(self.futures)
        self.futures.append(asyncio.get_running_loop().create_future())
        return Answer(self.futures[-1], lambda: self.given_up.append(number))

    async def wait(self, asked: Asked[int, str], question: int = 1) -> str:
        return await asked.answer(question, self.ask, timeout_s=20.0)


async def begun(*tasks: asyncio.Task[str]) -> None:
    """Lets tasks come to where they wait."""
    for _ in tasks:
        await asyncio.sleep(0)


async def test_who_asks_the_same_shares_the_answer() -> None:
    engine, asked = Engine(), Asked[int, str]()
    tasks = [asyncio.create_task(engine.wait(asked, question)) for question in (1, 1, 2)]
    await begun(*tasks)
    engine.futures[0].set_result("one")
    engine.futures[1].set_result("two")
    assert await asyncio.gather(*tasks) == ["one", "one", "two"]
    # Each is over, and the next to ask is the first again.
    assert engine.given_up == [0, 1]
    again = asyncio.create_task(engine.wait(asked))
    await begun(again)
    engine.futures[2].set_result("anew")
    assert await again == "anew"


async def test_the_last_to_leave_gives_the_question_up() -> None:
    engine, asked = Engine(), Asked[int, str]()
    first, last = (asyncio.create_task(engine.wait(asked)) for _ in range(2))
    await begun(first, last)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (engine.given_up, engine.futures[0].cancelled()) == ([], False)
    last.cancel()
    with pytest.raises(asyncio.CancelledError):
        await last
    assert engine.given_up == [0]


async def test_what_is_withdrawn_comes_out_of_no_newer_turn() -> None:
    engine, asked = Engine(), Asked[int, str]()
    old = asyncio.create_task(engine.wait(asked))
    await begun(old)
    engine.futures[0].set_result("old")  # it is told in the next tick
    asked.withdraw()
    new = asyncio.create_task(engine.wait(asked))
    with pytest.raises(asyncio.CancelledError):
        await old
    assert engine.given_up == [0]
    await begun(new)
    engine.futures[1].set_result("new")
    assert await new == "new"


async def test_failures_are_everybodys() -> None:
    engine, asked = Engine(), Asked[int, str]()
    tasks = [asyncio.create_task(engine.wait(asked)) for _ in range(2)]
    await begun(*tasks)
    engine.futures[0].set_exception(AtCapacity("full"))
    failures = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(each) for each in failures] == ["full", "full"]
    with pytest.raises(TimeoutError):
        await asked.answer(1, engine.ask, timeout_s=0.01)
    assert engine.given_up == [0, 1]
