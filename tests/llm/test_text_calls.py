"""Invariants: a call that an answer begins with is read however it is cut in pieces; whatever is no
call comes out as it came; nothing is held back for long; what follows a call is no answer.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.items import FunctionCall
from services.llm.text_calls import MAX_CALL, TextCalls
from tests.llm.raw_server import STOP, call, delta, event, text
from tests.llm.reading import read

LAMP = {"name": "lamp", "arguments": {"on": True}}
FAN = {"name": "fan", "arguments": {}}
WRITTEN = json.dumps(LAMP)


def push(*pieces: str) -> tuple[str, list[dict[str, Any]], TextCalls]:
    """What comes of an answer to its end: text, functions of calls."""
    reader, told, calls = TextCalls(), "", []
    for piece in pieces:
        plain, read_now = reader.push(piece)
        told += plain
        calls += read_now
    assert [entry["index"] for entry in calls] == list(range(len(calls)))
    return told + reader.finish(), [entry["function"] for entry in calls], reader


@pytest.mark.parametrize(
    ("written", "calls"),
    [
        (WRITTEN, [LAMP]),
        (f" \n<tool_call>\n{json.dumps(LAMP, indent=2)}\n</tool_call>\n", [LAMP]),
        (f"<tool_call>{WRITTEN}</tool_call><tool_call>{json.dumps(FAN)}</tool_call>", [LAMP, FAN]),
        (f"{WRITTEN}, {json.dumps(FAN)}", [LAMP, FAN]),
        (f"<tool_call>{WRITTEN}", [LAMP]),
        ('{"arguments": {}, "name": "fan"}', [FAN]),
    ],
)
@given(data=st.data())
def test_calls_are_read_however_they_are_cut(
    written: str, calls: list[dict[str, Any]], data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(written)), max_size=len(written)).map(sorted))
    pieces = [written[a:b] for a, b in zip([0, *cuts], [*cuts, len(written)], strict=True)]
    told, read_calls, reader = push(*pieces)
    assert (told, read_calls, reader.over) == ("", calls, False)


@pytest.mark.parametrize(
    "written",
    [
        "The lamp is on.",
        "{",
        "<tool",
        "<b>on</b>",
        ", and on",
        '{"name": "lamp"}',
        '{"name": 1, "arguments": {}}',
        '{"name": "lamp", "arguments": []}',
        '{"name": "lamp", "arguments": {}, "id": 1}',
        '{"name": "lamp", "argum',
        '{"name": "lamp"; }',
        '{"colours": ["red", "green", "blue"], "on": true}',
        '{"name": "lamp", "arguments": {"x": "' + "x" * MAX_CALL + '"}}',
        '{"name": ' + "[" * MAX_CALL,
        f"Here: {WRITTEN}",
    ],
)
@given(size=st.integers(1, 50))
def test_what_is_no_call_comes_out_as_it_came(written: str, size: int) -> None:
    pieces = [written[at : at + size] for at in range(0, len(written), size)]
    told, calls, reader = push(*pieces)
    assert (told, calls, reader.over) == (written, [], False)


def test_text_is_not_held_back_once_it_is_known_to_be_no_call() -> None:
    reader = TextCalls()
    assert reader.push("{")[0] == ""
    assert reader.push("x" * 40)[0] == "{" + "x" * 40
    assert reader.push(WRITTEN)[0] == WRITTEN


def test_what_is_too_deep_to_be_read_is_text() -> None:
    written = '{"name": ' + '{"a":' * 1500 + "}"
    assert push(written)[:2] == (written, [])


@pytest.mark.parametrize("rest", [".json\n```", WRITTEN, "x"])
def test_what_follows_a_call_is_no_answer(rest: str) -> None:
    told, calls, reader = push(WRITTEN, rest, "and on")
    assert (told, calls, reader.over) == ("", [LAMP], True)


DONE = [FunctionCall(call_id="ours-1", name="lamp", arguments='{"on": true}')]


async def test_a_written_call_is_a_call_and_what_a_forced_model_adds_is_not_waited_for() -> None:
    pieces = [WRITTEN[:9], WRITTEN[9:]]
    whole = await read(lambda: [*text(*pieces), *STOP], offered=["lamp"])
    # without an end: it is not read that far
    babble = await read(lambda: text(*pieces, ".json", "```" * 50), offered=["lamp"])
    for reading in (whole, babble):
        assert (reading.text, reading.calls, reading.failures) == ("", DONE, [])
        assert (reading.called, reading.first) == (True, 1)


async def test_a_written_call_that_was_not_offered_is_told() -> None:
    reading = await read(lambda: [*text(json.dumps(FAN)), *STOP], offered=["lamp"])
    assert (reading.text, reading.called) == ("", False)
    assert "no function that it was offered" in reading.silence


async def test_text_that_was_held_back_is_said_at_the_end() -> None:
    reading = await read(lambda: [*text('{"on"', ": 1}", "\ud83d"), *STOP], offered=["lamp"])
    assert (reading.text, reading.calls) == ('{"on": 1}\ufffd', [])


async def test_without_tools_a_written_call_is_text() -> None:
    assert (await read(lambda: [*text(WRITTEN), *STOP])).text == WRITTEN


async def test_calls_of_a_server_with_a_parser_go_before() -> None:
    both = event({"choices": [{"index": 0, "delta": {"content": "好", "tool_calls": []}}]})
    body = [both, call("lamp", '{"on": true}', id="a"), delta("tool_calls"), *STOP]
    reading = await read(lambda: body, offered=["lamp"])
    assert (reading.text, reading.calls) == ("好", DONE)
