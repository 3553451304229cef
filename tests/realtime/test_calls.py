"""Invariants: outputs stand in the order of their appearance; only a call that is whole can be
answered; what a client reads of a call is what the context holds.
"""

from __future__ import annotations

from services.items import FunctionCall, FunctionOutput
from services.realtime.actions import Add, Remove
from tests.realtime.wired import FRAME, Wired


def called(
    wired: Wired, revision: int, call_id: str = "c", arguments: str = '{"city":"巴黎"}'
) -> None:
    core = wired.core
    wired.sent(core.call_begun(revision, call_id, "weather"))
    for start in range(0, len(arguments), 5):
        wired.sent(core.call_arguments(revision, call_id, arguments[start : start + 5]))
    done = FunctionCall(call_id=call_id, name="weather", arguments=arguments)
    wired.sent(core.call_done(revision, done))


def test_a_call_is_streamed_and_answered():
    wired = Wired()
    user = wired.turn()
    wired.events.clear()
    wired.sent(wired.core.begin(1))
    called(wired, 1)
    wired.end(1)
    assert wired.kinds() == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        *["response.function_call_arguments.delta"] * 3,
        "response.function_call_arguments.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    added = wired.events[1]["item"]
    assert (added["status"], added["arguments"], added["name"]) == ("in_progress", "", "weather")
    assert wired.events[2]["previous_item_id"] == user
    deltas = [event.get("delta") for event in wired.events[3:6]]
    arguments = "".join(map(str, deltas))
    assert arguments == '{"city":"巴黎"}'
    whole = wired.last("response.function_call_arguments.done")
    assert (whole["arguments"], whole["call_id"], whole["name"]) == (arguments, "c", "weather")
    (item,) = wired.last("response.done")["response"]["output"]
    assert (item["status"], item["arguments"]) == ("completed", arguments)
    (action,) = wired.add({"type": "function_call_output", "call_id": "c", "output": "晴"})
    assert isinstance(action, Add)
    assert action.item == FunctionOutput(call_id="c", output="晴")
    assert wired.receive("conversation.item.delete", item_id=item["id"]) == [Remove("call-c")]


def test_outputs_stand_in_the_order_of_their_appearance():
    wired = Wired()
    wired.speak(1, "我看看。")
    called(wired, 1, "a")
    # the speech plays on while the calls come
    wired.sent(wired.core.audio(1, FRAME))
    called(wired, 1, "b")
    wired.sent(wired.core.audio(1, FRAME))
    wired.end(1, heard="我看看。")
    indexes = {
        event["item"]["id"]: event["output_index"]
        for event in wired.events
        if event["type"] == "response.output_item.added"
    }
    output = wired.last("response.done")["response"]["output"]
    assert [item["type"] for item in output] == ["message", "function_call", "function_call"]
    assert [indexes[item["id"]] for item in output] == [0, 1, 2]
    for event in wired.events:
        if "output_index" in event and "item_id" in event:
            assert event["output_index"] == indexes[event["item_id"]]


def test_speech_may_come_after_a_call():
    wired = Wired()
    wired.sent(wired.core.begin(1))
    called(wired, 1)
    wired.sent(wired.core.text(1, "好"))
    wired.end(1, heard="好")
    output = wired.last("response.done")["response"]["output"]
    assert [item["type"] for item in output] == ["function_call", "message"]
    assert wired.last("response.output_audio_transcript.delta")["output_index"] == 1


def test_a_call_that_is_never_whole_is_void():
    wired = Wired()
    wired.sent(wired.core.begin(1))
    called(wired, 1, "whole")
    wired.sent(wired.core.call_begun(1, "void", "weather"))
    wired.sent(wired.core.call_arguments(1, "void", '{"ci'))
    wired.end(1, "interrupted")
    whole, void = wired.last("response.done")["response"]["output"]
    assert (whole["status"], void["status"]) == ("completed", "incomplete")
    assert void["arguments"] == '{"ci'
    # nobody is led to act on it
    assert wired.kinds().count("response.function_call_arguments.done") == 1
    output = {"type": "function_call_output", "call_id": "void", "output": "1"}
    assert wired.refused("conversation.item.create", item=output)[0] == "call_not_found"


def test_what_is_said_of_other_calls_is_stale():
    wired = Wired()
    core = wired.core
    assert core.call_begun(1, "c", "f") == []
    wired.sent(core.begin(1))
    done = FunctionCall(call_id="c", name="weather", arguments="{}")
    assert core.call_arguments(1, "c", "{") == []
    assert core.call_done(1, done) == []
    called(wired, 1)
    assert core.call_arguments(1, "c", "{") == []
    assert core.call_arguments(1, "d", "") == []
    assert core.call_done(1, done) == []
    wired.end(1)
    assert core.call_done(1, done) == []
