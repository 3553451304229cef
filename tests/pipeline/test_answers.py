"""Invariants: no answer of a language model, however broken, can poison, silence, flood or outgrow
its conversation: each turn ends heard or apologised for, and the next one works.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from services.face import SessionOptions
from services.llm.service import AnswerService
from services.scripted.tts import VoiceFault, detect_tone, tone_of
from services.tts.clauses import MAX_WAITING
from tests.llm.raw_server import DONE, STOP, RawServer, delta, text
from tests.pipeline.harness import Talk, conversation

TOOL = delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "rm", "arguments": "{}"}}])
CALLED = [TOOL, delta("tool_calls"), DONE]


def good() -> list[bytes]:
    return [*text("好的。"), *STOP]


async def ask(talk: Talk, turn: int, question: str = "说") -> tuple[Any, ...]:
    talk.write(question)
    talk.session.respond()
    return await talk.sink.wait("end", turn)


def assert_apologised(talk: Talk) -> None:
    """The last thing heard of the first answer was the apology."""
    tone = detect_tone(bytes(talk.sink.pcm[1][-9600:]))
    assert tone == pytest.approx(tone_of("抱歉。"), abs=4)


async def test_a_pair_cut_in_two_does_not_poison_the_conversation() -> None:
    server = RawServer(lambda: [*text("好\ud83d", "\ude00的\udc00。"), *STOP], good)
    async with conversation(client=server.client) as talk:
        assert (await ask(talk, 1))[1:3] == ("answered", "好😀的\ufffd。")
        assert (await ask(talk, 2, "\ud83d"))[1] == "answered"
        assert (await ask(talk, 3))[1] == "answered"
        sent = [message["content"] for message in server.requests[2]["messages"][1:4]]
        assert sent == ["说", "好😀的\ufffd。", "\ufffd"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ([*text("<think>嗯</think>"), *STOP], "nothing that can be spoken"),
        ([*text("<think>嗯"), delta("length"), DONE], "used up its tokens"),
        (CALLED, "called tools"),
        ([*text("  \n "), *STOP], "nothing that can be spoken"),
        ([*text("😀"), *STOP], "nothing that can be spoken"),
        ([delta(content=[{"type": "text", "text": "好"}]), *STOP], "nothing that can be spoken"),
        ([b"<html>hi</html>"], "sent no answer"),
    ],
    ids=["thought", "cut", "tools", "spaces", "emoji", "list", "page"],
)
async def test_an_answer_of_which_nothing_can_be_heard_failed(body: list[bytes], why: str) -> None:
    server = RawServer(lambda: body, good)
    async with conversation(client=server.client) as talk:
        _, outcome, _, error = await ask(talk, 1)
        assert outcome == "failed"
        assert why in error.message
        assert [e.message for e in talk.books.errors] == [error.message]
        assert_apologised(talk)
        assert (await ask(talk, 2))[1:3] == ("answered", "好的。")
        # Neither a tool call nor an empty message has got into the conversation.
        for message in server.requests[1]["messages"]:
            assert set(message) == {"role", "content"}
            assert message["content"].strip()


async def test_a_tool_call_beside_text_is_dropped() -> None:
    server = RawServer(lambda: [*text("好的。"), *CALLED])
    async with conversation(client=server.client) as talk:
        assert (await ask(talk, 1))[1:] == ("answered", "好的。", None)
        assert talk.context == [("user", "说"), ("assistant", "好的。")]


async def test_an_answer_that_broke_off_is_heard_and_apologised_for() -> None:
    server = RawServer(lambda: text("好的，我们走"))
    async with conversation(client=server.client) as talk:
        _, outcome, heard, error = await ask(talk, 1)
        assert (outcome, heard) == ("failed", "好的，我们走")
        assert "broke off" in error.message
        assert_apologised(talk)


async def test_an_answer_to_be_read_need_not_be_speakable() -> None:
    server = RawServer(lambda: [*text("```python\nprint(1)\n```"), *STOP], lambda: STOP)
    async with conversation(client=server.client, options=SessionOptions(speak=False)) as talk:
        assert (await ask(talk, 1))[1:] == ("answered", "```python\nprint(1)\n```", None)
        assert (await ask(talk, 2))[1] == "failed"


async def test_a_fault_inside_the_framework_is_spoken_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: AnswerService, text: str) -> None:
        raise ValueError("made of cheese")

    monkeypatch.setattr(AnswerService, "_push_llm_text", broken)
    server = RawServer(good)
    async with conversation(client=server.client) as talk:
        _, outcome, _, error = await ask(talk, 1)
        assert outcome == "failed"
        assert "made of cheese" in error.message
        assert_apologised(talk)
        monkeypatch.undo()
        assert (await ask(talk, 2))[1] == "answered"


# --- bounds ----------------------------------------------------------------------------------
async def flood() -> AsyncGenerator[bytes, None]:
    while True:
        yield delta(content="从前有座山，山里有座庙，庙里有个老和尚。" * 10)


async def test_an_endless_answer_is_cut_off_and_counts_as_answered() -> None:
    server = RawServer(flood)
    options = SessionOptions(speak=False, max_tokens=50)
    async with conversation(client=server.client, options=options) as talk:
        _, outcome, heard, error = await ask(talk, 1)
        assert (outcome, len(heard), error) == ("answered", 400, None)


async def test_the_llm_is_read_no_further_than_the_voice_may_lag_and_can_be_interrupted() -> None:
    read = 0
    many = asyncio.Event()

    async def counted() -> AsyncGenerator[bytes, None]:
        nonlocal read
        while True:
            yield delta(content="从前有座山，山里有座庙，庙里有个老和尚。")
            read += 1
            if read >= MAX_WAITING / 2:
                many.set()

    server = RawServer(counted, good)
    faults = {1: VoiceFault(kind="hang")}
    async with conversation(
        client=server.client, voice={"failures": faults}, answers={"max_tokens": 100_000}
    ) as talk:
        talk.write("说")
        talk.session.respond()
        await many.wait()
        await asyncio.sleep(0.5)  # in which thousands could be read
        assert read <= 2 * MAX_WAITING
        talk.session.cancel()
        assert (await talk.sink.wait("end"))[1] == "interrupted"
        assert (await ask(talk, 2))[1:3] == ("answered", "好的。")


async def test_reading_goes_on_as_the_voice_takes_clauses() -> None:
    sentence = "从前有一座山山里有一座庙里有个老和尚。"
    server = RawServer(lambda: [*text(*[sentence] * 3 * MAX_WAITING), *STOP])
    options = SessionOptions(speak=False)
    async with conversation(
        client=server.client, options=options, answers={"max_tokens": 9000}
    ) as talk:
        assert (await ask(talk, 1))[1:3] == ("answered", sentence * 3 * MAX_WAITING)


# --- the context -----------------------------------------------------------------------------
async def test_a_long_conversation_is_shortened_in_blocks() -> None:
    server = RawServer(good)
    async with conversation(
        client=server.client, answers={"context_tokens": 1500, "max_tokens": 300}
    ) as talk:
        for turn in range(40):
            talk.write(f"第{turn}个问题：" + "为什么" * 10)
            talk.write("因为如此" * 10, "assistant")
        await ask(talk, 1, "最后一问")
        messages = server.requests[0]["messages"]
        assert messages[0] == {"role": "system", "content": "请用中文回答。"}
        assert messages[1]["role"] == "user"
        assert messages[-1] == {"role": "user", "content": "最后一问"}
        assert 300 <= sum(len(message["content"]) for message in messages) <= 600
        # The memory is bounded as well, and the next request begins alike.
        assert len(talk.context) == len(messages)
        await ask(talk, 2, "再来")
        assert server.requests[1]["messages"][: len(messages)] == messages


def too_long() -> httpx2.Response:
    body = {"error": {"message": "maximum context length is 9 tokens", "code": None}}
    return httpx2.Response(400, content=json.dumps(body))


async def test_a_server_that_finds_it_too_long_is_asked_once_more() -> None:
    server = RawServer(too_long, good, too_long)
    async with conversation(client=server.client) as talk:
        for turn in range(10):
            talk.write(f"第{turn}个问题")
            talk.write("好", "assistant")
        assert (await ask(talk, 1, "最后一问"))[1] == "answered"
        before, after = (request["messages"] for request in server.requests)
        assert 2 <= len(after) <= len(before) / 2 + 1
        assert after[0] == before[0]
        assert after[1:] == before[-len(after) + 1 :]
        assert (await ask(talk, 2))[1] == "failed"
        assert len(server.requests) == 4
        assert (await ask(talk, 3))[3].code == "bad_request"
