"""Invariants: a function call is told in order and at once, and is in the context as soon as it is
whole; what was heard of the answer stands beside it, however the answer ends; the next answer waits
for the words that lead up to it; no request holds a call without its output.
"""

from __future__ import annotations

from typing import Any

import pytest
from loguru import logger

from pipeline.turns.settings import TurnSettings
from services.face import AnswerOptions, SessionOptions
from services.items import FunctionCall, FunctionOutput, answer_ref, call_ref, item_ref
from services.llm.service import NO_TOOLS
from services.scripted.spec import ScriptedTexts
from services.scripted.tts import char_times
from services.tools import NamedTool, Tool
from tests.llm.raw_server import DONE, RawServer, call, delta, text
from tests.pipeline.harness import Talk, conversation

STORY = "从前有一座山，山里有一座庙。"
PREFACE = "我来看一下天气，"
SILENT = ScriptedTexts(replies=['@call weather {"city": "北京"}@then 北京{tool}。'])
SPOKEN = ScriptedTexts(
    transcripts=["停一下"], replies=[PREFACE + '@call weather {"city": "北京"}@then 北京{tool}。']
)
WEATHER = Tool(
    name="weather",
    description="the weather",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)
OPTIONS = SessionOptions(tools=(WEATHER,))
TO_READ = SessionOptions(tools=(WEATHER,), speak=False)


def messages(talk: Talk) -> list[dict[str, Any]]:
    return talk.session.context.messages  # type: ignore[return-value]


def answer(talk: Talk, done: FunctionCall, output: str = "晴", name: str = "o") -> None:
    item = FunctionOutput(call_id=done.call_id, output=output)
    talk.session.add(item_ref(name), item, after=call_ref(done.call_id))
    talk.session.respond()


def called(done: FunctionCall, heard: str = "") -> dict[str, Any]:
    """The message of an answer that made one call."""
    function = {"name": done.name, "arguments": done.arguments}
    return {
        "role": "assistant",
        "content": heard,
        "tool_calls": [{"id": done.call_id, "type": "function", "function": function}],
    }


async def test_a_call_is_told_answered_and_remembered() -> None:
    async with conversation(texts=SILENT, options=OPTIONS) as talk:
        assert await talk.ask("天气？") == (1, "answered", "", None)
        revision, done = await talk.sink.wait("call_done")
        assert (revision, done.name, done.arguments) == (1, "weather", '{"city": "北京"}')
        assert talk.sink.of("call_begun") == [(1, done.call_id, "weather")]
        deltas = talk.sink.of("call_arguments")
        assert "".join(part for _, _, part in deltas) == done.arguments
        assert [name for name, *_ in talk.sink.calls if name != "call_arguments"] == [
            "begin", "call_begun", "call_done", "end", "turn_report",
        ]  # fmt: skip
        assert talk.sink.of("text") == []
        answer(talk, done)
        assert (await talk.sink.wait("end", 2))[1:3] == ("answered", "北京晴。")
        output = {"role": "tool", "tool_call_id": done.call_id, "content": "晴"}
        assert messages(talk) == [
            {"role": "user", "content": "天气？"},
            called(done),
            output,
            {"role": "assistant", "content": "北京晴。"},
        ]
        first, second = (request.body for request in talk.llm.script.requests)
        assert first["tools"] == [
            {
                "type": "function",
                "function": {
                    "name": "weather",
                    "description": "the weather",
                    "parameters": dict(WEATHER.parameters),
                },
            }
        ]
        assert first["tool_choice"] == "auto"
        assert second["messages"][1:] == messages(talk)[:3]


async def test_the_answer_to_a_call_waits_for_the_preface() -> None:
    async with conversation(texts=SPOKEN, options=OPTIONS) as talk:
        talk.write("天气？")
        talk.session.respond(AnswerOptions(ask=7))
        # The model has written its call long before the preface is played.
        _, done = await talk.sink.wait("call_done")
        assert talk.sink.of("end") == []
        assert messages(talk)[-1] == called(done)
        answer(talk, done)
        talk.session.respond(AnswerOptions(ask=8))
        assert await talk.sink.wait("end") == (1, "answered", PREFACE, None)
        assert len(talk.sink.pcm[1]) >= char_times(PREFACE)[-1] * 48_000 - 4
        assert (await talk.sink.wait("end", 2))[1:3] == ("answered", "北京晴。")
        assert talk.sink.of("begin") == [(1, 7), (2, 8)]
        assert messages(talk)[1] == called(done, PREFACE)
        assert len(talk.llm.script.requests) == 2


