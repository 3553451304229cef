"""Invariants: a kept speculation is the answer that would have been asked for at the end of the
turn, and asked for once; of one that is not kept nothing is told, remembered, counted or left to
run.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pipeline.turns.settings import TurnSettings
from services.face import AnswerOptions, SessionOptions
from services.scripted.llm_script import LlmFault, LlmRequest
from services.scripted.spec import ScriptedTexts
from services.scripted.tts import VoiceFault
from services.tools import Tool
from tests.llm.raw_server import STOP, RawServer, text
from tests.pipeline.harness import Talk, conversation

#: so long a silence that an answer is ready before it ends the turn
LATE = TurnSettings(floor_ms=1500, ceiling_ms=1600)
LONG = ScriptedTexts(
    transcripts=["讲个故事", "停一下"],
    replies=["从前有一座山，山里有一座庙。"],
)
REPLY = LONG.replies[0]


async def asked(talk: Talk, count: int = 1) -> LlmRequest:
    """Waits for a request."""
    async with asyncio.timeout(20):
        while len(talk.llm.script.requests) < count:
            talk.llm.script.arrived.clear()
            await talk.llm.script.arrived.wait()
    return talk.llm.script.requests[count - 1]


async def over(request: LlmRequest) -> LlmRequest:
    async with asyncio.timeout(20):
        await request.over.wait()
    return request


def told(talk: Talk) -> list[str]:
    return [call[0] for call in talk.sink.calls]


async def messages_of_two_turns(turns: TurnSettings) -> list[Any]:
    texts = ScriptedTexts(transcripts=["你好吗？", " And you? "], replies=["好。"])
    async with conversation(texts=texts, turns=turns) as talk:
        for turn in (1, 2):
            await talk.microphone.say(0.5)
            await talk.sink.wait("end", turn)
        return [request.body for request in talk.llm.script.requests]


# --- kept ------------------------------------------------------------------------------------
async def test_a_kept_answer_was_made_before_the_turn_ended_and_is_told_after() -> None:
    async with conversation(texts=LONG, turns=LATE) as talk:
        await talk.microphone.say(0.6)
        await over(await asked(talk))
        assert told(talk) == ["turn_opened"]
        assert talk.context == []
        assert await talk.sink.wait("end") == (1, "answered", REPLY, None)
        await talk.sink.wait("turn_report")
        shown = told(talk)
        assert shown[:4] == ["turn_opened", "turn_ended", "final", "begin"]
        assert set(shown[4:-2]) == {"text"}
        assert talk.context == [("user", "讲个故事"), ("assistant", REPLY)]
        assert len(talk.llm.script.requests) == 1
        assert talk.books.guesses == ["kept"]
        [report] = talk.books.turns
        stamps = report.stamps
        assert stamps["asked"] <= stamps["final"] <= stamps["speculated"] <= stamps["first_token"]
        assert stamps["chunk"] <= stamps["endpoint"] <= stamps["sent"]
        assert report.parts_ms["llm_first_token"] == report.parts_ms["tts_first_chunk"] == 0


async def test_requests_are_the_same_with_and_without_speculation() -> None:
    kept = await messages_of_two_turns(TurnSettings())
    assert kept == await messages_of_two_turns(TurnSettings(speculate=False))
    assert kept[1]["messages"][: len(kept[0]["messages"])] == kept[0]["messages"]


async def test_an_answer_to_be_read_is_remembered_though_it_was_ready_at_once() -> None:
    options = SessionOptions(speak=False)
    async with conversation(texts=LONG, turns=LATE, options=options) as talk:
        for turn in (1, 2):
            await talk.microphone.say(0.6)
            await talk.sink.wait("end", turn)
        assert talk.context == [
            ("user", "讲个故事"),
            ("assistant", REPLY),
            ("user", "停一下"),
            ("assistant", REPLY),
        ]
        assert talk.books.guesses == ["kept", "kept"]


async def test_a_click_costs_no_speculation() -> None:
    async with conversation(texts=LONG, turns=LATE) as talk:
        await talk.microphone.say(0.6)
        await asked(talk)
        talk.microphone.click()
        await talk.sink.wait("end")
        assert len(talk.llm.script.requests) == 1
        assert len(talk.asr.fed_s) == 2  # its text was asked for again
        assert talk.books.guesses == ["kept"]


# --- revoked ---------------------------------------------------------------------------------
async def test_a_user_who_goes_on_ends_all_work_on_it() -> None:
    async with conversation(
        texts=LONG, turns=LATE, llm={"tokens_per_s": 10}, voice={"rate": 0.5}
    ) as talk:
        await talk.microphone.say(0.6)
        first = await asked(talk)
        await talk.voice.asked.wait()
        await talk.microphone.say(0.6)
        assert (await over(first)).cancelled
        second = await asked(talk, 2)
        assert talk.voice.spoken[0].cancelled
        assert talk.voice.cancelled == 1
        assert await talk.sink.wait("end") == (2, "answered", REPLY, None)
        assert second.finished
        # Nobody was told of the first, and nothing of it was remembered.
        assert {call[1] for call in talk.sink.calls if call[0] in ("begin", "text", "end")} == {2}
        assert set(talk.sink.pcm) == {2}
        assert talk.context == [("user", "讲个故事"), ("assistant", REPLY)]
        assert talk.books.guesses == ["revoked", "kept"]
        assert [report.outcome for report in talk.books.turns] == ["answered"]


async def test_another_text_is_answered_anew() -> None:
    said = "一二三四五六七八九十" * 8
    texts = ScriptedTexts(transcripts=[said], replies=["{user}。"], chars_per_second=100)
    async with conversation(
        texts=texts, turns=LATE, asr={"whole_text": False}, options=SessionOptions(speak=False)
    ) as talk:
        await talk.microphone.say(0.6)
        first = await asked(talk)
        talk.microphone.click()
        final, _ = await talk.sink.wait("final")
        assert len(first.messages[-1]["content"]) < len(final)
        assert said.startswith(final)
        assert await talk.sink.wait("end") == (2, "answered", f"{final}。", None)
        assert talk.context[0] == ("user", final)
        assert talk.books.guesses == ["revoked", "kept"]


async def test_a_first_word_in_another_language_does_not_choose_the_prompt() -> None:
    texts = ScriptedTexts(transcripts=["OK我们走"], replies=["好。"], chars_per_second=3)
    async with conversation(texts=texts, turns=LATE, asr={"whole_text": False}) as talk:
        await talk.microphone.say(0.6)
        assert (await asked(talk)).messages[0]["content"] == "Answer in English."
        await talk.microphone.say(1.2)
        await talk.sink.wait("end")
        assert talk.llm.script.requests[-1].messages == [
            {"role": "system", "content": "请用中文回答。"},
            {"role": "user", "content": "OK我们走"},
        ]


async def test_a_client_that_leaves_takes_the_speculation_with_it() -> None:
    async with conversation(texts=LONG, turns=LATE, llm={"tokens_per_s": 5}) as talk:
        await talk.microphone.say(0.6)
        first = await asked(talk)
        talk.session.close()
        await talk.running
        assert (await over(first)).cancelled
        assert told(talk) == ["turn_opened"]
        assert talk.books.turns == []
        assert talk.context == []


async def test_a_clients_cancel_ends_it_and_not_the_turn() -> None:
    async with conversation(texts=LONG, turns=LATE, llm={"tokens_per_s": 20}) as talk:
        await talk.microphone.say(0.6)
        first = await asked(talk)
        talk.session.cancel()
        assert (await over(first)).cancelled
        assert (await talk.sink.wait("end"))[1] == "answered"
        assert talk.books.guesses == ["revoked"]


async def test_a_request_takes_its_place() -> None:
    async with conversation(texts=LONG, turns=LATE, llm={"tokens_per_s": 20}) as talk:
        await talk.microphone.say(0.6)
        await asked(talk)
        talk.session.respond(AnswerOptions(instructions="小声", ask=7))
        assert await talk.sink.wait("begin") == (2, 7)
        assert (await asked(talk, 2)).messages == [{"role": "system", "content": "小声"}]


async def test_a_turn_that_comes_as_text_takes_its_place() -> None:
    async with conversation(texts=LONG, turns=LATE, llm={"tokens_per_s": 40}) as talk:
        await talk.microphone.say(0.6)
        first = await asked(talk)
        talk.session.say("小明小明")
        assert await talk.sink.wait("final") == ("小明小明", "zh")
        assert (await talk.sink.wait("end"))[1] == "answered"
        assert first.cancelled
        assert talk.sink.of("turn_ended") == []
        assert talk.context == [("user", "小明小明"), ("assistant", REPLY)]


# --- what it was made from -------------------------------------------------------------------
async def test_what_a_client_adds_is_in_the_answer() -> None:
    async with conversation(texts=LONG, turns=LATE) as talk:
        await talk.microphone.say(0.6)
        await asked(talk)
        talk.write("用户叫小明", "system")
        second = await asked(talk, 2)
        assert second.messages[0]["content"] == "请用中文回答。\n用户叫小明"
        assert (await talk.sink.wait("end"))[1] == "answered"
        assert len(talk.llm.script.requests) == 2
        assert talk.context[:2] == [("system", "用户叫小明"), ("user", "讲个故事")]


async def test_what_a_client_says_was_heard_is_in_the_answer() -> None:
    options = SessionOptions(echo_cancelled=True)
    async with conversation(texts=LONG, turns=LATE, options=options) as talk:
        await talk.ask("讲", 1)
        await talk.microphone.say(0.6)
        before = await asked(talk, 2)
        talk.session.heard_until(1, 0)
        talk.session.heard_until(1, 0)
        after = await asked(talk, 3)
        assert [m["content"] for m in before.messages[1:]] == ["讲", REPLY, "讲个故事"]
        assert [m["content"] for m in after.messages[1:]] == ["讲\n讲个故事"]
        await talk.sink.wait("end", 2)
        assert len(talk.llm.script.requests) == 3


async def test_other_instructions_are_in_the_answer() -> None:
    async with conversation(texts=LONG, turns=LATE) as talk:
        await talk.microphone.say(0.6)
        await asked(talk)
        talk.session.update(SessionOptions())  # nothing changes
        talk.session.update(SessionOptions(instructions="小声"))
        second = await asked(talk, 2)
        assert second.messages[0]["content"] == "小声"
        await talk.sink.wait("end")
        assert len(talk.llm.script.requests) == 2


async def test_a_long_conversation_is_shortened_only_by_what_is_kept() -> None:
    arrived = asyncio.Event()

    def good() -> list[bytes]:
        arrived.set()
        return [*text("好。"), *STOP]

    server = RawServer(good)
    answers = {"context_tokens": 700, "max_tokens": 50}
    async with conversation(client=server.client, answers=answers, turns=LATE) as talk:
        for turn in range(30):
            talk.write(f"第{turn}个问题：" + "为什么" * 5)
            talk.write("因为如此" * 5, "assistant")
        await talk.settle()
        before = talk.context
        await talk.microphone.say(0.6)
        await arrived.wait()
        assert talk.context == before
        await talk.microphone.say(0.6)  # goes on: the first is void
        await talk.sink.wait("end")
        first, second = (request["messages"] for request in server.requests)
        assert first == second
        assert len(talk.context) == len(second)  # without the prompt, with the answer
        await talk.ask("再来", 2)
        assert server.requests[2]["messages"][: len(second)] == second


# --- withdrawn -------------------------------------------------------------------------------
async def test_no_function_is_called_before_the_turn_has_ended() -> None:
    texts = ScriptedTexts(transcripts=["天气？"], replies=["看看，@call weather@then 好。"])
    options = SessionOptions(tools=(Tool(name="weather"),))
    async with conversation(texts=texts, turns=LATE, options=options) as talk:
        await talk.microphone.say(0.6)
        await over(await asked(talk))
        await talk.settle()
        assert told(talk) == ["turn_opened"]
        assert talk.books.guesses == ["withdrawn"]
        await talk.sink.wait("call_done")
        shown = told(talk)
        assert shown.index("begin") < shown.index("call_begun")
        assert len(talk.sink.of("call_begun")) == 1
        assert len(talk.llm.script.requests) == 2


async def test_a_speculation_that_fails_is_asked_for_again() -> None:
    server = RawServer(lambda: [b"<html>busy</html>"], lambda: [*text("好的。"), *STOP])
    async with conversation(client=server.client, turns=LATE) as talk:
        await talk.microphone.say(0.6)
        assert await talk.sink.wait("end") == (2, "answered", "好的。", None)
        assert talk.books.errors == []
        assert talk.books.guesses == ["withdrawn"]


async def test_an_answer_that_fails_again_fails_aloud_and_once() -> None:
    fault = LlmFault(kind="http_500")
    async with conversation(turns=LATE, llm={"failures": {1: fault}}) as talk:
        await talk.microphone.say(0.6)
        assert (await talk.sink.wait("end"))[:2] == (2, "failed")
        assert len(talk.books.errors) == 1
        assert len(talk.llm.script.requests) == 2


async def test_a_voice_that_fails_is_asked_again() -> None:
    faults = {"failures": {1: VoiceFault(kind="raise")}}
    async with conversation(texts=LONG, turns=LATE, voice=faults) as talk:
        await talk.microphone.say(0.6)
        assert await talk.sink.wait("end") == (2, "answered", REPLY, None)
        assert talk.books.errors == []


@pytest.mark.parametrize("engine", ["asr", "voice"])
async def test_others_who_use_the_engines_go_first(engine: str) -> None:
    async with conversation(texts=LONG, turns=LATE) as talk:
        getattr(talk, engine).stats.depth += 1
        await talk.microphone.say(0.6)
        await talk.sink.wait("end")
        getattr(talk, engine).stats.depth -= 1
        [report] = talk.books.turns
        assert "speculated" not in report.stamps
        assert talk.llm.script.requests[0].started >= report.stamps["endpoint"]
        assert talk.books.guesses == ["withdrawn"]


async def test_others_who_use_the_engines_need_not_matter() -> None:
    async with conversation(texts=LONG, turns=LATE, speculate_when_busy=True) as talk:
        talk.asr.stats.depth += 1
        await talk.microphone.say(0.6)
        await talk.sink.wait("end")
        talk.asr.stats.depth -= 1
        assert talk.books.guesses == ["kept"]


async def test_nothing_is_speculated_while_a_turn_is_not_answered_by_itself() -> None:
    async with conversation(texts=LONG, options=SessionOptions(auto_respond=False)) as talk:
        await talk.microphone.say(0.6)
        await talk.sink.wait("final")
        await talk.settle()
        assert talk.llm.script.requests == []
        assert talk.context == [("user", "讲个故事")]
