"""Invariants: whatever client and conversation do, in whatever order, every event is valid, a
response that was created is done once, before the next one is created, outputs that were added are
done, an answer is paused and resumed in turns, and items are chained as they were told.
"""

from __future__ import annotations

import base64
import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from services.face import Ending
from services.items import FunctionCall
from tests.realtime.client import nothing_left, talking
from tests.realtime.fakes import Face
from tests.realtime.test_events import EVENTS
from tests.realtime.wired import FRAME, Wired, function, user

revisions = st.integers(1, 3)
texts = st.sampled_from(["", "好", "x"])
calls = st.sampled_from(["a", "b"])
items = st.sampled_from(["root", "one", "two", "item_seed_2", "item_seed_5"])


class Talk:
    """Steps of a conversation, by name."""

    def __init__(self) -> None:
        self.wired = Wired()

    def client(self, kind: str, **fields: Any) -> None:
        for action in self.wired.receive(kind, **fields):
            if type(action).__name__ == "Update":
                self.wired.sent(self.wired.core.updated(action))

    def sink(self, name: str, *args: Any, **fields: Any) -> None:
        self.wired.sent(getattr(self.wired.core, name)(*args, **fields) or [])


def client_step(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(st.just("client"), st.just((kind,)), st.fixed_dictionaries(fields))


def sink_step(name: str, *args: st.SearchStrategy[Any], **fields: Any) -> st.SearchStrategy[Any]:
    strategies = st.fixed_dictionaries(
        {
            key: each if isinstance(each, st.SearchStrategy) else st.just(each)
            for key, each in fields.items()
        }
    )
    return st.tuples(st.just("sink"), st.tuples(st.just(name), *args), strategies)


milliseconds = st.integers(0, 5000)
sessions = st.sampled_from(
    [
        {"type": "realtime"},
        {"type": "transcription"},
        {"type": "realtime", "output_modalities": ["text"]},
        {"type": "realtime", "tools": [function()], "tool_choice": "required"},
        {"type": "realtime", "audio": {"input": {"turn_detection": None, "transcription": None}}},
        {"type": "realtime", "audio": {"output": {"format": {"type": "audio/pcmu"}}}},
        {"type": "realtime", "duplexd": {"echo_cancelled": True, "pauses": True}},
    ]
)
steps = st.one_of(
    client_step("session.update", session=sessions),
    client_step("input_audio_buffer.append", audio=st.just(base64.b64encode(FRAME).decode())),
    client_step("input_audio_buffer.commit"),
    client_step("input_audio_buffer.clear"),
    client_step(
        "conversation.item.create",
        item=st.sampled_from(
            [
                user("x", id="one"),
                user("x", id="two"),
                {"type": "function_call_output", "call_id": "a", "output": "1"},
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            ]
        ),
        previous_item_id=st.none() | items,
    ),
    client_step("conversation.item.delete", item_id=items),
    client_step("conversation.item.retrieve", item_id=items),
    client_step(
        "conversation.item.truncate",
        item_id=items,
        content_index=st.just(0),
        audio_end_ms=st.integers(0, 40),
    ),
    client_step(
        "response.create",
        response=st.sampled_from([{}, {"conversation": "none"}, {"output_modalities": ["text"]}]),
    ),
    client_step("response.cancel"),
    sink_step("begin", revisions, st.none() | st.integers(1, 3)),
    sink_step("dropped", st.integers(1, 3)),
    sink_step("text", revisions, texts),
    sink_step("audio", revisions, st.just(FRAME)),
    sink_step("call_begun", revisions, calls, st.just("f")),
    sink_step("call_arguments", revisions, calls, texts),
    sink_step(
        "call_done",
        revisions,
        calls.map(lambda call_id: FunctionCall(call_id=call_id, name="f", arguments="{}")),
    ),
    sink_step("flush", revisions, heard_ms=milliseconds),
    sink_step("pause", revisions),
    sink_step("resume", revisions),
    sink_step(
        "end",
        revisions,
        st.builds(
            Ending,
            outcome=st.sampled_from(["answered", "interrupted", "failed"]),
            heard=texts,
            cut=st.none() | st.just("max_tokens"),
        ),
    ),
    sink_step("turn_opened", at_ms=milliseconds),
    sink_step("turn_ended", at_ms=milliseconds),
    sink_step("partial", texts),
    sink_step("final", texts, st.just("zh"), turn=st.integers(0, 3)),
    sink_step("idle", since_ms=milliseconds, at_ms=milliseconds),
    sink_step("turn_report", st.just({"revision": 1})),
)


def follow(events: list[dict[str, Any]]) -> None:
    """Believes what a client is told, and finds no contradiction."""
    active: str | None = None
    over: set[str] = set()
    outputs: dict[str, int] = {}
    order: list[str] = []
    paused = False
    for event in events:
        kind = event["type"]
        if kind == "response.created":
            assert active is None
            active, outputs, paused = event["response"]["id"], {}, False
            assert active not in over
        elif kind == "response.done":
            response = event["response"]
            assert response["id"] == active
            assert response["status"] != "in_progress"
            assert [item["status"] != "in_progress" for item in response["output"]] == [True] * len(
                response["output"]
            )
            assert outputs == {}
            over.add(response["id"])
            active = None
        elif kind.startswith("response."):
            assert event["response_id"] == active
            if kind == "response.output_item.added":
                outputs[event["item"]["id"]] = event["output_index"]
            elif kind == "response.output_item.done":
                assert outputs.pop(event["item"]["id"]) == event["output_index"]
            else:
                assert outputs[event["item_id"]] == event["output_index"]
        elif kind.startswith("duplexd.playback."):
            assert event["response_id"] == active
            assert (kind == "duplexd.playback.paused") != paused
            paused = not paused
        elif kind == "conversation.item.added":
            previous = event["previous_item_id"]
            order.insert(0 if previous is None else order.index(previous) + 1, event["item"]["id"])
        elif kind == "conversation.item.deleted":
            order.remove(event["item_id"])
        elif kind == "conversation.item.retrieved":
            assert event["item"]["id"] in order


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=40))
def test_no_order_of_events_confuses_the_client(given_steps: list[Any]):
    talk = Talk()
    for side, args, fields in given_steps:
        getattr(talk, side)(*args, **fields)
    follow(talk.wired.events)


def mangled(chance: random.Random) -> str:
    """A message that is more or less one of the protocol's."""
    kind = chance.choice(sorted(EVENTS))
    text = json.dumps({"type": kind, **EVENTS[kind]})
    what = chance.randrange(4)
    if what == 0:
        return text
    place = chance.randrange(len(text))
    if what == 1:
        return text[:place]
    if what == 2:
        return text[:place] + chance.choice('{}[]",:0\\x\u0000好') + text[place + 1 :]
    return json.dumps({"type": kind, "event_id": "e", chance.choice("abc"): place})


async def test_ten_thousand_random_messages_leave_a_session_that_answers(face: Face):
    chance = random.Random(7)
    async with nothing_left(), talking(face) as client:
        for count in range(10_000):
            await client.connection.send(mangled(chance))
            if not count % 100:
                # as a client that reads: up to here all is answered
                await client.send("input_audio_buffer.clear", event_id=f"c{count}")
                await client.receive("input_audio_buffer.cleared")
        sink = client.sink
        await sink.turn_opened(at_ms=0)
        await sink.turn_ended(at_ms=1)
        await sink.final("你好", "zh", turn=1)
        await sink.begin(1)
        await sink.text(1, "好")
        await sink.end(1, Ending(outcome="answered", heard="好"))
        assert (await client.receive("response.done"))["response"]["status"] == "completed"
