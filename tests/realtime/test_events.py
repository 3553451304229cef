"""Invariants: no input makes the core raise, and the session answers after it as before; a refusal
names the field and the client's event.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.face import Ending
from services.items import Message
from services.realtime.actions import Action, Add, Hear, Refuse, Respond, Send, Update
from services.realtime.messages import MAX_MESSAGE
from services.realtime.protocol import RealtimeCore
from services.realtime.session import Session
from tests.realtime.fakes import check
from tests.realtime.wired import Wired
from tts_engine.errors import BadAudio, BadRequest

AUDIO = {"type": "input_audio_buffer.append", "audio": "AAAA" * 4}
MESSAGE = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "你好"}]}
#: a rich valid event of each type
EVENTS: dict[str, dict[str, Any]] = {
    "session.update": {
        "session": {
            "type": "realtime",
            "instructions": "x",
            "output_modalities": ["audio"],
            "max_output_tokens": 7,
            "temperature": 0.5,
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
            "tool_choice": {"type": "function", "name": "f"},
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": 24000},
                    "turn_detection": {"type": "server_vad", "silence_duration_ms": 300},
                    "transcription": {"language": "zh"},
                    "noise_reduction": {"type": "near_field"},
                },
                "output": {"format": {"type": "audio/pcmu"}, "voice": "nicole", "speed": 1.1},
            },
        }
    },
    "input_audio_buffer.append": {"audio": "AAAA" * 4},
    "input_audio_buffer.commit": {},
    "input_audio_buffer.clear": {},
    "conversation.item.create": {"item": MESSAGE, "previous_item_id": "root"},
    "conversation.item.truncate": {"item_id": "x", "content_index": 0, "audio_end_ms": 0},
    "conversation.item.delete": {"item_id": "x"},
    "conversation.item.retrieve": {"item_id": "x"},
    "response.create": {
        "response": {
            "instructions": "x",
            "conversation": "none",
            "metadata": {"a": "b"},
            "audio": {"output": {"voice": "nicole", "format": {"type": "audio/pcma"}}},
            "input": [
                MESSAGE,
                {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
                {"type": "function_call_output", "call_id": "c", "output": "1"},
            ],
        }
    },
    "response.cancel": {},
    "output_audio_buffer.clear": {},
}


def core() -> RealtimeCore:
    return RealtimeCore(session=Session(id="s", default_voice="xiaobei"), seed="seed")


def refusal(actions: list[Action]) -> dict[str, Any]:
    (action,) = actions
    assert isinstance(action, Refuse)
    event = check(json.loads(action.text))
    assert event["error"]["type"] == "invalid_request_error"
    return event["error"]


@pytest.mark.parametrize(
    ("text", "code", "param"),
    [
        ("", "invalid_json", None),
        ("{", "invalid_json", None),
        ("[]", "invalid_json", None),
        ("null", "invalid_json", None),
        ("[" * 200_000, "invalid_json", None),
        ('{"a":' * 40_000, "invalid_json", None),
        ("9" * 10_000, "invalid_json", None),
        ("{}", "missing_required_parameter", "type"),
        ('{"type":7}', "missing_required_parameter", "type"),
        ('{"type":"no.such.event"}', "invalid_value", "type"),
        ('{"type":"input_audio_buffer.append"}', "missing_required_parameter", "audio"),
        ('{"type":"input_audio_buffer.append","audio":7}', "invalid_type", "audio"),
        ('{"type":"input_audio_buffer.append","audio":""}', "bad_audio", "audio"),
        ('{"type":"input_audio_buffer.append","audio":"AAAA"}', "bad_audio", "audio"),
        ('{"type":"input_audio_buffer.append","audio":"\\ud800"}', "bad_audio", "audio"),
        ('{"type":"response.create","response":{"instructions":"\\udc00"}}', "invalid_json", None),
        ('{"type":"input_audio_buffer.clear","more":1}', "unknown_parameter", "more"),
        (
            '{"type":"input_audio_buffer.commit"}',
            "input_audio_buffer_commit_empty",
            None,
        ),
        ('{"type":"response.cancel"}', "response_cancel_not_active", None),
        (
            '{"type":"response.cancel","response_id":"r"}',
            "response_cancel_not_active",
            "response_id",
        ),
        ('{"type":"response.create","response":[]}', "invalid_type", "response"),
        (
            '{"type":"conversation.item.truncate","item_id":"x","content_index":0,"audio_end_ms":1}',
            "item_not_found",
            "item_id",
        ),
        ("x" * (MAX_MESSAGE + 1), "message_too_large", None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_malformed_input_is_refused(text, code, param):
    error = refusal(core().receive(text))
    assert (error["code"], error["param"]) == (code, param)
    assert error["message"]


@pytest.mark.parametrize(
    ("session", "code", "param"),
    [
        ({}, "missing_required_parameter", "session.type"),
        ({"type": "other"}, "invalid_value", "session.type"),
        ({"type": "translation"}, "not_supported", "session.type"),
        ({"type": "transcription", "tools": []}, "unknown_parameter", "session.tools"),
        ({"voice": "alloy"}, "unknown_parameter", "session.voice"),
        (
            {"tools": [{"type": "mcp", "server_label": "x"}]},
            "not_supported",
            "session.tools[0].type",
        ),
        (
            {"tools": [{"type": "function", "name": "a b"}]},
            "invalid_value",
            "session.tools[0].name",
        ),
        ({"tools": [{"type": "function", "name": "a"}] * 2}, "invalid_value", "session.tools"),
        ({"tools": [{"name": "a"}]}, "missing_required_parameter", "session.tools[0].type"),
        ({"tools": [7]}, "invalid_type", "session.tools[0]"),
        ({"tool_choice": {"type": "mcp"}}, "not_supported", "session.tool_choice.type"),
        ({"tool_choice": {"type": "function"}}, "invalid_value", "session.tool_choice"),
        ({"tool_choice": "any"}, "invalid_value", "session.tool_choice"),
        (
            {"tool_choice": {"type": "function", "name": "f"}},
            "invalid_value",
            "session.tool_choice",
        ),
        ({"prompt": {"id": "p"}}, "not_supported", "session.prompt"),
        ({"output_modalities": []}, "invalid_value", "session.output_modalities"),
        ({"output_modalities": ["text", "audio"]}, "invalid_value", "session.output_modalities"),
        ({"max_output_tokens": True}, "invalid_value", "session.max_output_tokens"),
        ({"audio": {"output": {"voice": 7}}}, "invalid_type", "session.audio.output.voice"),
        ({"max_output_tokens": 0}, "invalid_value", "session.max_output_tokens"),
        ({"temperature": "hot"}, "invalid_type", "session.temperature"),
        (
            {"audio": {"input": {"format": {"type": "audio/opus"}}}},
            "invalid_value",
            "session.audio.input.format.type",
        ),
        (
            {"audio": {"output": {"format": {"type": "audio/pcm", "rate": 44100}}}},
            "invalid_value",
            "session.audio.output.format.rate",
        ),
        ({"audio": {"output": {"speed": 9}}}, "invalid_value", "session.audio.output.speed"),
        (
            {"audio": {"input": {"turn_detection": {"type": "none"}}}},
            "invalid_value",
            "session.audio.input.turn_detection.type",
        ),
        (
            {"audio": {"input": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 1}}}},
            "invalid_value",
            "session.audio.input.turn_detection.idle_timeout_ms",
        ),
        (
            {"audio": {"input": {"transcription": {"language": "zh", "extra": 1}}}},
            "unknown_parameter",
            "session.audio.input.transcription.extra",
        ),
        (
            {"audio": {"input": {"transcription": {"language": "中文"}}}},
            "invalid_value",
            "session.audio.input.transcription.language",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_session_updates_that_cannot_be_met_are_refused(session, code, param):
    update = {
        "type": "session.update",
        "event_id": "mine",
        "session": {**({"type": "realtime"} if session else {}), **session},
    }
    error = refusal(core().receive(json.dumps(update)))
    assert (error["code"], error["param"], error["event_id"]) == (code, param, "mine")


@pytest.mark.parametrize(
    ("event", "code", "param"),
    [
        ({"item": {"type": "function_call_output"}}, "missing_required_parameter", "item.call_id"),
        ({"item": {"type": "note"}}, "invalid_value", "item.type"),
        ({"item": {}}, "missing_required_parameter", "item.type"),
        ({"item": {"type": "mcp_approval_response"}}, "not_supported", "item.type"),
        ({"item": {"type": "item_reference", "id": "taken"}}, "not_supported", "item.type"),
        ({"item": {**MESSAGE, "role": "developer"}}, "invalid_value", "item.role"),
        ({"item": {**MESSAGE, "content": []}}, "invalid_value", "item.content"),
        (
            {"item": {**MESSAGE, "content": [{"type": "input_audio", "audio": "AAAA"}]}},
            "not_supported",
            "item.content[0].type",
        ),
        (
            {"item": {**MESSAGE, "content": [{"type": "input_image", "image_url": "x"}]}},
            "not_supported",
            "item.content[0].type",
        ),
        ({"item": MESSAGE, "previous_item_id": "other"}, "item_not_found", "previous_item_id"),
        ({"item": {**MESSAGE, "id": "taken"}}, "item_id_taken", "item.id"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_items_that_cannot_be_added_are_refused(event, code, param):
    session = core()
    create = {"type": "conversation.item.create"}
    session.receive(json.dumps({**create, "item": {**MESSAGE, "id": "taken"}}))
    error = refusal(session.receive(json.dumps({**create, **event})))
    assert (error["code"], error["param"]) == (code, param)


def test_a_whole_surrogate_pair_is_text():
    item = {**MESSAGE, "content": [{"type": "input_text", "text": "好😀"}]}
    text = json.dumps({"type": "conversation.item.create", "item": item})
    assert "\\ud83d" in text
    action = core().receive(text)[0]
    assert isinstance(action, Add)
    assert action.item == Message(role="user", text="好😀")


def test_binary_messages_are_refused():
    assert "inary" in refusal(core().receive_binary())["message"]


def test_failures_have_the_class_that_metrics_count():
    (audio,) = core().receive('{"type":"input_audio_buffer.append","audio":"!"}')
    (other,) = core().receive("?")
    assert isinstance(audio, Refuse)
    assert isinstance(audio.error, BadAudio)
    assert isinstance(other, Refuse)
    assert isinstance(other.error, BadRequest)


def test_an_event_id_of_the_wrong_shape_is_not_repeated():
    error = refusal(core().receive('{"type":"nothing","event_id":["a"]}'))
    assert error["event_id"] is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=20,
)
#: valid events with parts replaced by anything
KEYS = sorted({key for fields in EVENTS.values() for key in fields} | {"event_id"})
events = st.builds(
    lambda kind, keep, noise: {"type": kind, **(EVENTS[kind] if keep else {}), **noise},
    st.sampled_from(sorted(EVENTS)),
    st.booleans(),
    st.dictionaries(st.sampled_from(KEYS), json_values, max_size=3),
)


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A rich valid event in which one value, however deep, is another one."""
    kind = draw(st.sampled_from(sorted(EVENTS)))
    event: dict[str, Any] = copy.deepcopy({"type": kind, **EVENTS[kind]})
    at: Any = event
    while True:
        keys = sorted(at) if isinstance(at, dict) else range(len(at))
        key = draw(st.sampled_from(list(keys)))
        inner = at[key]
        if not (isinstance(inner, dict | list) and inner) or draw(st.integers(0, 3)) == 0:
            at[key] = draw(json_values)
            return event
        at = inner