async def test_a_user_who_interrupts_the_preface() -> None:
    async with conversation(texts=SPOKEN, options=OPTIONS) as talk:
        talk.write("天气？")
        talk.session.respond()
        _, done = await talk.sink.wait("call_done")
        talk.session.add(item_ref("o"), FunctionOutput(call_id=done.call_id, output="晴"))
        talk.session.respond(AnswerOptions(ask=2))
        await talk.sink.wait_audio(1, 400)
        await talk.microphone.say(0.6)
        assert await talk.sink.wait("dropped") == (2,)
        _, outcome, heard, _ = await talk.sink.wait("end")
        assert outcome == "interrupted"
        assert heard
        assert PREFACE.startswith(heard)
        await talk.sink.wait("end", 2)
        output = {"role": "tool", "tool_call_id": done.call_id, "content": "晴"}
        assert messages(talk)[:4] == [
            {"role": "user", "content": "天气？"},
            called(done, heard),
            output,
            {"role": "user", "content": "停一下"},
        ]
        # The client's later word on it goes to the same place.
        talk.session.heard_until(1, 0)
        assert messages(talk)[1] == called(done)


async def test_an_output_that_comes_late_stands_behind_its_call() -> None:
    async with conversation(texts=SPOKEN, options=TO_READ) as talk:
        await talk.ask("天气？")
        _, done = await talk.sink.wait("call_done")
        await talk.ask("快点", 2)
        # Until then the request says that there is none.
        request = talk.llm.script.requests[1].body["messages"]
        assert [message["role"] for message in request[1:]] == ["user", "assistant", "tool", "user"]
        assert request[3]["tool_call_id"] == done.call_id
        talk.session.add(item_ref("o"), FunctionOutput(call_id=done.call_id, output="晴"))
        await talk.ask("好", 3)
        request = talk.llm.script.requests[2].body["messages"]
        assert request[3] == {"role": "tool", "tool_call_id": done.call_id, "content": "晴"}


async def test_calls_that_are_deleted() -> None:
    async with conversation(texts=SPOKEN, options=TO_READ) as talk:
        await talk.ask("天气？")
        _, done = await talk.sink.wait("call_done")
        talk.session.remove(call_ref(done.call_id))
        talk.session.add(item_ref("o"), FunctionOutput(call_id=done.call_id, output="晴"))
        talk.session.remove(answer_ref(1))
        await talk.ask("好", 2)
        request = talk.llm.script.requests[1].body["messages"]
        assert [message["role"] for message in request[1:]] == ["user"]


async def test_several_calls_are_one_message() -> None:
    texts = ScriptedTexts(replies=['@call weather {"city": "a"} @call weather {"city": "b"}'])
    async with conversation(texts=texts, options=OPTIONS) as talk:
        await talk.ask("天气？")
        first, second = (done for _, done in talk.sink.of("call_done"))
        assert first.call_id != second.call_id
        [_, message] = messages(talk)
        assert [made["id"] for made in message["tool_calls"]] == [first.call_id, second.call_id]
        # Two outputs, and one answer to both.
        for done, output in ((first, "晴"), (second, "雨")):
            talk.session.add(item_ref(output), FunctionOutput(call_id=done.call_id, output=output))
        talk.session.respond()
        assert (await talk.sink.wait("end", 2))[2] == "雨"


async def test_a_call_of_an_answer_that_is_dead_is_nobodys() -> None:
    async with conversation(texts=SILENT, options=OPTIONS, llm={"tokens_per_s": 5}) as talk:
        talk.write("天气？")
        talk.session.respond()
        await talk.sink.wait("call_begun")
        talk.session.cancel()
        assert (await talk.sink.wait("end"))[1] == "interrupted"
        await talk.settle()
        assert talk.sink.of("call_done") == []
        assert talk.context == [("user", "天气？")]


async def test_a_call_that_breaks_off_is_void() -> None:
    server = RawServer(lambda: [*text("好。"), call("weather", '{"city": ', id="x")])
    async with conversation(client=server.client, options=OPTIONS) as talk:
        _, outcome, heard, error = await talk.ask("天气？")
        assert (outcome, heard) == ("failed", "好。")
        assert "broke off" in error.message
        assert len(talk.sink.of("call_begun")) == 1
        assert talk.sink.of("call_done") == []
        assert messages(talk)[1:] == [{"role": "assistant", "content": "好。"}]


