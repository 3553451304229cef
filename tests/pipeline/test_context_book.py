"""Invariants: an item is where its client put it; an answer lies where it was asked for, however
late its text is known; a message of which nothing is left is gone; names do not outlive messages.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.context_book import ContextBook, chat_message
from services.items import (
    ROOT,
    FunctionCall,
    FunctionOutput,
    Message,
    answer_ref,
    call_ref,
    item_ref,
    turn_ref,
)

A1 = answer_ref(1)


def user(text: str) -> Message:
    return Message(role="user", text=text)


def call(call_id: str) -> FunctionCall:
    return FunctionCall(call_id=call_id, name="look", arguments="{}")


class Book:
    """A book with its list."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.book = ContextBook(self.messages)

    @property
    def texts(self) -> list[str]:
        return [message["content"] for message in self.messages]

    def turn(self, number: int, text: str) -> None:
        self.messages.append({"role": "user", "content": text})
        self.book.name_last(turn_ref(number))


def test_items_as_messages() -> None:
    assert chat_message(Message(role="system", text="x")) == {"role": "system", "content": "x"}
    assert chat_message(FunctionOutput(call_id="c", output="7")) == {
        "role": "tool",
        "tool_call_id": "c",
        "content": "7",
    }
    function = {"name": "look", "arguments": "{}"}
    assert chat_message(call("c")) == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }


def test_items_go_where_the_client_says() -> None:
    it = Book()
    it.turn(1, "turn")
    it.book.add(item_ref("a"), user("a"))
    it.book.add(item_ref("b"), user("b"), after=turn_ref(1))
    it.book.add(item_ref("c"), user("c"), after=ROOT)
    it.book.add(item_ref("d"), user("d"), after=item_ref("nobody"))
    assert it.texts == ["c", "turn", "b", "a", "d"]
    # Equal messages are not the same message.
    it.book.add(item_ref("e"), user("a"), after=item_ref("a"))
    it.book.remove(item_ref("e"))
    it.book.remove(item_ref("e"))
    assert it.texts == ["c", "turn", "b", "a", "d"]
    it.book.remove(turn_ref(1))
    assert it.texts == ["c", "b", "a", "d"]


def test_an_answer_lies_where_it_was_asked_for() -> None:
    it = Book()
    it.turn(1, "question")
    it.book.ask(A1)
    it.book.add(item_ref("late"), user("late"))
    it.book.heard(A1, " heard ")
    assert it.texts == ["question", "heard", "late"]
    it.book.heard(A1, "again")  # an answer is over once
    assert it.texts == ["question", "heard", "late"]
    it.book.add(item_ref("x"), user("x"), after=A1)
    assert it.texts == ["question", "heard", "x", "late"]


def test_an_answer_to_nothing_comes_first() -> None:
    it = Book()
    it.book.ask(A1)
    it.book.add(item_ref("late"), user("late"))
    it.book.heard(A1, "hello")
    assert it.texts == ["hello", "late"]


def test_the_place_of_an_answer_outlives_what_lies_before_it() -> None:
    it = Book()
    it.turn(1, "one")
    it.turn(2, "two")
    it.book.ask(A1)
    it.book.add(item_ref("late"), user("late"))
    it.book.remove(turn_ref(2))
    it.book.remove(turn_ref(1))
    it.book.heard(A1, "heard")
    assert it.texts == ["heard", "late"]


def test_an_answer_whose_place_was_dropped_comes_last() -> None:
    it = Book()
    it.turn(1, "one")
    it.book.ask(A1)
    it.messages.append({"role": "user", "content": "kept"})
    it.book.drop(it.messages[:1])
    it.book.heard(A1, "heard")
    assert it.texts == ["kept", "heard"]


def test_an_answer_of_which_nothing_was_heard_leaves_nothing() -> None:
    it = Book()
    it.book.ask(A1)
    it.book.heard(A1, "")
    it.book.amend(A1, "more")
    assert it.messages == []


def test_the_clients_word_on_what_was_heard() -> None:
    it = Book()
    for number in (1, 2):
        it.book.ask(answer_ref(number))
        it.book.heard(answer_ref(number), f"answer {number}")
    it.book.amend(A1, "answ")
    assert it.texts == ["answ", "answer 2"]
    it.book.amend(A1, "")
    it.book.amend(A1, "answ")
    it.book.amend(answer_ref(9), "nobody's")
    assert it.texts == ["answer 2"]


