"""Invariant: the tokens of a scripted answer, joined, are the answer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scripted.chat import plan_answer, split_tokens
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
    assert plan_answer({"messages": messages}, TEXTS).turn == 1
    messages += [{"role": "assistant", "content": "y"}, user("b")]
    answer = plan_answer({"messages": messages, "user": "s9"}, TEXTS)
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
    assert plan_answer(body, ScriptedTexts()).message["content"] == reply


def test_nobody_said_anything():
    answer = plan_answer({"messages": []}, ScriptedTexts())
    assert (answer.turn, answer.message["content"]) == (0, "你说的是：")


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_a_limit_cuts_the_answer_and_says_so(limit):
    answer = plan_answer({"messages": [user("a")], limit: 2}, TEXTS)
    assert answer.message["content"] == "第一个回"
    assert answer.finish_reason == "length"
    assert plan_answer({"messages": [user("a")], limit: 99}, TEXTS).finish_reason == "stop"


WEATHER = '看一下。@call weather {"city": "北京", "days": 3} @call lamp@then {tool}，{user}。'
TOOLS = [{"type": "function", "function": {"name": "weather"}}]


def ask(messages, reply=WEATHER, **fields):
    body = {"messages": messages, "tools": TOOLS, **fields}
    return plan_answer(body, ScriptedTexts(replies=[reply]))


def output(call_id, content):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def test_functions_are_called_once_then_their_outputs_are_answered():
    messages = [user("a")]
    answer = ask(messages)
    assert answer.finish_reason == "tool_calls"
    assert "".join(piece.text for piece in answer.pieces) == "看一下。"
    assert answer.message["content"] == "看一下。"
    first, second = answer.message["tool_calls"]
    assert first["function"]["name"] == "weather"
    assert json.loads(first["function"]["arguments"]) == {"city": "北京", "days": 3}
    assert second["function"] == {"name": "lamp", "arguments": "{}"}
    messages += [answer.message, output(first["id"], "晴")]
    assert ask(messages).message["tool_calls"]  # one of two outputs is missing
    messages += [output(second["id"], "{user}")]
    answer = ask(messages)
    assert (answer.turn, answer.finish_reason) == (1, "stop")
    assert answer.message == {"role": "assistant", "content": "{user}，a。"}
    assert ask([*messages, answer.message, user("b")]).finish_reason == "tool_calls"


def test_a_call_comes_in_pieces_as_servers_stream_it():
    pieces = [
        piece.delta["tool_calls"][0]
        for piece in ask([user("a")], '@call f {"a": "0123456789"}').pieces
    ]
    assert pieces[0] == {
        "index": 0,
        "id": "call_1_0_0",
        "type": "function",
        "function": {"name": "f", "arguments": ""},
    }
    assert [piece["index"] for piece in pieces] == [0] * 4
    arguments = "".join(piece["function"]["arguments"] for piece in pieces)
    assert json.loads(arguments) == {"a": "0123456789"}


def test_a_call_alone_has_no_content():
    assert ask([user("a")], "@call f").message["content"] is None


def test_calls_of_one_conversation_have_their_own_ids():
    reply = "@call f @call f@then @call f@then 好"
    messages, ids = [user("a")], []
    while calls := ask(messages, reply).message.get("tool_calls"):
        ids += [call["id"] for call in calls]
        messages += [output(call["id"], "1") for call in calls]
    assert len(set(ids)) == len(ids) == 3


@pytest.mark.parametrize("fields", [{"tools": []}, {"tools": None}, {"tool_choice": "none"}])
def test_without_tools_only_the_text_is_left(fields):
    answer = ask([user("a")], **fields)
    assert answer.message == {"role": "assistant", "content": "看一下。"}
    assert answer.finish_reason == "stop"
    assert ask([user("a")], "@call f", **fields).pieces == ()


def test_a_limit_cuts_a_call():
    answer = ask([user("a")], '@call f {"a": "0123456789"}', max_tokens=2)
    assert answer.finish_reason == "length"
    [call] = answer.message["tool_calls"]
    assert call["function"]["arguments"] == '{"a": "0'


def test_outputs_to_nobody_are_answered():
    assert ask([output("x", "晴")], "@call f").message["content"] == "晴"


def test_an_empty_answer_has_no_tokens():
    body = {"messages": [user("a")], "tools": TOOLS}
    answer = plan_answer(body, ScriptedTexts(replies=[WEATHER]), empty=True)
    assert (answer.pieces, answer.finish_reason) == ((), "stop")
