"""Invariants: items are chained by previous_item_id in the order of the conversation; the context
gets each under its own name; nothing that a client piles up is without a bound.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.face import Ending
from services.items import ROOT, FunctionCall, FunctionOutput, Message
from services.realtime.actions import Add, Remove
from services.realtime.items import MAX_CONTENT, MAX_ITEMS, MAX_UNASKED_ITEMS
from tests.realtime.wired import Wired, user


def ids(wired: Wired) -> list[str]:
    """The order of the conversation, as a client follows it."""
    order: list[str] = []
    for event in wired.events:
        if event["type"] == "conversation.item.added":
            previous = event["previous_item_id"]
            place = 0 if previous is None else order.index(previous) + 1
            order.insert(place, event["item"]["id"])
        elif event["type"] == "conversation.item.deleted":
            order.remove(event["item_id"])
    return order


@pytest.mark.parametrize(
    ("role", "kind", "shown"),
    [
        ("user", "input_text", "input_text"),
        ("system", "text", "input_text"),
        ("assistant", "output_text", "output_text"),
    ],
)
def test_messages_are_added_in_order(role: Any, kind: str, shown: str):
    wired = Wired()
    parts = [{"type": kind, "text": "一"}, {"type": kind, "text": "二", "audio": None}]
    item = {"type": "message", "role": role, "content": parts}
    said = Message(role=role, text="一二")
    assert wired.add({**item, "id": "first"}) == [Add("item-first", said)]
    (second,) = wired.add(item, previous_item_id="first", event_id="e")
    assert (second.item, second.after) == (said, None)
    added = [event for event in wired.events if event["type"] == "conversation.item.added"]
    assert [event["previous_item_id"] for event in added] == [None, "first"]
    assert added[0]["item"]["content"] == [{"type": shown, "text": "一二"}]
    assert second.ref == f"item-{added[1]['item']['id']}"
    assert wired.kinds().count("conversation.item.done") == 2


def test_items_are_put_where_the_client_wants_them():
    wired = Wired()
    spoken = wired.turn("你好", number=3)
    silent = wired.turn("")
    heard = wired.answer(5)
    wired.add(user("last", id="last"))

    def after(previous: str, item_id: str) -> str | None:
        (action,) = wired.add(user("x", id=item_id), previous_item_id=previous)
        return action.after

    assert after(spoken, "a") == "turn-3"
    # an item that the context does not have is passed over
    assert after(silent, "b") == "item-a"
    assert after(heard, "c") == "answer-5"
    assert after("last", "d") is None
    assert after("root", "e") == ROOT
    assert after("e", "f") == "item-e"
    assert ids(wired) == ["e", "f", spoken, "a", silent, "b", heard, "c", "last", "d"]
    wired.turn("")
    silence = wired.last("input_audio_buffer.committed")["item_id"]
    assert ids(wired)[-2:] == ["d", silence]
    refused = wired.refused("conversation.item.create", item=user("x"), previous_item_id="nowhere")
    assert refused == ("item_not_found", "previous_item_id")


def test_nothing_comes_before_the_first():
    wired = Wired()
    silent = wired.turn("")
    wired.turn("好")
    (action,) = wired.add(user("x"), previous_item_id=silent)
    assert action.after == ROOT


@pytest.mark.parametrize("item_id", ["taken", "root", "item_seed_99"])
def test_an_id_is_given_once(item_id: str):
    wired = Wired()
    wired.add(user("x", id="taken"))
    refused = wired.refused("conversation.item.create", item=user("y", id=item_id))
    assert refused == ("item_id_taken", "item.id")


def test_items_are_deleted_and_retrieved():
    wired = Wired()
    wired.add(user("你好", id="mine"))
    wired.receive("conversation.item.retrieve", item_id="mine")
    assert wired.last("conversation.item.retrieved")["item"]["content"][0]["text"] == "你好"
    assert wired.receive("conversation.item.delete", item_id="mine") == [Remove("item-mine")]
    for what in ("delete", "retrieve"):
        refused = wired.refused(f"conversation.item.{what}", item_id="mine")
        assert refused == ("item_not_found", "item_id")
    heard = wired.answer(3)
    assert wired.receive("conversation.item.delete", item_id=heard) == [Remove("answer-3")]
    assert ids(wired) == []
    # the id is free again
    assert wired.add(user("x", id="mine"))


def test_an_answer_that_is_being_made_stays():
    wired = Wired()
    wired.speak(1)
    item_id = wired.last("response.output_item.added")["item"]["id"]
    refused = wired.refused("conversation.item.delete", item_id=item_id)
    assert refused == ("item_in_progress", "item_id")
    wired.receive("conversation.item.retrieve", item_id=item_id)
    assert wired.last("conversation.item.retrieved")["item"]["status"] == "in_progress"


def call(**fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "name": "f", "arguments": "{}", **fields}


def output(call_id: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "42"}


def test_calls_and_their_outputs_are_added():
    wired = Wired()
    (made,) = wired.add(call(id="a", call_id="c"))
    assert made == Add("item-a", FunctionCall(call_id="c", name="f", arguments="{}"))
    (given,) = wired.add({**output("c"), "id": "o"})
    assert given == Add("item-o", FunctionOutput(call_id="c", output="42"))
    assert wired.last("conversation.item.done")["item"]["output"] == "42"
    assert wired.refused("conversation.item.create", item=output("c"))[0] == "call_has_output"
    wired.receive("conversation.item.delete", item_id="o")
    assert wired.add(output("c"))
    refused = wired.refused("conversation.item.create", item=output("other"))
    assert refused == ("call_not_found", "item.call_id")
    refused = wired.refused("conversation.item.create", item=call(call_id="c"))
    assert refused == ("call_id_taken", "item.call_id")
    # a call without an id gets one
    wired.add(call())
    assert wired.add(output(wired.last("conversation.item.done")["item"]["call_id"]))


def test_what_a_client_piles_up_is_bounded():
    wired = Wired()
    create = {"type": "conversation.item.create", "item": user("x")}
    for _ in range(MAX_UNASKED_ITEMS):
        assert isinstance(wired.core.receive(json.dumps(create))[0], Add)
    assert wired.refused("conversation.item.create", item=user("x"))[0] == "too_many_items"
    # an answer out of band does not take them in
    wired.sent(wired.core.begin(1, wired.ask(conversation="none").ask))
    assert wired.refused("conversation.item.create", item=user("x"))[0] == "too_many_items"
    # nor does one that takes others, or one that is stopped before the language model has shown
    # that it had them
    given = wired.ask(input=[user("y")])
    wired.speak(2, ask=given.ask)
    wired.end(2)
    wired.sent(wired.core.begin(3, wired.ask().ask))
    wired.end(3, "interrupted")
    assert wired.refused("conversation.item.create", item=user("x"))[0] == "too_many_items"
    wired.speak(4, ask=wired.ask().ask)
    assert wired.add(user("x"))


def test_so_is_its_text():
    wired = Wired()
    count = 0
    while actions := wired.add(user("x" * 60_000, id=f"i{count}")):
        assert isinstance(actions[0], Add)
        count += 1
    assert wired.last("error")["error"]["code"] == "too_many_items"
    assert count == MAX_CONTENT // 60_000
    # what was deleted does not count
    assert wired.receive("conversation.item.delete", item_id="i0")
    assert wired.add(user("x" * 60_000))


def test_contents_of_old_items_are_forgotten():
    wired = Wired()
    for number in range(20):
        wired.add(user("x" * 60_000, id=f"i{number}"))
        wired.speak(number, ask=wired.ask().ask)
        wired.end(number)
    refused = wired.refused("conversation.item.retrieve", item_id="i0")
    assert refused == ("item_content_not_known", "item_id")
    wired.receive("conversation.item.retrieve", item_id="i19")
    assert wired.last("conversation.item.retrieved")
    reference = [{"type": "item_reference", "id": "i0"}]
    refused = wired.refused("response.create", response={"input": reference})
    assert refused == ("item_content_not_known", "response.input[0].id")
    # it is still an item
    assert wired.receive("conversation.item.delete", item_id="i0") == [Remove("item-i0")]


def test_items_are_chained_and_old_ones_forgotten():
    wired = Wired()
    for revision in range(1, MAX_ITEMS // 2 + 2):
        for text in (
            *wired.core.turn_opened(at_ms=0),
            *wired.core.turn_ended(at_ms=1),
            *wired.core.begin(revision),
            *wired.core.text(revision, "x"),
            *wired.core.end(revision, Ending(outcome="answered", heard="")),
        ):
            wired.events.append(json.loads(text))
    previous = None
    for event in wired.events:
        if event["type"] == "conversation.item.added":
            assert event["previous_item_id"] == previous
            previous = event["item"]["id"]
    first = wired.events[0]["item_id"]
    assert wired.refused("conversation.item.delete", item_id=first)[0] == "item_not_found"
    truncate = {"item_id": first, "content_index": 0, "audio_end_ms": 0}
    assert wired.refused("conversation.item.truncate", **truncate)[0] == "item_not_found"


def test_an_answer_outlives_its_item():
    wired = Wired()
    wired.speak(1)
    for _ in range(MAX_ITEMS):
        wired.core.turn_ended(at_ms=1)
    wired.end(1, heard="很")
    (item,) = wired.last("response.done")["response"]["output"]
    assert item["content"][0]["transcript"] == "很"
    refused = wired.refused("conversation.item.retrieve", item_id=item["id"])
    assert refused == ("item_not_found", "item_id")
