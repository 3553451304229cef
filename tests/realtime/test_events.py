"""Invariants: every client event type of the protocol is handled or refused by name; no input makes
the core raise; a refusal names the field and the client's event.
"""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.realtime.realtime_client_event import RealtimeClientEvent

from services.realtime.actions import Action, AddText, Hear, Refuse, Update
from services.realtime.events import NOT_SUPPORTED
from services.realtime.messages import MAX_MESSAGE
from services.realtime.protocol import RealtimeCore
from services.realtime.session import Session
from tests.realtime.fakes import check
from tts_engine.errors import BadAudio, BadRequest

AUDIO = {"type": "input_audio_buffer.append", "audio": "AAAA" * 4}
MESSAGE = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "你好"}]}
#: the least valid event of each type
EVENTS: dict[str, dict[str, Any]] = {
    "session.update": {"session": {"type": "realtime"}},
    "input_audio_buffer.append": {"audio": "AAAA" * 4},
    "input_audio_buffer.commit": {},
    "input_audio_buffer.clear": {},
    "conversation.item.create": {"item": MESSAGE},
    "conversation.item.truncate": {"item_id": "x", "content_index": 0, "audio_end_ms": 0},
    "conversation.item.delete": {"item_id": "x"},
    "conversation.item.retrieve": {"item_id": "x"},
    "response.create": {},
    "response.cancel": {},
    "output_audio_buffer.clear": {},
}
CLIENT_TYPES = [
    get_args(model.model_fields["type"].annotation)[0]
    for model in get_args(get_args(RealtimeClientEvent)[0])
]


def core() -> RealtimeCore:
    return RealtimeCore(session=Session(id="s", default_voice="xiaobei"), seed="seed")


def refusal(actions: list[Action]) -> dict[str, Any]:
    (action,) = actions
    assert isinstance(action, Refuse)
    event = check(json.loads(action.text))
    assert event["error"]["type"] == "invalid_request_error"
    return event["error"]


@pytest.mark.parametrize("kind", CLIENT_TYPES)
def test_every_client_event_type_is_known(kind):
    session = core()
    session.receive(json.dumps(AUDIO))
    session.begin(1)
    item_id = json.loads(session.text(1, "好")[0])["item_id"]
    fields = {**EVENTS[kind], "event_id": "mine"}
    if kind == "conversation.item.truncate":
        fields["item_id"] = item_id
    actions = session.receive(json.dumps({"type": kind, **fields}))
    if kind in NOT_SUPPORTED:
        error = refusal(actions)
        assert error["code"] == "not_supported"
        assert kind in error["message"]
        assert error["event_id"] == "mine"
    else:
        assert actions
        assert not any(isinstance(action, Refuse) for action in actions)


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
        ({"type": "transcription"}, "invalid_value", "session.type"),
        ({"voice": "alloy"}, "unknown_parameter", "session.voice"),
        ({"tools": [{"type": "function", "name": "f"}]}, "not_supported", "session.tools"),
        ({"tool_choice": "required"}, "not_supported", "session.tool_choice"),
        ({"prompt": {"id": "p"}}, "not_supported", "session.prompt"),
        ({"output_modalities": []}, "invalid_value", "session.output_modalities"),
        ({"output_modalities": ["text", "audio"]}, "invalid_value", "session.output_modalities"),
        ({"max_output_tokens": True}, "invalid_value", "session.max_output_tokens"),
        ({"audio": {"output": {"voice": 7}}}, "invalid_type", "session.audio.output.voice"),
        ({"max_output_tokens": 0}, "invalid_value", "session.max_output_tokens"),
        ({"temperature": "hot"}, "invalid_type", "session.temperature"),
        ({"temperature": float("nan")}, "invalid_value", "session.temperature"),
        (
            {"audio": {"input": {"format": {"type": "audio/pcmu"}}}},
            "invalid_value",
            "session.audio.input.format.type",
        ),
        (
            {"audio": {"output": {"format": {"type": "audio/pcm", "rate": 16000}}}},
            "invalid_value",
            "session.audio.output.format.rate",
        ),
        ({"audio": {"output": {"speed": 9}}}, "invalid_value", "session.audio.output.speed"),
        (
            {"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}},
            "invalid_value",
            "session.audio.input.turn_detection.type",
        ),
        (
            {"audio": {"input": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 1}}}},
            "not_supported",
            "session.audio.input.turn_detection.idle_timeout_ms",
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
        ({"item": {"type": "function_call_output"}}, "invalid_value", "item.type"),
        ({"item": {**MESSAGE, "role": "developer"}}, "invalid_value", "item.role"),
        ({"item": {**MESSAGE, "content": []}}, "invalid_value", "item.content"),
        (
            {"item": {**MESSAGE, "content": [{"type": "input_audio", "audio": "AAAA"}]}},
            "invalid_value",
            "item.content[0].type",
        ),
        ({"item": MESSAGE, "previous_item_id": "other"}, "not_supported", "previous_item_id"),
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


@pytest.mark.parametrize(
    ("response", "param"),
    [
        ({"conversation": "none"}, "response.conversation"),
        ({"input": []}, "response.input"),
        ({"metadata": {"a": "b"}}, "response.metadata"),
        ({"tools": [{}]}, "response.tools"),
        ({"tool_choice": "required"}, "response.tool_choice"),
        ({"output_modalities": ["text"]}, "response.output_modalities"),
        ({"audio": {"output": {"voice": "nicole"}}}, "response.audio"),
        ({"max_output_tokens": 5}, "response.max_output_tokens"),
    ],
    ids=str,
)
def test_options_of_one_response_are_refused(response, param):
    error = refusal(core().receive(json.dumps({"type": "response.create", "response": response})))
    assert error["param"] == param


def test_a_whole_surrogate_pair_is_text():
    item = {**MESSAGE, "content": [{"type": "input_text", "text": "好😀"}]}
    text = json.dumps({"type": "conversation.item.create", "item": item})
    assert "\\ud83d" in text
    assert core().receive(text)[0] == AddText("user", "好😀")


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
KEYS = sorted({key for fields in EVENTS.values() for key in fields} | {"event_id", "response"})
events = st.builds(
    lambda kind, keep, noise: {"type": kind, **(EVENTS[kind] if keep else {}), **noise},
    st.sampled_from(sorted(EVENTS)),
    st.booleans(),
    st.dictionaries(st.sampled_from(KEYS), json_values, max_size=3),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(json_values.map(json.dumps) | events.map(json.dumps) | st.text(), max_size=8))
def test_no_input_makes_the_core_raise(messages):
    session = core()
    ids: set[str] = set()
    for text in messages:
        for action in session.receive(text):
            if isinstance(action, Update):
                texts = session.updated(action)
            elif isinstance(action, Hear):
                assert len(action.pcm) % 2 == 0
                continue
            else:
                texts = [action.text] if isinstance(action, Refuse) else []
            for sent in texts:
                event = check(json.loads(sent))
                assert event["event_id"] not in ids
                ids.add(event["event_id"])


@given(st.binary(max_size=200))
def test_no_bytes_make_the_core_raise(data):
    assert core().receive(data.decode("utf-8", "surrogateescape"))
