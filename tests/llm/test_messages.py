"""Invariants: what is sent is well-formed Unicode; a message reads the same in every request;
every function call has its output right behind it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.llm.messages import (
    NO_OUTPUT,
    with_notes,
    with_objects,
    with_outputs,
    with_prompt,
)
from services.well_formed import SurrogateJoiner, all_well_formed, well_formed

#: text as JSON may spell it: with halves of pairs in any order
ANY_TEXT = st.text(st.sampled_from("a好😀\ud83d\ude00\udbff\udc00"), max_size=12)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("好的", "好的"),
        ("\ud83d\ude00", "😀"),
        ("\ud83d", "\ufffd"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("a\ud83db", "a\ufffdb"),
        ("\ud83d\ud83d\ude00", "\ufffd😀"),
    ],
)
def test_halves_are_joined_and_lone_ones_replaced(given: str, expected: str) -> None:
    assert well_formed(given) == expected


@given(ANY_TEXT)
def test_what_is_well_formed_can_be_sent_and_stays(text: str) -> None:
    once = well_formed(text)
    once.encode()
    assert well_formed(once) == once


@given(st.lists(ANY_TEXT, max_size=6))
def test_a_joined_text_does_not_depend_on_how_it_was_cut(pieces: list[str]) -> None:
    joiner = SurrogateJoiner()
    out = [joiner.push(piece) for piece in pieces]
    for piece in out:
        piece.encode()  # no piece holds half a pair
    assert "".join(out) + joiner.finish() == well_formed("".join(pieces))


def test_every_text_of_a_message_is_made_well_formed() -> None:
    message = {"content": [{"type": "text", "text": "\ud83d"}], "\udc00": None, "n": 1}
    made = all_well_formed(message)
    assert made == {"content": [{"type": "text", "text": "\ufffd"}], "\ufffd": None, "n": 1}
    json.dumps(made, ensure_ascii=False).encode()


def test_neighbours_are_merged_and_answers_that_nobody_heard_left_out() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    messages = [
        {"role": "user", "content": "一"},
        {"role": "assistant", "content": " \n"},
        {"role": "user", "content": "二"},
        call,
        {"role": "assistant", "content": "三"},
    ]
    assert with_prompt("提示", messages) == [
        {"role": "system", "content": "提示"},
        {"role": "user", "content": "一\n二"},
        call,
        {"role": "assistant", "content": "三"},
    ]
    assert with_prompt("", messages[:1]) == messages[:1]


def test_a_message_says_its_language_where_the_prompt_is_in_another() -> None:
    messages = [
        {"role": "user", "content": "你好"},
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": "…"},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": None},
    ]
    switches = {"en": "(English.)", "zh": "（中文。）"}
    switched = with_notes(messages, "zh", switches=switches, moods={})
    assert switched == [
        messages[0], {"role": "user", "content": "Hi\n(English.)"}, *messages[2:],
    ]  # fmt: skip
    assert with_notes(messages, "", switches=switches, moods={}) == messages


MOODS = {"zh": "（{emotion}）", "en": "({emotion})"}


@pytest.mark.parametrize("emotion", ["neutral", "confused", "", "happy"])
def test_what_the_context_notes_of_a_mood_is_not_sent(emotion: str) -> None:
    message = {"role": "user", "content": "你好", "emotion": emotion}
    bare = {"role": "user", "content": "你好"}
    assert with_notes([message], "zh", switches={}, moods={}) == [bare]
    assert message["emotion"] == emotion  # in the context it stays
    if emotion != "happy":
        assert with_notes([message], "zh", switches={}, moods=MOODS) == [bare]


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("zh", "Hi\n（开心）\n(English.)"),  # the language last: it is the one to be followed
        ("en", "Hi\n(happy)"),
        ("", "Hi\n（开心）"),
    ],
)
def test_a_mood_is_said_in_the_language_of_the_prompt(language: str, said: str) -> None:
    message = {"role": "user", "content": "Hi", "emotion": "happy"}
    noted = with_notes([message], language, switches={"en": "(English.)"}, moods=MOODS)
    assert noted == [{"role": "user", "content": said}]
    assert with_prompt("", [*noted, *noted])[0]["content"] == f"{said}\n{said}"


@pytest.mark.parametrize("emotion", ["happy", "sad", "angry", "fearful", "disgusted", "surprised"])
def test_every_emotion_has_a_name_in_every_language(emotion: str) -> None:
    message = {"role": "user", "content": "…", "emotion": emotion}
    for language in MOODS:
        [noted] = with_notes([message], language, switches={}, moods=MOODS)
        assert len(noted["content"]) > len("…\n()")
        assert "{" not in noted["content"]


def calling(*ids: str, content: str | None = None) -> dict[str, Any]:
    """An answer that calls functions."""
    calls = [{"id": id, "type": "function", "function": {"name": "f"}} for id in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def output(id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


USER = {"role": "user", "content": "一"}


def test_outputs_follow_their_calls_in_the_order_of_the_calls() -> None:
    messages = [
        output("c", "early"),
        USER,
        calling("a", "b"),
        calling("c"),
        USER,
        output("b", "old"),
        output("x", "of nothing"),
        output("b", "new"),
    ]
    assert with_outputs(messages) == [
        USER,
        calling("a", "b"),
        output("a", NO_OUTPUT),
        output("b", "new"),
        calling("c"),
        output("c", "early"),
        USER,
    ]


MESSAGE = st.one_of(
    st.just(USER),
    st.just({"role": "assistant", "content": "二"}),
    st.just({"role": "assistant", "content": "三", "tool_calls": None}),
    st.builds(output, st.sampled_from("abcd"), st.sampled_from(["1", "2"])),
    st.lists(st.sampled_from("abcd"), unique=True, max_size=3).map(lambda ids: calling(*ids)),
)


@given(st.lists(MESSAGE, max_size=12))
def test_every_call_is_answered_once_and_right_behind_it(messages: list[Any]) -> None:
    answered = with_outputs(messages)
    rest = iter(answered)
    for message in rest:
        assert message["role"] != "tool"
        for call in message.get("tool_calls") or ():
            behind = next(rest)
            given = [m["content"] for m in messages if m.get("tool_call_id") == call["id"]]
            assert behind == output(call["id"], given[-1] if given else NO_OUTPUT)
    assert [m for m in answered if m["role"] != "tool"] == [
        m for m in messages if m["role"] != "tool"
    ]
    assert with_outputs(answered) == answered


@given(st.lists(MESSAGE, max_size=12))
def test_calls_and_their_outputs_are_sent_as_they_are(messages: list[Any]) -> None:
    def of_calls(some: list[Any]) -> list[Any]:
        return [m for m in some if set(m) != {"role", "content"}]

    answered = with_outputs(messages)
    assert of_calls(with_prompt("提示", answered)) == of_calls(answered)


@pytest.mark.parametrize("content", [None, "", " "])
def test_a_call_without_words_stays(content: str | None) -> None:
    said = {"role": "assistant", "content": "好"}
    messages = [USER, said, calling("a", content=content), output("a", "1"), said, USER]
    assert with_prompt("", messages) == messages


@pytest.mark.parametrize(
    "arguments", ['{"city": "北', "", "北京", "[1]", "null", '{"a": NaN}', '{"a":' * 2000]
)
def test_arguments_that_are_no_object_do_not_end_the_conversation(arguments: str) -> None:
    whole = {"id": "a", "type": "function", "function": {"name": "f", "arguments": ' {"a": 1}'}}
    slip = {"id": "b", "type": "function", "function": {"name": "f", "arguments": arguments}}
    called = {"role": "assistant", "content": "", "tool_calls": [whole, slip]}
    said = {"role": "user", "content": "x"}
    sent = with_objects([said, called])
    assert sent[0] is said
    assert sent[1]["tool_calls"][0] == whole
    function = sent[1]["tool_calls"][1]["function"]
    assert json.loads(function["arguments"]) == {"not_json": arguments}
    # the conversation itself keeps what was written
    assert slip["function"] == {"name": "f", "arguments": arguments}
