"""Invariants: function calls, usage and cuts of an answer are told from whatever a server sends,
within the answer's bounds; a call is done only at a regular end; pipecat sees text alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

import pytest

from services.face import Usage
from services.items import FunctionCall
from services.llm.calls import CallArguments, CallBegun, CallDone
from services.llm.stream import THINKING_TIMES
from tests.llm.raw_server import DONE, STOP, call, delta, event, silent_after, text, usage
from tests.llm.reading import read

OFFERED = ("lamp", "fan")
LAMP = FunctionCall(call_id="ours-1", name="lamp", arguments='{"on": true}')
LAMP_BODY = [call("lamp", "", id="theirs"), call(None, '{"on": '), call(None, "true}")]
CALLED = [delta("tool_calls"), DONE]


async def test_a_call_is_told_behind_the_text_that_leads_up_to_it() -> None:
    reading = await read(lambda: [*text("好的。"), *LAMP_BODY, *CALLED], offered=OFFERED)
    assert reading.told == [
        "好的。",
        CallBegun("ours-1", "lamp"),
        CallArguments("ours-1", '{"on": '),
        CallArguments("ours-1", "true}"),
        CallDone(LAMP),
    ]
    assert (reading.failures, reading.first, reading.called) == ([], 1, True)


async def test_the_first_of_a_call_is_the_first_token() -> None:
    reading = await read(lambda: [*LAMP_BODY, *text("开了。"), *STOP], offered=OFFERED)
    assert (reading.calls, reading.text, reading.first) == ([LAMP], "开了。", 1)


ODD = [
    delta(tool_calls=5),
    delta(tool_calls="lamp"),
    delta(tool_calls=[]),
    delta(tool_calls=[None, 5, "x", [], {}]),
    delta(tool_calls={"function": 5}),
    delta(tool_calls=[{"index": "x", "id": 5, "function": {"name": [], "arguments": None}}]),
]


async def test_odd_shapes_do_not_disturb_a_call() -> None:
    body = [*ODD, *LAMP_BODY[:2], *ODD, LAMP_BODY[2], *ODD, *CALLED]
    reading = await read(lambda: body, offered=OFFERED)
    assert (reading.calls, reading.failures) == ([LAMP], [])


async def test_arguments_that_are_an_object() -> None:
    entry = {"index": 0, "function": {"name": "lamp", "arguments": {"on": True}}}
    reading = await read(lambda: [delta(tool_calls=[entry]), *CALLED], offered=OFFERED)
    assert reading.calls == [LAMP]


@pytest.mark.parametrize(
    ("offered", "silence"),
    [((), "none are offered"), (("fan",), "no function that it was offered")],
)
async def test_calls_that_were_not_offered_are_dropped(
    offered: tuple[str, ...], silence: str
) -> None:
    reading = await read(lambda: [*LAMP_BODY, *CALLED], offered=offered)
    assert (reading.told, reading.called, reading.failures) == ([], False, [])
    assert silence in reading.silence


@pytest.mark.parametrize(
    "end", [[], [event({"error": {"message": "out of memory"}})]], ids=["broken off", "failed"]
)
async def test_a_stream_that_breaks_off_leaves_its_call_undone(end: list[bytes]) -> None:
    reading = await read(lambda: [*LAMP_BODY, *end], offered=OFFERED)
    assert isinstance(reading.told[-1], CallArguments)
    assert (len(reading.failures), reading.called) == (1, False)


async def test_a_call_that_was_cut_off_is_not_done() -> None:
    reading = await read(lambda: [*LAMP_BODY[:2], delta("length"), DONE], offered=OFFERED)
    assert (reading.calls, reading.cuts, reading.failures) == ([], ["max_tokens"], [])
    assert "used up its tokens" in reading.silence


async def test_a_call_is_done_though_its_server_does_not_hang_up() -> None:
    reading = await read(lambda: silent_after(*LAMP_BODY, CALLED[0]), offered=OFFERED, idle_s=60)
    assert (reading.calls, reading.failures) == ([LAMP], [])


async def test_a_call_that_never_ends_is_cut_off() -> None:
    rounds = 0

    async def others() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    async def endless() -> AsyncGenerator[bytes, None]:
        yield call("lamp", "")
        while True:
            yield call(None, "x" * 100)

    task = asyncio.create_task(others())
    reading = await read(endless, offered=OFFERED, chars=5_000)
    task.cancel()
    assert (reading.calls, reading.cuts, reading.failures) == ([], ["max_tokens"], [])
    assert rounds >= 5


async def test_half_a_pair_at_the_limit_is_within_it() -> None:
    body = [*text("\ud83d"), call("lamp", "x" * 20), *CALLED]
    reading = await read(lambda: body, offered=OFFERED, chars=10)
    assert (reading.text, reading.cuts) == ("", ["max_tokens"])


async def test_a_call_that_is_written_slowly_is_a_sign_of_life() -> None:
    async def slow() -> AsyncGenerator[bytes, None]:
        for part in [*LAMP_BODY, *CALLED]:
            yield part
            await asyncio.sleep(first_token_s)

    # All of it takes longer than the model may think before it says anything.
    first_token_s = 0.5
    assert len(LAMP_BODY) >= THINKING_TIMES - 1
    reading = await read(slow, offered=OFFERED, first_token_s=first_token_s, idle_s=30)
    assert reading.calls == [LAMP]
    assert reading.failures == []


async def test_a_call_that_stops_is_timed_out() -> None:
    started = time.monotonic()
    reading = await read(lambda: silent_after(*LAMP_BODY), offered=OFFERED, idle_s=0.1)
    [error] = reading.failures
    assert (error.code, reading.calls) == ("timed_out", [])
    assert "nothing for 0.1 s" in error.message
    assert time.monotonic() - started < 5


COUNT = usage(prompt_tokens=20, completion_tokens=3, prompt_tokens_details={"cached_tokens": 16})
USAGE = Usage(input_tokens=20, output_tokens=3, cached_tokens=16)


@pytest.mark.parametrize(
    "body",
    [
        [*text("好。"), delta("stop"), COUNT, DONE],
        [COUNT, *text("好。"), *STOP],
        [COUNT, *text("好。"), COUNT, delta("stop"), COUNT, DONE],
        [*text("好。"), delta("stop"), COUNT],
    ],
    ids=["after", "before", "again", "no end mark"],
)
async def test_usage_is_told_once_wherever_it_comes(body: list[bytes]) -> None:
    reading = await read(lambda: body)
    assert (reading.text, reading.usages, reading.failures) == ("好。", [USAGE], [])


async def test_usage_in_the_chunk_that_ends_the_answer() -> None:
    choice = {"index": 0, "delta": {}, "finish_reason": "stop"}
    counts = {"prompt_tokens": 7, "completion_tokens": 1, "prompt_tokens_details": None}
    reading = await read(
        lambda: [*text("好。"), event({"choices": [choice], "usage": counts}), DONE]
    )
    assert reading.usages == [Usage(input_tokens=7, output_tokens=1)]


async def test_usage_that_grows_is_told_as_it_grows() -> None:
    counts = [usage(prompt_tokens=7, completion_tokens=made) for made in (1, 2, 2)]
    reading = await read(lambda: [*text("好。"), *counts, *STOP])
    assert [told.output_tokens for told in reading.usages] == [1, 2]


@pytest.mark.parametrize(
    "nonsense",
    [
        usage(),
        usage(prompt_tokens=-1, completion_tokens=2),
        usage(prompt_tokens="7", completion_tokens="2"),
        usage(prompt_tokens=True, completion_tokens=2),
        usage(prompt_tokens=7, completion_tokens=1 << 40),
        usage(prompt_tokens=7.5, completion_tokens=2),
        event({"choices": [], "usage": [1, 2]}),
    ],
)
async def test_usage_that_is_none_is_not_told(nonsense: bytes) -> None:
    reading = await read(lambda: [nonsense, *text("好。"), nonsense, *STOP])
    assert (reading.text, reading.usages, reading.failures) == ("好。", [], [])


@pytest.mark.parametrize(
    ("details", "cached"),
    [(None, 0), (5, 0), ({}, 0), ({"cached_tokens": "x"}, 0), ({"cached_tokens": 99}, 7)],
)
async def test_cached_tokens_are_some_of_those_given(details: object, cached: int) -> None:
    count = usage(prompt_tokens=7, completion_tokens=1, prompt_tokens_details=details)
    reading = await read(lambda: [*text("好。"), delta("stop"), count, DONE])
    assert [told.cached_tokens for told in reading.usages] == [cached]


@pytest.mark.parametrize(
    ("finish", "cuts"),
    [
        ("stop", []),
        ("length", ["max_tokens"]),
        ("content_filter", ["content_filter"]),
        ("eos", []),
    ],
)
async def test_an_answer_that_is_not_whole_says_why(finish: str, cuts: list[str]) -> None:
    reading = await read(lambda: [*text("好。"), delta(finish), DONE])
    assert (reading.text, reading.cuts, reading.failures) == ("好。", cuts, [])


async def test_an_answer_beyond_our_limit_is_not_whole() -> None:
    reading = await read(lambda: [*text(*"好的没问题"), *STOP], chars=3)
    assert (reading.text, reading.cuts) == ("好的没", ["max_tokens"])
