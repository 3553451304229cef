"""Invariants: every call of the daemon gets one output, a failure as well; what follows comes once,
when all of them are there and nobody speaks, unless something newer took its place.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pipeline.tool_runner import MOST_ROUNDS, ToolRunner, ToolSettings
from services.face import AnswerOptions
from services.items import ContextItem, FunctionCall, FunctionOutput, Message, call_ref
from services.tools import DaemonTool, Tool
from tts_engine.errors import EngineFailed

#: what was asked of an answer, and what is asked of the one that follows
ANY, FOLLOWING = AnswerOptions(), AnswerOptions(tool_choice="auto")


class Fake:
    """A conversation."""

    def __init__(self) -> None:
        self.free = True
        self.filler = "请稍等。"
        self.outputs: dict[str, str] = {}
        self.asked: list[AnswerOptions] = []
        self.at_rest: list[int] = []
        self.on_follow_up: Callable[[AnswerOptions], None] = lambda _: None

    def add(self, ref: str, item: ContextItem, *, after: str | None) -> None:
        assert isinstance(item, FunctionOutput)
        assert after == call_ref(item.call_id)
        assert ref not in self.outputs
        self.outputs[item.call_id] = item.output

    def follow_up(self, options: AnswerOptions) -> None:
        self.asked.append(options)
        self.on_follow_up(options)

    def rested(self, revision: int) -> None:
        self.at_rest.append(revision)


def tool(
    run: Callable[[dict[str, Any]], Any],
    *,
    timeout_s: float = 5.0,
    lane: str = "",
    answered: bool = True,
) -> DaemonTool:
    return DaemonTool(
        tool=Tool(name="f"), run=run, timeout_s=timeout_s, lane=lane, answered=answered
    )


def call(number: int = 1, arguments: str = "{}") -> FunctionCall:
    return FunctionCall(call_id=f"c{number}", name="f", arguments=arguments)


async def echo(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments)


@pytest.fixture
def fake() -> Fake:
    return Fake()


@pytest.fixture
def runner(fake: Fake) -> ToolRunner:
    settings = ToolSettings(filler_after_s=0)
    return ToolRunner(session="s1", settings=settings, conversation=fake)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_follows_comes_when_the_answer_is_over_and_all_have_returned(
    fake: Fake, runner: ToolRunner
) -> None:
    gate = asyncio.Event()

    async def slow(_: dict[str, Any]) -> str:
        await gate.wait()
        return "slow"

    runner.run(1, call(1, '{"a": 1}'), tool(echo), ANY)
    runner.run(1, call(2), tool(slow), ANY)
    await settle()
    runner.answered(7)
    runner.answered(1)
    assert fake.outputs == {"c1": '{"a": 1}'}
    assert fake.asked == []
    gate.set()
    await settle()
    assert fake.outputs["c2"] == "slow"
    assert fake.asked == [FOLLOWING]
    runner.look()
    assert len(fake.asked) == 1


async def test_it_waits_until_nobody_speaks(fake: Fake, runner: ToolRunner) -> None:
    fake.free = False
    runner.run(1, call(), tool(echo), ANY)
    await settle()
    runner.answered(1)
    assert runner.pending
    assert fake.asked == []
    fake.free = True
    runner.look()
    assert fake.asked == [FOLLOWING]
    assert not runner.pending


@pytest.mark.parametrize("arguments", ["{", "[]", "7", '"x"', "[" * 100_000])
async def test_arguments_that_are_none(fake: Fake, runner: ToolRunner, arguments: str) -> None:
    runner.run(1, call(1, arguments), tool(echo), ANY)
    await settle()
    assert fake.outputs == {"c1": "error: the arguments are not a JSON object"}


async def test_failures_are_outputs(fake: Fake, runner: ToolRunner) -> None:
    async def fails(_: dict[str, Any]) -> str:
        raise EngineFailed("the lamp is broken")

    async def breaks(_: dict[str, Any]) -> str:
        raise ZeroDivisionError

    async def hangs(_: dict[str, Any]) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    for number, run in enumerate((fails, breaks)):
        runner.run(1, call(number), tool(run), ANY)
    runner.run(1, call(2), tool(hangs, timeout_s=0.01), ANY)
    runner.answered(1)
    async with asyncio.timeout(5):
        while not fake.asked:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert fake.outputs == {
        "c0": "error: the lamp is broken",
        "c1": "error: it failed",
        "c2": "error: no answer in 0.01 s",
    }


async def test_one_at_a_time_in_a_lane(fake: Fake, runner: ToolRunner) -> None:
    running = most = 0

    async def counted(_: dict[str, Any]) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return ""

    for number in range(4):
        runner.run(1, call(number), tool(counted, lane="device"), ANY)
    await settle()
    assert (len(fake.outputs), most) == (4, 1)


async def test_the_client_asks_where_it_runs_some(fake: Fake, runner: ToolRunner) -> None:
    runner.run(1, call(), tool(echo), ANY)
    runner.shared(1)
    await settle()
    runner.answered(1)
    assert fake.asked == []
    assert fake.at_rest == [1]


async def test_what_is_newer_takes_its_place(fake: Fake, runner: ToolRunner) -> None:
    runner.run(1, call(), tool(echo), ANY)
    runner.begun()
    await settle()
    runner.answered(1)
    assert fake.outputs
    assert fake.asked == []
    assert fake.at_rest == []
    runner.run(2, call(2), tool(echo), ANY)
    runner.run(3, call(3), tool(echo), ANY)  # another answer calls before the last one was over
    await settle()
    runner.answered(2)
    assert fake.asked == []
    runner.answered(3)
    assert len(fake.asked) == 1


async def test_whoever_interrupts_gets_no_answer(fake: Fake, runner: ToolRunner) -> None:
    runner.stopped()
    runner.run(1, call(), tool(echo), ANY)
    runner.stopped()
    await settle()
    runner.answered(1)
    assert fake.outputs
    assert (fake.asked, fake.at_rest) == ([], [1])


async def test_there_is_an_end(fake: Fake, runner: ToolRunner) -> None:
    for number in range(MOST_ROUNDS):
        runner.run(number, call(number), tool(echo), ANY)
        await settle()
        runner.answered(number)
    assert [each.tool_choice for each in fake.asked] == ["auto"] * (MOST_ROUNDS - 1) + ["none"]
    runner.turn()
    runner.run(9, call(9), tool(echo), ANY)
    await settle()
    runner.answered(9)
    assert fake.asked[-1].tool_choice == "auto"


class Gate:
    """A function that returns when it may."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def __call__(self, _: dict[str, Any]) -> str:
        await self.open.wait()
        return "slow"