def test_calls_and_speech_of_an_answer_are_one_message() -> None:
    it = Book()
    it.turn(1, "question")
    it.book.ask(A1)
    it.book.call(A1, call("a"))
    it.book.add(item_ref("out"), FunctionOutput(call_id="a", output="7"))
    it.book.call(A1, call("b"))
    it.book.heard(A1, "let me see")
    assert it.texts == ["question", "let me see", "7"]
    assert [made["id"] for made in it.messages[1]["tool_calls"]] == ["a", "b"]
    it.book.add(item_ref("x"), user("x"), after=call_ref("a"))
    assert it.texts == ["question", "let me see", "x", "7"]
    it.book.amend(A1, "let")
    it.book.amend(A1, "")
    assert it.texts == ["question", "", "x", "7"]
    it.book.remove(call_ref("a"))
    assert [made["id"] for made in it.messages[1]["tool_calls"]] == ["b"]
    it.book.remove(call_ref("b"))
    assert it.texts == ["question", "x", "7"]


def test_removing_the_calls_leaves_the_text_and_the_other_way_round() -> None:
    it = Book()
    it.book.ask(A1)
    it.book.call(A1, call("a"))
    it.book.heard(A1, "let me see")
    it.book.remove(call_ref("a"))
    assert it.messages == [{"role": "assistant", "content": "let me see"}]

    it = Book()
    it.book.ask(A1)
    it.book.call(A1, call("a"))
    it.book.heard(A1, "let me see")
    it.book.remove(A1)
    assert it.messages == [chat_message(call("a"))]


def test_what_is_removed_while_it_is_spoken_stays_away() -> None:
    it = Book()
    it.book.ask(A1)
    it.book.remove(A1)
    it.book.heard(A1, "heard")
    assert it.messages == []

    it = Book()
    it.book.ask(A1)
    it.book.call(A1, call("a"))
    it.book.remove(call_ref("a"))
    it.book.heard(A1, "heard")
    assert it.messages == [{"role": "assistant", "content": "heard"}]


def test_a_call_that_a_client_adds() -> None:
    it = Book()
    it.book.add(item_ref("c"), call("c"))
    it.book.add(item_ref("o"), FunctionOutput(call_id="c", output="7"))
    it.book.remove(item_ref("c"))
    it.book.remove(item_ref("o"))
    assert it.messages == []


def test_what_was_dropped_is_forgotten() -> None:
    it = Book()
    it.book.ask(A1)
    it.book.call(A1, call("a"))
    it.turn(2, "kept")
    it.book.drop(it.messages[:1])
    it.book.remove(call_ref("a"))
    it.book.amend(A1, "x")
    it.book.add(item_ref("x"), user("x"), after=call_ref("a"))
    assert it.texts == ["kept", "x"]


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "root", "after", "remove", "ask", "heard", "call", "amend", "drop"]
        ),
        st.integers(0, 5),
    ),
    max_size=40,
)


@given(_STEPS)
def test_any_order_of_edits(steps: list[tuple[str, int]]) -> None:
    it = Book()
    for made, (what, number) in enumerate(steps):
        known = [item_ref(str(number)), answer_ref(number), call_ref(str(number))][number % 3]
        match what:
            case "add":
                it.book.add(item_ref(str(number)), user(f"u{made}"))
            case "root":
                it.book.add(item_ref(str(number)), user(f"u{made}"), after=ROOT)
                assert it.texts[0] == f"u{made}"
            case "after":
                it.book.add(item_ref(str(number)), user(f"u{made}"), after=known)
            case "remove":
                it.book.remove(known)
                it.book.remove(known)
            case "ask":
                it.book.ask(answer_ref(number))
            case "heard":
                it.book.heard(answer_ref(number), "" if made % 3 else f"h{made}")
            case "call":
                it.book.call(answer_ref(number), call(str(number)))
            case "amend":
                it.book.amend(answer_ref(number), "" if made % 2 else f"m{made}")
            case _:
                it.book.drop(it.messages[: number // 2])
        for message in it.messages:
            assert message["content"] or message["tool_calls"]
            assert "tool_calls" not in message or message["tool_calls"]


# --- made before its turn was written ----------------------------------------------------------
def test_what_is_told_of_an_expected_answer_waits_for_its_place() -> None:
    it = Book()
    it.turn(1, "one")
    it.book.expect(A1)
    it.book.call(A1, call("a"))
    it.book.heard(A1, "heard")
    assert not it.book.amend(A1, "he")
    assert it.texts == ["one"]
    it.turn(2, "two")
    it.book.ask(A1)
    assert it.texts == ["one", "two", "he"]
    assert it.book.amend(A1, "h")
    assert not it.book.amend(A1, "h")
    assert it.texts == ["one", "two", "h"]


def test_an_expected_answer_that_another_one_overtakes_is_forgotten() -> None:
    it = Book()
    it.book.expect(A1)
    it.book.heard(A1, "heard")
    it.book.ask(answer_ref(2))
    it.book.heard(answer_ref(2), "other")
    assert it.texts == ["other"]
