"""Invariants: every request for an answer begins or is dropped, and its response says who
ended it, the client or the user's voice; options of one answer are gone with it.
"""

from __future__ import annotations

from typing import Any

import pytest

from services.face import AnswerOptions
from services.items import FunctionCall, FunctionOutput, Message
from services.realtime.actions import Cancel, Respond
from services.realtime.requests import MAX_REQUESTS
from services.tools import NamedTool, Tool
from tests.realtime.wired import FRAME, Wired, function, user
from tts_engine.errors import BadRequest, DuplexdError, UnknownVoice


def reasons(wired: Wired) -> list[str]:
    return [
        event["response"]["status_details"]["reason"]
        for event in wired.events
        if event["type"] == "response.done" and event["response"]["status_details"]
    ]


@pytest.mark.parametrize("how", ["response.cancel", "response.create"])
def test_a_response_that_the_client_ends_says_so(how):
    wired = Wired()
    wired.speak(1)
    (action,) = wired.receive(how)
    assert isinstance(action, Cancel | Respond)
    wired.core.flush(1, heard_ms=20)
    wired.end(1, "interrupted")
    assert reasons(wired) == ["client_cancelled"]


def test_a_request_that_is_dropped_while_another_answer_speaks_is_told_after_it():
    wired = Wired()
    wired.speak(1)
    ask = wired.ask(metadata={"n": "1"}).ask
    assert ask is not None
    wired.events.clear()
    assert wired.core.dropped(ask) == []
    wired.end(1, heard="很好。")
    assert wired.kinds()[-3:] == ["response.done", "response.created", "response.done"]
    assert wired.events[-1]["response"]["metadata"] == {"n": "1"}
    assert reasons(wired)[-1] == "turn_detected"


def test_a_request_that_the_conversation_refuses_ends_nothing():
    wired = Wired()
    wired.speak(1)
    (action,) = wired.core.receive(
        '{"type":"response.create","event_id":"e","response":{"audio":{"output":{"voice":"x"}}}}'
    )
    assert isinstance(action, Respond)
    errors: list[tuple[DuplexdError, str]] = [
        (UnknownVoice("There is none"), "response.audio.output.voice"),
        (BadRequest("No"), "response"),
    ]
    for error, param in errors:
        (event,) = wired.sent([wired.core.not_asked(action, error).text])
        assert (event["error"]["param"], event["error"]["event_id"]) == (param, "e")
    wired.end(1, "interrupted")
    assert reasons(wired) == ["turn_detected"]
    # nothing waits
    assert wired.refused("response.cancel")[0] == "response_cancel_not_active"


def test_a_request_that_is_cancelled_before_it_began_says_so():
    wired = Wired()
    ask = wired.ask().ask
    assert wired.receive("response.cancel") == [Cancel()]
    # the decision to begin was made before the cancel was read
    wired.sent(wired.core.begin(1, ask))
    wired.core.flush(1, heard_ms=0)
    wired.end(1, "interrupted")
    # the next one is interrupted by the user
    wired.speak(2, ask=wired.ask().ask)
    wired.end(2, "interrupted")
    assert reasons(wired) == ["client_cancelled", "turn_detected"]


def test_a_request_that_is_dropped_has_a_response():
    wired = Wired()
    first = wired.ask(metadata={"n": "1"}).ask
    second = wired.ask(metadata={"n": "2"}).ask
    assert first is not None
    assert second is not None
    wired.sent(wired.core.dropped(first))
    wired.sent(wired.core.turn_opened(at_ms=5))
    wired.sent(wired.core.dropped(second))
    assert wired.core.dropped(second) == []
    assert [kind for kind in wired.kinds() if "response" in kind] == [
        "response.created",
        "response.done",
    ] * 2
    assert reasons(wired) == ["client_cancelled", "turn_detected"]
    done = [event["response"] for event in wired.events if event["type"] == "response.done"]
    assert [response["metadata"] for response in done] == [{"n": "1"}, {"n": "2"}]
    assert {response["status"] for response in done} == {"cancelled"}
    assert all(response["output"] == [] for response in done)