def hurried(fake: Fake) -> ToolRunner:
    """A runner that fills a silence soon."""
    settings = ToolSettings(filler_after_s=0.01)
    return ToolRunner(session="s1", settings=settings, conversation=fake)


FILLER = AnswerOptions(text="请稍等。", remember=False)


async def test_a_silence_is_filled_once(fake: Fake) -> None:
    runner, gate = hurried(fake), Gate()
    runner.run(1, call(), tool(gate), ANY)
    runner.answered(1)
    await asyncio.sleep(0.1)
    runner.look()
    assert fake.asked == [FILLER]
    gate.open.set()
    await settle()
    assert fake.asked == [FILLER, FOLLOWING]


async def test_a_filler_waits_until_nobody_speaks(fake: Fake) -> None:
    runner, gate = hurried(fake), Gate()
    runner.run(1, call(), tool(gate), ANY)
    runner.answered(1)
    fake.free = False
    await asyncio.sleep(0.1)
    runner.look()
    assert fake.asked == []
    fake.free = True
    runner.look()
    runner.look()
    assert fake.asked == [FILLER]
    gate.open.set()
    await settle()
    assert fake.asked == [FILLER, FOLLOWING]


@pytest.mark.parametrize("news", ["turn", "return"])
async def test_a_filler_that_nobody_needs_any_more(fake: Fake, news: str) -> None:
    runner, gate = hurried(fake), Gate()
    runner.run(1, call(), tool(gate), ANY)
    runner.answered(1)
    fake.free = False
    await asyncio.sleep(0.1)
    if news == "turn":
        runner.turn()
    else:
        gate.open.set()
        await settle()
    fake.free = True
    runner.look()
    gate.open.set()
    await settle()
    assert fake.asked == [FOLLOWING]


async def test_what_follows_is_asked_for_as_the_answer_was(fake: Fake) -> None:
    asked = AnswerOptions(
        ask=7,
        instructions="short",
        voice="v",
        speak=False,
        max_tokens=9,
        tools=(Tool(name="own"),),
    )
    runner, gate = hurried(fake), Gate()
    runner.run(1, call(), tool(gate), asked)
    runner.answered(1)
    await asyncio.sleep(0.1)
    gate.open.set()
    await settle()
    assert fake.asked == [
        replace(asked, text="请稍等。", remember=False),
        replace(asked, tool_choice="auto"),
    ]


async def test_an_answer_from_items_of_its_own_goes_on_from_them(
    fake: Fake, runner: ToolRunner
) -> None:
    question = Message(role="user", text="?")
    runner.run(1, call(1), tool(echo), AnswerOptions(context=(question,)))
    await settle()
    runner.answered(1)
    [first] = fake.asked
    assert first.context == (question, call(1), FunctionOutput(call_id="c1", output="{}"))
    runner.run(2, call(2), tool(echo), first)
    await settle()
    runner.answered(2)
    assert fake.asked[1].context is not None
    assert fake.asked[1].context[:3] == first.context
    assert len(fake.asked[1].context) == 5


async def test_nothing_follows_a_function_that_ends_it(fake: Fake, runner: ToolRunner) -> None:
    runner.run(1, call(1), tool(echo), ANY)
    runner.run(1, call(2), tool(echo, answered=False), ANY)
    runner.run(1, call(3), tool(echo), ANY)
    await settle()
    runner.answered(1)
    assert len(fake.outputs) == 3
    assert (fake.asked, fake.at_rest) == ([], [1])


async def test_a_call_that_is_cancelled_is_answered(fake: Fake, runner: ToolRunner) -> None:
    async def raises(_: dict[str, Any]) -> str:
        raise asyncio.CancelledError

    async def breaks(_: dict[str, Any]) -> str:
        raise BaseExceptionGroup("several", [asyncio.CancelledError()])

    before = asyncio.all_tasks()
    runner.run(1, call(1), tool(raises), ANY)
    runner.run(1, call(2), tool(breaks), ANY)
    await settle()
    runner.run(1, call(3), tool(Gate(), lane="device"), ANY)
    runner.run(1, call(4), tool(Gate(), lane="device"), ANY)  # waits for its lane
    await settle()
    runner.run(1, call(5), tool(Gate()), ANY)  # has not begun to run
    for task in asyncio.all_tasks() - before:
        task.cancel()
    await settle()
    runner.answered(1)
    assert fake.outputs == {f"c{number}": "error: it was cancelled" for number in range(1, 6)}
    assert fake.asked == [FOLLOWING]


async def test_the_end_of_the_conversation_ends_them(fake: Fake, runner: ToolRunner) -> None:
    cancelled = asyncio.Event()

    async def slow(_: dict[str, Any]) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    runner.run(1, call(), tool(slow), ANY)
    await settle()
    runner.close()
    runner.close()
    await settle()
    assert cancelled.is_set()
    assert fake.outputs == {}