def answers_still(session: RealtimeCore, revision: int) -> None:
    """A turn is heard and answered."""
    sent = [
        *session.turn_opened(at_ms=0),
        *session.turn_ended(at_ms=1),
        *session.final("你好", "zh", turn=revision),
        *session.begin(revision),
        *session.text(revision, "好"),
        *session.audio(revision, bytes(960)),
        *session.end(revision, Ending(outcome="answered", heard="好")),
    ]
    kinds = [check(json.loads(text))["type"] for text in sent]
    assert kinds[-1] == "response.done"
    assert "input_audio_buffer.committed" in kinds


messages = json_values.map(json.dumps) | (events | mutated()).map(json.dumps) | st.text()


@settings(max_examples=150, deadline=None)
@given(st.lists(messages, max_size=12))
def test_no_input_makes_the_core_raise(given_messages: list[str]):
    session = core()
    answers_still(session, 1)
    ids: set[str] = set()
    for text in given_messages:
        for action in session.receive(text):
            texts: list[str] = []
            match action:
                case Update():
                    texts = session.updated(action)
                case Respond():
                    session.asked(action)
                    if action.options.ask == 2:
                        texts = session.dropped(2)
                case Hear():
                    assert len(action.data) % action.format.width == 0
                case Refuse() | Send():
                    texts = [action.text]
                case _:
                    pass
            for sent in texts:
                event = check(json.loads(sent))
                assert event["event_id"] not in ids
                ids.add(event["event_id"])
    answers_still(session, 2)


@given(st.binary(max_size=200))
def test_no_bytes_make_the_core_raise(data: bytes):
    assert core().receive(data.decode("utf-8", "surrogateescape"))


@pytest.mark.parametrize(
    ("event", "hint"),
    [
        (
            {"type": "session.update", "session": {"type": "realtime", "voice": "alloy"}},
            "It is 'session.audio.output.voice' now",
        ),
        (
            {"type": "response.create", "response": {"modalities": ["text"]}},
            "It is 'response.output_modalities' now",
        ),
        (
            {
                "type": "conversation.item.create",
                "item": {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_audio", "audio": "AAAA"}],
                },
            },
            "input_audio_buffer.append",
        ),
    ],
)
def test_what_has_another_place_is_refused_with_it(event: dict[str, Any], hint: str):
    wired = Wired()
    kind = event.pop("type")
    wired.refused(kind, **event)
    assert hint in wired.events[-1]["error"]["message"]