def test_an_answer_that_called_a_function_leads_up_to_the_next():
    wired = Wired()
    wired.speak(1)
    wired.sent(wired.core.call_begun(1, "c", "weather"))
    wired.ask()
    wired.end(1, "interrupted")
    assert reasons(wired) == ["turn_detected"]


@pytest.mark.parametrize("how", ["it speaks", "it writes", "another turn"])
def test_a_cancel_that_came_too_early_taints_no_later_answer(how: str):
    wired = Wired()
    wired.turn()
    wired.receive("response.cancel")
    if how == "another turn":
        wired.turn()
    wired.sent(wired.core.begin(1))
    if how == "it speaks":
        wired.sent(wired.core.audio(1, FRAME))
    elif how == "it writes":
        wired.sent(wired.core.text(1, "好"))
    wired.end(1, "interrupted")
    assert reasons(wired) == ["turn_detected"]


def test_the_answer_to_a_turn_can_be_cancelled_on_its_way():
    wired = Wired()
    wired.turn()
    assert wired.receive("response.cancel") == [Cancel()]
    assert wired.refused("response.cancel")[0] == "response_cancel_not_active"
    wired.sent(wired.core.begin(1))
    wired.end(1, "interrupted")
    assert reasons(wired) == ["client_cancelled"]
    wired.turn("")
    assert wired.refused("response.cancel") == ("response_cancel_not_active", None)
    wired.speak(2)
    active = wired.last("response.created")["response"]["id"]
    assert wired.refused("response.cancel", response_id="other")[1] == "response_id"
    assert wired.receive("response.cancel", response_id=active) == [Cancel()]


def test_every_option_of_one_answer_reaches_the_conversation():
    wired = Wired()
    wired.update(tools=[function("weather")])
    options = wired.ask(
        instructions="Be brief",
        conversation="auto",
        output_modalities=["text"],
        audio={"output": {"voice": {"id": "nicole"}, "format": {"type": "audio/pcmu"}}},
        max_output_tokens=50,
        metadata={"a": "b"},
        tools=[function("time")],
        tool_choice={"type": "function", "name": "time"},
        parallel_tool_calls=True,
        reasoning={"effort": "low"},
    )
    assert options == AnswerOptions(
        ask=1,
        instructions="Be brief",
        voice="nicole",
        speak=False,
        max_tokens=50,
        tools=(Tool(name="time", description="d", parameters={"type": "object"}),),
        tool_choice=NamedTool("time"),
    )
    wired.sent(wired.core.begin(1, options.ask))
    shown = wired.last("response.created")["response"]
    assert shown["metadata"] == {"a": "b"}
    assert shown["output_modalities"] == ["text"]
    assert shown["max_output_tokens"] == 50
    assert shown["audio"]["output"] == {"format": {"type": "audio/pcmu"}, "voice": "nicole"}
    wired.end(1)
    # the session's own are back
    assert wired.ask() == AnswerOptions(ask=2)
    wired.sent(wired.core.begin(2, 2))
    assert wired.last("response.created")["response"]["output_modalities"] == ["audio"]


def test_no_bound_for_one_answer_lifts_that_of_the_session():
    wired = Wired()
    assert wired.ask(max_output_tokens="inf").max_tokens is None
    wired.update(max_output_tokens=10)
    assert wired.ask(max_output_tokens="inf").max_tokens == 4096
    assert wired.ask(output_modalities=["audio"], tools=[]).tools == ()


def test_an_answer_out_of_band_is_no_part_of_the_conversation():
    wired = Wired()
    options = wired.ask(conversation="none", metadata={"topic": "x"})
    assert options.remember is False
    wired.speak(1, ask=options.ask)
    wired.sent(wired.core.call_begun(1, "c", "weather"))
    wired.sent(wired.core.call_done(1, FunctionCall(call_id="c", name="weather", arguments="{}")))
    wired.core.flush(1, heard_ms=20)
    wired.end(1, "interrupted", "很")
    assert not any(kind.startswith("conversation.") for kind in wired.kinds())
    done = wired.last("response.done")["response"]
    assert done["conversation_id"] is None
    message, call = done["output"]
    assert message["content"][0]["transcript"] == "很"
    assert call["call_id"] == "c"
    # its audio can be truncated, and it cannot be had otherwise
    truncate = {"item_id": message["id"], "content_index": 0, "audio_end_ms": 20}
    assert wired.receive("conversation.item.truncate", **truncate)
    assert wired.refused("conversation.item.retrieve", item_id=message["id"])[0] == "item_not_found"
    output = {"type": "function_call_output", "call_id": "c", "output": "1"}
    assert wired.refused("conversation.item.create", item=output)[0] == "call_not_found"


