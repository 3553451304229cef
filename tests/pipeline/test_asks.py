"""Invariants: every request of a client's ends in exactly one of begun and dropped; what holds for
an answer is settled when it begins; what is out of band leaves no trace; the context is what the
client made of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from pipeline.mouth import KEPT_ANSWERS
from pipeline.turns.settings import TurnSettings
from services.face import AnswerOptions, SessionOptions
from services.items import (
    ROOT,
    FunctionCall,
    FunctionOutput,
    Message,
    answer_ref,
    item_ref,
    turn_ref,
)
from services.scripted.spec import ScriptedTexts
from services.scripted.tts import char_times, detect_tone, tone_of
from services.tools import NamedTool, Tool
from tests.llm.raw_server import STOP, RawServer, delta, text
from tests.pipeline.harness import Talk, conversation
from tts_engine.errors import BadRequest, UnknownVoice

REPLY = "从前有一座山，山里有一座庙。"
LONG = ScriptedTexts(transcripts=["讲个故事", "停一下"], replies=[REPLY])
TO_READ = SessionOptions(speak=False)
WEATHER = Tool(name="weather")


async def over(talk: Talk, asks: int) -> dict[int, str]:
    """What became of each request."""
    async with asyncio.timeout(20):
        while True:
            ends = {ask: "begun" for _, ask in talk.sink.of("begin") if ask is not None}
            dropped = [ask for (ask,) in talk.sink.of("dropped")]
            assert not set(dropped) & set(ends)
            assert len(set(dropped)) == len(dropped)
            if len(ends) + len(dropped) == asks:
                return {**ends, **dict.fromkeys(dropped, "dropped")}
            await talk.sink.news()


def ask(talk: Talk, number: int, **options: Any) -> None:
    talk.session.respond(AnswerOptions(ask=number, **options))


# --- begun or dropped ------------------------------------------------------------------------
async def test_a_request_that_is_replaced_before_it_began() -> None:
    texts = ScriptedTexts(replies=["看看，@call weather@then 好。"])
    async with conversation(texts=texts, options=SessionOptions(tools=(WEATHER,))) as talk:
        talk.write("天气？")
        ask(talk, 1)
        await talk.sink.wait("call_done")
        ask(talk, 2)
        ask(talk, 3)
        talk.session.respond()
        assert await over(talk, 3) == {1: "begun", 2: "dropped", 3: "dropped"}
        assert (await talk.sink.wait("begin", 2)) == (2, None)


async def test_a_request_while_the_turns_text_is_awaited() -> None:
    options = SessionOptions(auto_respond=False)
    async with conversation(
        texts=LONG, options=options, asr={"delay_s": 0.3}, turns=TurnSettings(ceiling_ms=200)
    ) as talk:
        await talk.microphone.say(0.6)
        await talk.listened()
        ask(talk, 1)
        ask(talk, 2)
        assert await over(talk, 2) == {1: "dropped", 2: "begun"}
        await talk.sink.wait("end")
        assert talk.context == [("user", "讲个故事"), ("assistant", REPLY)]
        assert len(talk.sink.of("begin")) == 1


async def test_cancel_reaches_a_request_that_is_still_behind_audio() -> None:
    options = SessionOptions(server_turns=False)
    async with conversation(texts=LONG, options=options, asr={"delay_s": 0.3}) as talk:
        await talk.microphone.say(0.6)
        talk.session.commit()
        ask(talk, 1)  # waits in the ear for the turn's text
        ask(talk, 2, remember=False)
        talk.session.cancel()
        assert await over(talk, 2) == {1: "dropped", 2: "dropped"}
        await talk.sink.wait("final")
        await talk.settle()
        assert talk.sink.of("begin") == []
        ask(talk, 3)
        assert (await talk.sink.wait("end"))[1] == "answered"


async def test_the_apology_answers_the_request() -> None:
    options = SessionOptions(auto_respond=False)
    failing = {"delay_s": 0.3, "fail_turns": {1: "engine_failed"}}
    turns = TurnSettings(ceiling_ms=200)
    async with conversation(options=options, asr=failing, turns=turns) as talk:
        await talk.microphone.say(0.6)
        await talk.listened()
        ask(talk, 1)
        assert await over(talk, 1) == {1: "begun"}
        assert (await talk.sink.wait("end"))[1] == "failed"


# --- plans -----------------------------------------------------------------------------------
async def test_an_answer_by_its_own_options() -> None:
    async with conversation(texts=LONG) as talk:
        await talk.ask("讲", 1, instructions="小声", voice="two", max_tokens=40)
        body = talk.llm.script.requests[0].body
        assert body["messages"][0]["content"] == "小声"
        assert body["max_tokens"] == 40
        tone = tone_of("从前有一座山，", voice="two")
        assert detect_tone(bytes(talk.sink.pcm[1][:9600])) == pytest.approx(tone, abs=4)
        await talk.ask("讲", 2, speak=False)
        assert 2 not in talk.sink.pcm
        body = talk.llm.script.requests[1].body
        assert body["messages"][0]["content"] == "请用中文回答。"
        # OpenAI's names stand for the daemon's voice.
        await talk.ask("讲", 3, voice="alloy")
        tone = tone_of("从前有一座山，")
        assert detect_tone(bytes(talk.sink.pcm[3][:9600])) == pytest.approx(tone, abs=4)


async def test_an_answer_keeps_the_options_that_it_began_with() -> None:
    gate = asyncio.Event()

    async def slow() -> AsyncGenerator[bytes, None]:
        yield delta(content="从前有一座山，")
        await gate.wait()
        yield delta(content="山里有一座庙。")
        for part in STOP:
            yield part

    server = RawServer(slow)
    async with conversation(client=server.client) as talk:
        talk.write("讲")
        talk.session.respond()
        await talk.sink.wait("text")
        talk.session.update(SessionOptions(speak=False, voice="two", instructions="别的"))
        gate.set()
        assert (await talk.sink.wait("end"))[:2] == (1, "answered")
        seconds = char_times("从前有一座山，")[-1] + char_times("山里有一座庙。")[-1]
        assert len(talk.sink.pcm[1]) == pytest.approx(seconds * 48_000, abs=4)
        second = bytes(talk.sink.pcm[1][-9600:])
        assert detect_tone(second) == pytest.approx(tone_of("山里有一座庙。"), abs=4)
        await talk.ask("讲", 2)
        assert 2 not in talk.sink.pcm
        assert server.requests[1]["messages"][0]["content"] == "别的"


async def test_what_cannot_be_is_refused_at_once() -> None:
    async with conversation(options=SessionOptions(tools=(WEATHER,))) as talk:
        refused: list[tuple[AnswerOptions, type[Exception]]] = [
            (AnswerOptions(ask=1, voice="nobody"), UnknownVoice),
            (AnswerOptions(ask=2, tool_choice=NamedTool("rm")), BadRequest),
            (AnswerOptions(ask=3, tools=(), tool_choice=NamedTool("weather")), BadRequest),
        ]
        for options, error in refused:
            with pytest.raises(error):
                talk.session.respond(options)
        with pytest.raises(BadRequest, match="idle"):
            talk.session.update(SessionOptions(idle_ms=0))
        with pytest.raises(BadRequest, match="rm"):
            talk.session.update(SessionOptions(tool_choice=NamedTool("rm")))
        await talk.settle()
        assert talk.sink.calls == []
        # By what the client has said last, also where audio lies between.
        talk.session.update(SessionOptions(tools=(Tool(name="rm"),), speak=False))
        await talk.ask("删", 1, tool_choice=NamedTool("rm"))
        # Tools of one answer do not know the choice that was made for others.
        talk.session.update(
            SessionOptions(tools=(WEATHER,), tool_choice=NamedTool("weather"), speak=False)
        )
        await talk.ask("删", 2, tools=(Tool(name="rm"),))
        assert [r.body["tool_choice"] for r in talk.llm.script.requests] == [
            {"type": "function", "function": {"name": "rm"}},
            "auto",
        ]


async def test_languages_reach_the_recogniser() -> None:
    async with conversation(options=SessionOptions(languages=("en",))) as talk:
        assert talk.session.ear.recogniser.languages == ("en",)  # type: ignore[attr-defined]
        talk.session.update(SessionOptions())
        await talk.settle()
        assert talk.session.ear.recogniser.languages is None  # type: ignore[attr-defined]


# --- out of band -----------------------------------------------------------------------------
async def test_an_answer_out_of_band_leaves_no_trace() -> None:
    async with conversation(texts=LONG) as talk:
        await talk.ask("讲", 1, remember=False, speak=False)
        assert talk.context == [("user", "讲")]
        await talk.ask("再讲", 2)
        talk.session.respond(AnswerOptions(remember=False))
        await talk.sink.wait_audio(3, 600)
        talk.session.cancel()
        assert (await talk.sink.wait("end", 3))[1:3] != ("answered", REPLY)
        talk.session.heard_until(3, 100)
        assert talk.context == [("user", "讲"), ("user", "再讲"), ("assistant", REPLY)]


async def test_calls_out_of_band_are_told_and_not_remembered() -> None:
    texts = ScriptedTexts(replies=["@call weather"])
    async with conversation(texts=texts, options=SessionOptions(tools=(WEATHER,))) as talk:
        await talk.ask("天气？", 1, remember=False)
        assert len(talk.sink.of("call_done")) == 1
        assert talk.context == [("user", "天气？")]


async def test_an_answer_from_a_context_of_its_own() -> None:
    own = (
        Message(role="system", text="分类"),
        Message(role="user", text="看看"),
        FunctionCall(call_id="c", name="weather", arguments="{}"),
        FunctionOutput(call_id="c", output="晴"),
    )
    async with conversation(texts=LONG, options=TO_READ) as talk:
        talk.write("讲")
        await talk.ask("再讲", 1, context=own, instructions="只说一个词")
        [request] = talk.llm.script.requests
        assert [message["role"] for message in request.body["messages"]] == [
            "system", "user", "assistant", "tool",
        ]  # fmt: skip
        assert request.body["messages"][0]["content"] == "只说一个词\n分类"
        # It is part of the conversation, unless the client says otherwise.
        assert talk.context == [("user", "讲"), ("user", "再讲"), ("assistant", REPLY)]


async def test_out_of_band_requests_wait_for_the_answer_that_plays() -> None:
    async with conversation(texts=LONG) as talk:
        talk.write("讲")
        ask(talk, 1)
        await talk.sink.wait_audio(1, 300)
        ask(talk, 2, remember=False, speak=False)
        ask(talk, 3, remember=False, speak=False)
        assert await over(talk, 3) == dict.fromkeys((1, 2, 3), "begun")
        await talk.sink.wait("end", 3)
        assert [outcome for _, outcome, *_ in talk.sink.of("end")] == ["answered"] * 3
        names = [name for name, *_ in talk.sink.calls if name in ("begin", "end")]
        assert names == ["begin", "end"] * 3


async def test_out_of_band_requests_wait_behind_the_users_turn() -> None:
    async with conversation(texts=LONG) as talk:
        talk.write("讲")
        ask(talk, 1)
        await talk.sink.wait_audio(1, 300)
        ask(talk, 2, remember=False, speak=False)
        await talk.microphone.say(0.6)
        assert await over(talk, 2) == {1: "begun", 2: "begun"}
        assert talk.sink.of("begin") == [(1, 1), (2, None), (3, 2)]


# --- the context -----------------------------------------------------------------------------
async def test_items_are_inserted_and_deleted_by_name() -> None:
    async with conversation(texts=LONG, options=TO_READ) as talk:
        await talk.microphone.say(0.6)
        await talk.sink.wait("end")
        [turn] = talk.sink.turns
        add = talk.session.add
        add(item_ref("a"), Message(role="system", text="a"), after=ROOT)
        add(item_ref("b"), Message(role="user", text="b"), after=turn_ref(turn))
        add(item_ref("c"), Message(role="user", text="c"), after=answer_ref(1))
        add(item_ref("d"), Message(role="assistant", text="d"), after=item_ref("c"))
        add(item_ref("e"), Message(role="user", text="e"), after="gone")
        await talk.settle()
        assert [content for _, content in talk.context] == [
            "a", "讲个故事", "b", REPLY, "c", "d", "e",
        ]  # fmt: skip
        for ref in (turn_ref(turn), answer_ref(1), item_ref("d"), "gone"):
            talk.session.remove(ref)
        await talk.settle()
        assert [content for _, content in talk.context] == ["a", "b", "c", "e"]


async def test_what_is_written_while_an_answer_plays_comes_after_it() -> None:
    async with conversation(texts=LONG) as talk:
        talk.write("讲")
        talk.session.respond()
        await talk.sink.wait_audio(1, 600)
        talk.write("停")
        talk.session.respond()
        _, _, heard, _ = await talk.sink.wait("end")
        await talk.sink.wait("end", 2)
        assert talk.context == [
            ("user", "讲"),
            ("assistant", heard),
            ("user", "停"),
            ("assistant", REPLY),
        ]
        assert talk.llm.script.requests[1].body["messages"][1:] == [
            {"role": "user", "content": "讲"},
            {"role": "assistant", "content": heard},
            {"role": "user", "content": "停"},
        ]


async def test_turns_are_named_by_their_number() -> None:
    async with conversation(texts=LONG, options=TO_READ) as talk:
        await talk.ask("写的", 1)
        await talk.microphone.say(0.6)
        await talk.sink.wait("end", 2)
        [turn] = talk.sink.turns
        talk.session.remove(turn_ref(turn))
        await talk.settle()
        assert ("user", "讲个故事") not in talk.context


async def test_older_answers_can_still_be_truncated() -> None:
    texts = ScriptedTexts(replies=["好的，"])
    async with conversation(texts=texts) as talk:
        for turn in (1, 2, 3):
            await talk.ask(f"问{turn}", turn)
        times = char_times("好的，")
        talk.session.heard_until(1, round(times[0] * 1000) + 1)
        talk.session.heard_until(2, 0)
        assert talk.context == [
            ("user", "问1"),
            ("assistant", "好"),
            ("user", "问2"),
            ("user", "问3"),
            ("assistant", "好的，"),
        ]


async def test_so_many_answers_and_no_more() -> None:
    texts = ScriptedTexts(replies=["好的，"])
    async with conversation(texts=texts, options=TO_READ) as talk:
        for turn in range(1, KEPT_ANSWERS + 2):
            await talk.ask("问", turn)
        talk.session.heard_until(1, -1)
        talk.session.heard_until(2, -1)
        assert [role for role, _ in talk.context[:4]] == ["user", "assistant", "user", "user"]


async def test_what_was_dropped_from_the_context_is_forgotten() -> None:
    server = RawServer(lambda: [*text("好的。"), *STOP])
    async with conversation(
        client=server.client, options=TO_READ, answers={"context_tokens": 400, "max_tokens": 100}
    ) as talk:
        first = talk.write("为什么" * 20)
        for _ in range(4):
            talk.write("为什么" * 20)
            talk.write("因为", "assistant")
        await talk.ask("最后")
        kept = list(talk.context)
        assert len(kept) < 9
        talk.session.remove(first)
        talk.session.add(item_ref("x"), Message(role="user", text="x"), after=first)
        await talk.settle()
        assert talk.context == [*kept, ("user", "x")]


# --- idle ------------------------------------------------------------------------------------
async def test_a_long_silence_is_answered_once() -> None:
    texts = ScriptedTexts(replies=["好的，"])
    async with conversation(texts=texts, options=SessionOptions(idle_ms=320)) as talk:
        await talk.ask("问")
        since_ms, at_ms = await talk.sink.wait("idle")
        assert 320 <= at_ms - since_ms < 400
        assert (await talk.sink.wait("end", 2))[:2] == (2, "answered")
        names = [name for name, *_ in talk.sink.calls]
        assert names[names.index("idle") + 1] == "begin"
        assert talk.context == [("user", "问"), ("assistant", "好的，"), ("assistant", "好的，")]
        # It was said once.
        talk.session.audio(bytes(32_000), arrived=time.monotonic())
        await talk.listened()
        await talk.settle()
        assert len(talk.sink.of("idle")) == 1
