"""Invariants: what follows a function of the daemon's is asked for as the answer was that called
it, and comes to whoever asked, whatever goes on beside; answers that want a function of the
client's are offered no others.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pipeline.tool_runner import MOST_ROUNDS
from services.face import AnswerOptions, SessionOptions
from services.items import Message, item_ref
from services.scripted.spec import ScriptedTexts
from services.tools import DaemonTool, NamedTool, Tool, ToolChoice
from tests.pipeline.harness import Talk, conversation

TEXTS = ScriptedTexts(transcripts=["停一下"], replies=["@call lamp {}@then 灯{tool}了。"])
OWN = Tool(name="own")


class Lamp:
    """A function of the daemon's.

    Parameters:
        slow: it returns when `done` is set.
    """

    def __init__(self, *, slow: bool = False) -> None:
        self.called = asyncio.Event()
        self.done = asyncio.Event()
        if not slow:
            self.done.set()
        self.tool = DaemonTool(tool=Tool(name="lamp"), run=self._run)

    async def _run(self, _: dict[str, Any]) -> str:
        self.called.set()
        await self.done.wait()
        return "亮"


def options(lamp: Lamp, **given: Any) -> SessionOptions:
    return SessionOptions(daemon_tools=(lamp.tool,), **{"speak": False, **given})


def offered(talk: Talk, number: int) -> list[str]:
    """The functions of a request, counted from 0."""
    tools = talk.llm.script.requests[number].body.get("tools", [])
    return [tool["function"]["name"] for tool in tools]


async def test_what_follows_has_the_options_of_the_answer() -> None:
    async with conversation(texts=TEXTS, options=options(Lamp(), speak=True)) as talk:
        await talk.ask(
            "开灯",
            2,
            ask=7,
            instructions="Be short.",
            speak=False,
            max_tokens=77,
            tools=(OWN,),
            tool_choice="auto",
        )
        assert talk.sink.of("begin") == [(1, 7), (2, 7)]
        assert talk.sink.pcm == {}
        first, second = (request.body for request in talk.llm.script.requests)
        for body in (first, second):
            assert body["messages"][0] == {"role": "system", "content": "Be short."}
            assert body["max_tokens"] == 77
            assert body["tool_choice"] == "auto"
            assert [tool["function"]["name"] for tool in body["tools"]] == ["own", "lamp"]
        assert second["messages"][-1]["content"] == "亮"
        await talk.ask("好", 4)
        assert talk.sink.of("begin")[2:] == [(3, None), (4, None)]
        assert set(talk.sink.pcm) == {4}


async def test_an_answer_from_items_of_its_own_has_what_its_functions_gave() -> None:
    async with conversation(texts=TEXTS, options=options(Lamp())) as talk:
        question = Message(role="user", text="开灯")
        talk.session.respond(AnswerOptions(context=(question,)))
        assert (await talk.sink.wait("end", 2))[2] == "灯亮了。"
        messages = talk.llm.script.requests[1].body["messages"][1:]
        assert [message["role"] for message in messages] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    "given",
    [
        AnswerOptions(remember=False),
        AnswerOptions(tools=(OWN,), tool_choice="required"),
        AnswerOptions(tools=(OWN,), tool_choice="none"),
        AnswerOptions(tools=(OWN,), tool_choice=NamedTool("own")),
    ],
    ids=["out of band", "required", "none", "named"],
)
async def test_answers_that_are_offered_none(given: AnswerOptions) -> None:
    texts = ScriptedTexts(replies=["好。"])
    async with conversation(texts=texts, options=options(Lamp())) as talk:
        talk.write("开灯")
        talk.session.respond(given)
        await talk.sink.wait("end")
        assert "lamp" not in offered(talk, 0)
        await talk.ask("开灯", 2)
        assert offered(talk, 1) == ["lamp"]


@pytest.mark.parametrize("choice", ["required", NamedTool("own")])
async def test_the_choice_of_the_session_counts_too(choice: ToolChoice) -> None:
    texts = ScriptedTexts(replies=["好。"])
    session = options(Lamp(), tools=(OWN,), tool_choice=choice)
    async with conversation(texts=texts, options=session) as talk:
        await talk.ask("开灯", 1)
        assert offered(talk, 0) == ["own"]


async def test_every_written_turn_may_call_functions() -> None:
    async with conversation(texts=TEXTS, options=options(Lamp())) as talk:
        for turn in range(1, MOST_ROUNDS + 2):
            await talk.ask("开灯", 2 * turn)
            assert offered(talk, 2 * turn - 1) == ["lamp"]
        question = Message(role="user", text="开灯")
        for turn in range(MOST_ROUNDS + 2, 2 * MOST_ROUNDS + 2):
            talk.session.respond(AnswerOptions(context=(question,)))
            await talk.sink.wait("end", 2 * turn)
            assert offered(talk, 2 * turn - 1) == ["lamp"]


async def test_functions_that_call_functions_end() -> None:
    texts = ScriptedTexts(replies=["@call lamp {}@then " * 9 + "好。"])
    async with conversation(texts=texts, options=options(Lamp())) as talk:
        await talk.ask("开灯", MOST_ROUNDS + 1)
        await talk.settle()
        last = talk.llm.script.requests[MOST_ROUNDS]
        assert "tools" not in last.body
        assert len(talk.llm.script.requests) == MOST_ROUNDS + 1


async def test_an_answer_out_of_band_lets_it_follow() -> None:
    lamp = Lamp(slow=True)
    async with conversation(texts=TEXTS, options=options(lamp)) as talk:
        talk.write("开灯")
        talk.session.respond(AnswerOptions(ask=1))
        await lamp.called.wait()
        await talk.sink.wait("end")
        aside = (Message(role="user", text="?"),)
        talk.session.respond(AnswerOptions(ask=2, remember=False, context=aside))
        await talk.sink.wait("end", 2)
        lamp.done.set()
        assert (await talk.sink.wait("end", 3))[2] == "灯亮了。"
        assert talk.sink.of("begin") == [(1, 1), (2, 2), (3, 1)]


@pytest.mark.parametrize("server_turns", [True, False])
async def test_who_asks_for_every_answer_gets_what_follows(*, server_turns: bool) -> None:
    lamp = Lamp(slow=True)
    session = options(lamp, server_turns=server_turns, auto_respond=False)
    texts = ScriptedTexts(replies=[*TEXTS.replies, "好。"])
    async with conversation(texts=texts, options=session) as talk:
        talk.write("开灯")
        talk.session.respond(AnswerOptions(ask=1))
        await lamp.called.wait()
        await talk.sink.wait("end")
        await talk.microphone.say(0.6)
        await talk.listened()
        if server_turns:
            await talk.sink.wait("final")  # nobody answers it; else it stays open
        assert len(talk.sink.of("begin")) == 1
        lamp.done.set()
        await talk.sink.wait("end", 2)
        await talk.microphone.say(0.6)
        await talk.listened()
        await talk.settle()
        assert talk.sink.of("begin") == [(1, 1), (2, 1)]


async def test_a_function_that_is_cancelled_inside_is_answered() -> None:
    async def cancelled(_: dict[str, Any]) -> str:
        raise asyncio.CancelledError

    tool = DaemonTool(tool=Tool(name="lamp"), run=cancelled)
    session = SessionOptions(daemon_tools=(tool,), speak=False)
    async with conversation(texts=TEXTS, options=session) as talk:
        talk.session.add(item_ref("1"), Message(role="user", text="开灯"))
        talk.session.respond()
        heard = (await talk.sink.wait("end", 2))[2]
        assert heard == "灯error: it was cancelled了。"
