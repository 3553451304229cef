"""Invariant: the tokens of a scripted answer, joined, are the answer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scripted.chat import ScriptedToolCall, plan_answer, split_tokens
from services.scripted.spec import ScriptedTexts

TEXTS = ScriptedTexts(replies=["第一个回答，好的。", "second {session}"])


def user(text):
    return {"role": "user", "content": text}


@given(st.text(max_size=80))
def test_nothing_is_lost_or_added(text):
    assert "".join(split_tokens(text)) == text


def test_tokens_have_the_size_that_llms_stream():
    assert split_tokens("你说的是：well, don't go\n") == [
        "你说",
        "的是",
        "：",
        "well",
        ",",
        " don't",
        " go",
        "\n",
    ]


def test_the_turn_is_the_number_of_user_messages():
    messages = [{"role": "system", "content": "x"}, user("a")]
    assert plan_answer({"messages": messages}, TEXTS, {}).turn == 1
    messages += [{"role": "assistant", "content": "y"}, user("b")]
    answer = plan_answer({"messages": messages, "user": "s9"}, TEXTS, {})
    assert answer.turn == 2
    assert answer.message == {"role": "assistant", "content": "second s9"}
    assert "".join(piece.text for piece in answer.pieces) == "second s9"


@pytest.mark.parametrize(
    "content, reply",
    [
        ("你好", "你说的是：你好"),
        ([{"type": "text", "text": "你"}, {"type": "text", "text": "好"}], "你说的是：你好"),
        (None, "你说的是："),
    ],
)
def test_echo_repeats_the_last_user_message(content, reply):
    body = {"messages": [user("before"), user(content)]}
    assert plan_answer(body, ScriptedTexts(), {}).message["content"] == reply


def test_nobody_said_anything():
    answer = plan_answer({"messages": []}, ScriptedTexts(), {})
    assert (answer.turn, answer.message["content"]) == (0, "你说的是：")


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_a_limit_cuts_the_answer_and_says_so(limit):
    answer = plan_answer({"messages": [user("a")], limit: 2}, TEXTS, {})
    assert answer.message["content"] == "第一个回"
    assert answer.finish_reason == "length"
    assert plan_answer({"messages": [user("a")], limit: 99}, TEXTS, {}).finish_reason == "stop"


def test_a_tool_is_called_once_then_the_text_follows():
    calls = {1: [ScriptedToolCall(name="weather", arguments={"city": "北京", "days": 3})]}
    messages = [user("a")]
    answer = plan_answer({"messages": messages}, TEXTS, calls)
    assert answer.finish_reason == "tool_calls"
    assert answer.message["tool_calls"][0]["id"] == "call_1_0"
    pieces = [piece.delta["tool_calls"][0]["function"] for piece in answer.pieces]
    assert pieces[0] == {"name": "weather", "arguments": ""}
    assert len(pieces) > 3
    joined = "".join(piece["arguments"] for piece in pieces)
    assert json.loads(joined) == {"city": "北京", "days": 3}
    messages += [answer.message, {"role": "tool", "tool_call_id": "call_1_0", "content": "晴"}]
    answer = plan_answer({"messages": messages}, TEXTS, calls)
    assert (answer.turn, answer.message["content"]) == (1, "第一个回答，好的。")


def test_an_empty_answer_has_no_tokens():
    calls = {1: [ScriptedToolCall(name="weather", arguments={})]}
    answer = plan_answer({"messages": [user("a")]}, TEXTS, calls, empty=True)
    assert (answer.pieces, answer.finish_reason) == ((), "stop")
