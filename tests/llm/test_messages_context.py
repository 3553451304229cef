"""Invariants: a conversation that is too long loses its oldest exchanges, about half at a time; the
last exchange always stays, and a tool's result is never parted from its call.
"""

from __future__ import annotations

from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.llm.context import (
    drop_oldest,
    fit,
    halve,
    is_too_long,
    message_tokens,
    tokens_of,
)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {}}]}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "晴" * 50}


def size(messages: list[Any]) -> int:
    return sum(map(message_tokens, messages))


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("今天天气很好", 6),
        ("The weather is fine today", 6),
        ("3.14159", 7),
        ("😀😀", 2),
        ("\ud83d", 0),
    ],
)
def test_the_estimate_is_an_upper_one(text: str, least: int) -> None:
    assert least <= tokens_of(text) <= 3 * least + 3


def test_parts_and_calls_count() -> None:
    parts = {"role": "user", "content": [{"type": "text", "text": "好" * 100}]}
    assert message_tokens(parts) > 100
    assert message_tokens(CALL) > 12


def test_what_fits_stays() -> None:
    messages = [user("一"), assistant("二")]
    assert fit(messages, size(messages)) is None


def test_half_a_room_stays_so_that_many_turns_share_a_beginning() -> None:
    messages: list[Any] = []
    beginnings = []
    for turn in range(200):
        messages.append(user(f"第{turn}个问题，为什么？"))
        messages = fit(messages, 1000) or messages
        assert size(messages) <= 1000
        assert messages[-1] == user(f"第{turn}个问题，为什么？")
        beginnings.append(messages[0]["content"])
        messages.append(assistant("因为如此，所以这样。"))
    assert 2 <= len(set(beginnings)) <= 200 * 52 // 500 + 1


def test_a_long_question_is_kept_alone() -> None:
    assert fit([user("一"), assistant("二"), user("好" * 500)], 100) == [user("好" * 500)]


def test_a_tool_call_keeps_its_result() -> None:
    last = [user("天气"), CALL, RESULT, assistant("晴天"), user("谢谢")]
    messages = [user("旧"), CALL, RESULT, *last]
    assert drop_oldest(messages, size(last) - 1) == last[-1:]
    assert drop_oldest(messages, size(last)) == last
    # In the middle of the calls of the last exchange.
    assert drop_oldest([*messages[:3], *last[:3]], 10) == last[:3]
    # Without a user's message the cut is at any that is no result.
    assert drop_oldest([CALL, RESULT, CALL, RESULT], 10) == [CALL, RESULT]


def test_a_clients_own_prompt_stays_unless_it_is_the_trouble() -> None:
    messages = [system("你叫小明。"), *[user("一"), assistant("二")] * 50, user("三")]
    kept = drop_oldest(messages, 100)
    assert kept[0] == messages[0]
    assert kept[-1] == user("三")
    assert size(kept) <= 100
    assert drop_oldest([system("长" * 90), user("三")], 100) == [user("三")]
    assert drop_oldest([], 100) == []


@given(
    st.lists(st.sampled_from([user("问" * 20), assistant("答" * 30), RESULT, system("规" * 9)])),
    st.integers(0, 600),
)
def test_what_is_kept_is_a_suffix_and_fits_beyond_its_last_exchange(
    messages: list[Any], limit: int
) -> None:
    kept = drop_oldest(messages, limit)
    head = next((at for at, m in enumerate(kept) if m["role"] != "system"), len(kept))
    body = kept[head:]
    assert messages[len(messages) - len(body) :] == body
    users = [at for at, m in enumerate(body) if m["role"] == "user"]
    if any(m["role"] == "user" for m in messages):
        assert users
        assert size(kept) <= limit or users == [0] or users[0] == len(body) - 1


def test_halving_drops_something_of_two_exchanges() -> None:
    messages = [user("一"), assistant("二"), user("三")]
    assert halve(messages) == [user("三")]
    assert halve(messages[2:]) == messages[2:]


def refusal(status: int, message: str, code: str | None = None) -> openai.APIStatusError:
    response = httpx2.Response(status, request=httpx2.Request("POST", "http://x.invalid"))
    body = {"message": message, "code": code}
    return openai.APIStatusError(message, response=response, body=body)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refusal(400, "no", "context_length_exceeded"), True),
        (refusal(400, "This model's maximum context length is 4096 tokens."), True),
        (refusal(400, "Requested tokens (4500) exceed context window of 4096"), True),
        (refusal(400, "the request exceeds the available context size, try increasing it"), True),
        (refusal(413, "prompt is too long: 210000 tokens > 200000 maximum"), True),
        (refusal(400, "temperature must be at most 2"), False),
        (refusal(500, "maximum context length"), False),
        (ValueError("maximum context length"), False),
    ],
)
def test_a_refusal_for_length_is_told_from_others(error: Exception, expected: bool) -> None:
    assert is_too_long(error) is expected