async def test_which_function_is_the_clients_choice() -> None:
    server = RawServer(lambda: [*text("好。"), delta("stop"), DONE])
    async with conversation(client=server.client, options=TO_READ) as talk:
        other = Tool(name="time\ud83d")
        choices: list[dict[str, Any]] = [
            {"tool_choice": "none"},
            {"tools": ()},
            {"tool_choice": NamedTool("weather")},
            {"tools": (other,), "tool_choice": "required"},
        ]
        for turn, options in enumerate(choices, 1):
            await talk.ask("问", turn, **options)
        none, empty, named, required = server.requests
        for request in (none, empty):
            assert "tools" not in request
            assert "tool_choice" not in request
        assert named["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
        assert required["tool_choice"] == "required"
        assert required["tools"] == [
            {
                "type": "function",
                "function": {
                    "name": "time\ufffd",
                    "description": "",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ]


async def test_usage_and_what_cut_it_short_are_told_at_the_end() -> None:
    texts = ScriptedTexts(replies=[STORY])
    async with conversation(texts=texts, options=SessionOptions(speak=False)) as talk:
        _, outcome, heard, _ = await talk.ask("讲", 1, max_tokens=3)
        assert outcome == "answered"
        assert texts.replies[0].startswith(heard)
        assert talk.sink.cut[1] == "max_tokens"
        await talk.ask("讲", 2)
        assert talk.sink.cut[2] is None
        usage = talk.sink.usage[2]
        assert usage is not None
        assert usage.input_tokens > 0
        assert usage.output_tokens > 3


async def test_an_answer_that_fails_is_not_called_cut() -> None:
    server = RawServer(lambda: [delta("content_filter"), DONE])
    async with conversation(client=server.client, options=SessionOptions(speak=False)) as talk:
        assert (await talk.ask("问"))[1] == "failed"
        assert talk.sink.cut[1] is None


async def test_a_preface_that_may_not_be_interrupted_is_waited_for_as_well() -> None:
    texts = ScriptedTexts(replies=["看看，@call weather@then 好。"])
    async with conversation(
        texts=texts,
        options=OPTIONS,
        turns=TurnSettings(interruptible=False),
    ) as talk:
        talk.write("天气？")
        talk.session.respond(AnswerOptions(ask=1))
        _, done = await talk.sink.wait("call_done")
        talk.session.add(item_ref("o"), FunctionOutput(call_id=done.call_id, output="晴"))
        talk.session.respond(AnswerOptions(ask=2))
        await talk.microphone.say(0.5)
        assert (await talk.sink.wait("end", 2))[1:3] == ("answered", "好。")


async def test_a_call_while_the_voice_is_far_behind() -> None:
    server = RawServer(
        lambda: [*text(STORY), call("weather", "{}", id="x"), delta("stop"), DONE],
        lambda: [*text("好。"), delta("stop"), DONE],
    )
    async with conversation(client=server.client, options=OPTIONS, ahead_s=0.3) as talk:
        talk.write("天气？")
        talk.session.respond(AnswerOptions(ask=1))
        await talk.sink.wait("call_done")
        assert len(talk.sink.pcm.get(1, b"")) < 48_000
        talk.session.respond(AnswerOptions(ask=2))
        assert (await talk.sink.wait("end"))[1:3] == ("answered", STORY)
        assert (await talk.sink.wait("end", 2))[1] == "answered"


async def test_a_model_that_misuses_tools_is_not_offered_them() -> None:
    told: list[str] = []
    handler = logger.add(lambda line: told.append(str(line)), level="INFO", format="{message}")
    try:
        async with conversation(texts=SPOKEN, options=TO_READ, answers={"tools": False}) as talk:
            for turn in (1, 2):
                outcome, heard, error = (await talk.ask("天气？", turn))[1:]
                assert (outcome, heard, error) == ("answered", PREFACE, None)
            assert talk.sink.of("call_begun") == []
            assert all("tools" not in request.body for request in talk.llm.script.requests)
    finally:
        logger.remove(handler)
    [line] = [line for line in told if NO_TOOLS in line]
    assert "llm.local.tools" in line


@pytest.mark.parametrize("choice", ["required", NamedTool("weather")])
async def test_a_call_that_a_model_without_tools_must_make_fails(choice: Any) -> None:
    async with conversation(texts=SPOKEN, options=TO_READ, answers={"tools": False}) as talk:
        _, outcome, heard, error = await talk.ask("天气？", tool_choice=choice)
        assert (outcome, heard) == ("failed", "")
        assert "llm.local.tools" in str(error)
        assert "OPENAI_BASE_URL" in str(error)
        assert [text for _, text in talk.sink.of("text")] == ["抱歉。"]
        assert talk.llm.script.requests == []
        # without a demand it answers
        assert (await talk.ask("天气？", 2, tool_choice="none"))[1] == "answered"