def test_a_request_out_of_band_ends_nothing():
    wired = Wired()
    waiting = wired.ask().ask
    wired.speak(1)
    wired.ask(conversation="none")
    wired.end(1, "interrupted")
    assert waiting is not None
    wired.sent(wired.core.dropped(waiting))
    assert reasons(wired) == ["turn_detected", "turn_detected"]


def test_input_takes_the_place_of_the_conversation():
    wired = Wired()
    spoken = wired.turn("你好")
    heard = wired.answer(1)
    call = {"type": "function_call", "name": "f", "arguments": "{}"}
    wired.add({**call, "id": "called", "call_id": "c"})
    wired.add({"type": "function_call_output", "call_id": "c", "output": "0", "id": "given"})
    options = wired.ask(
        input=[
            {"type": "item_reference", "id": spoken},
            {"type": "item_reference", "id": heard},
            {"type": "item_reference", "id": "called"},
            {"type": "item_reference", "id": "given"},
            {"type": "function_call_output", "call_id": "c", "output": "1"},
            call,
            user("再见"),
        ]
    )
    assert options.context == (
        Message(role="user", text="你好"),
        Message(role="assistant", text="很好。"),
        FunctionCall(call_id="c", name="f", arguments="{}"),
        FunctionOutput(call_id="c", output="0"),
        FunctionOutput(call_id="c", output="1"),
        FunctionCall(call_id="call_input_5", name="f", arguments="{}"),
        Message(role="user", text="再见"),
    )
    assert wired.ask(input=[]).context == ()


@pytest.mark.parametrize(
    ("response", "code", "param"),
    [
        ({"input": [{"type": "item_reference", "id": "x"}]}, "item_not_found", ".input[0].id"),
        (
            {"input": [user("x"), {"type": "item_reference", "id": "shortened"}]},
            "item_content_not_known",
            ".input[1].id",
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": "1"}]},
            "call_not_found",
            ".input[0]",
        ),
        ({"input": [{"type": "mcp_call"}]}, "not_supported", ".input[0].type"),
        ({"tool_choice": {"type": "function", "name": "x"}}, "invalid_value", ".tool_choice"),
        ({"tools": [{"type": "mcp", "server_label": "x"}]}, "not_supported", ".tools[0].type"),
        ({"conversation": "conv_1"}, "invalid_value", ".conversation"),
        ({"prompt": {"id": "x"}}, "not_supported", ".prompt"),
        ({"metadata": {"a": 1}}, "invalid_type", ".metadata.a"),
        ({"metadata": dict.fromkeys(map(str, range(17)), "x")}, "invalid_value", ".metadata"),
        ({"output_modalities": ["text", "audio"]}, "invalid_value", ".output_modalities"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_requests_that_make_no_sense_are_refused(response: Any, code: str, param: str):
    wired = Wired()
    wired.answer(1)
    item_id = wired.last("response.output_item.done")["item"]["id"]
    wired.receive("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=1)
    for entry in response.get("input", []):
        if entry.get("id") == "shortened":
            entry["id"] = item_id
    assert wired.refused("response.create", response=response) == (code, f"response{param}")


def test_requests_that_wait_are_bounded():
    wired = Wired()
    for _ in range(MAX_REQUESTS):
        wired.ask(conversation="none")
    assert wired.refused("response.create")[0] == "too_many_responses"
    wired.sent(wired.core.dropped(1))
    wired.ask()
    # one that has ended counts until the client is told
    wired.speak(1)
    wired.sent(wired.core.dropped(2))
    assert wired.refused("response.create")[0] == "too_many_responses"
    wired.end(1)
    wired.ask()


def test_a_transcription_session_answers_nothing():
    wired = Wired(kind="transcription")
    assert wired.refused("response.create") == ("invalid_session_type", "type")
    wired.turn()
    assert wired.refused("response.cancel")[0] == "response_cancel_not_active"
